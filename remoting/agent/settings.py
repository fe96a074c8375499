"""What an agent is told; ``app`` fills it in from the command line and the configuration file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpu_kernels.remoting.machine_memory import MachineMemory, machine_memory
from gpu_kernels.remoting.paths import NativeBuild


@dataclass(frozen=True)
class Limits:
    """What strangers may take of the data port."""

    hello_bytes_within_s: float = 5.0
    lookup_s: float = 5.0
    worker_s: float = 30.0
    pending_of_a_peer: int = 128
    pending: int = 512


@dataclass(frozen=True)
class WorkerSettings:
    """How workers are started. ``uids`` is a range of accounts, one for each worker, ``user`` the name of one
    for all; without both it is the agent's own. ``cgroups`` is "auto", "off" or a folder (``cgroups.py``);
    ``takes_orphans``: this process has no children but workers (``cells.py``). ``rlimits`` maps
    names such as ``NOFILE`` to a soft and hard limit; ``memory_mib`` is for the worker itself, not its slice,
    0 for its share (``own_memory``) of ``machine``;
    ``seccomp`` is "required", "optional" (where the kernel has it) or "off"; ``libraries`` are folders of
    NVIDIA's maths libraries.
    """

    native: NativeBuild
    program: Path
    nvidia_driver: str
    user: str | None = None
    uids: str | None = None
    cgroups: str = "off"
    takes_orphans: bool = False
    rlimits: Mapping[str, int] = field(default_factory=dict)
    kept_variables: tuple[str, ...] = ()
    software_threads: int | None = None
    memory_mib: int = 0
    machine: MachineMemory = field(default_factory=machine_memory)
    seccomp: str = "required"
    libraries: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """All of an agent's settings; times in seconds. ``fences_after_s``: without an acknowledged report for
    so long, everything is stopped; 0 for never."""

    name: str
    state: Path
    listen: tuple[str, ...]
    advertised: str | None
    workers: WorkerSettings
    limits: Limits = Limits()
    report_every_s: float = 10.0
    fences_after_s: float = 600.0
    stop_within_s: float = 10.0
