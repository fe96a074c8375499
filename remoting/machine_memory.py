"""How much memory this machine has to give, and what software GPUs may promise of it.

A software GPU's memory is this machine's. What is promised to leases must be there when they use it all at
once: the kernel would end somebody's work for it otherwise.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpu_kernels.errors import GPUKernelsError

MIB = 1024 * 1024
VARIABLE = "GPU_KERNELS_MACHINE_MEMORY_MIB"
LIMITS = {"cgroup2": "memory.max", "cgroup": "memory.limit_in_bytes"}
"""The file that bounds a cgroup's memory, by the type of the tree's file system."""


class BadMachineMemory(GPUKernelsError):
    """What is said of this machine's memory cannot be; the text is for who said it."""

    code = "bad_machine_memory"


@dataclass(frozen=True)
class MachineMemory:
    """``mib`` is all that counts here, and ``source`` what says so. ``told``: an admin has said it, and has
    divided the machine where several share it.
    """

    mib: int
    source: str
    told: bool = False

    @property
    def reserve_mib(self) -> int:
        """For the agent and the system: an eighth, and at least 2 GiB; a quarter of a machine that has no
        more than that."""
        return min(max(self.mib // 8, 2048), self.mib // 4)

    @property
    def room_mib(self) -> int:
        """For all workers: their slices of software GPUs, and what they take for themselves."""
        return self.mib - self.reserve_mib

    @property
    def software_mib(self) -> int:
        """What software GPUs may promise together; the rest of the room is for workers themselves."""
        return self.room_mib - self.room_mib // 4

    def own_mib(self, promised_mib: int) -> int:
        """What workers may take for themselves beside slices of so much of this machine's memory."""
        return max(self.room_mib - promised_mib, self.room_mib // 4)


def machine_memory(told_mib: int = 0) -> MachineMemory:
    """What ``told_mib`` says, unless it is 0; else what the machine, or a cgroup of this process, has."""
    if told_mib:
        return MachineMemory(told_mib, "told", told=True)
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // MIB
    found = [MachineMemory(physical, "this machine"), *_of_cgroups()]
    return min(found, key=lambda memory: memory.mib)


def told_mib(environ: Mapping[str, str]) -> int:
    """What the environment says of this machine's memory, 0 where it says nothing. Raises
    ``BadMachineMemory``."""
    text = environ.get(VARIABLE, "")
    if text and not (text.isascii() and text.isdecimal()):
        raise BadMachineMemory(f"{VARIABLE}={text}: a whole number of MiB is wanted")
    return int(text or 0)


def _of_cgroups(proc: Path = Path("/proc/self")) -> Iterator[MachineMemory]:
    """The bounds of this process's cgroup and of those above it, as far as they can be seen."""
    paths = _own_cgroups(proc)
    for line in _lines(proc / "mountinfo"):
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        path = paths.get(kind)
        if path is None or (kind == "cgroup" and "memory" not in options.split(",")):
            continue
        root, mount = before.split(" ")[3:5]
        below = path.removeprefix(root.rstrip("/")).lstrip("/")
        for folder in (Path(mount, below), *Path(mount, below).parents):
            with contextlib.suppress(OSError, ValueError):
                limit = int((folder / LIMITS[kind]).read_text()) // MIB
                yield MachineMemory(limit, f"{LIMITS[kind]} of the cgroup {folder}")
            if folder == Path(mount):
                break


def _own_cgroups(proc: Path) -> dict[str, str]:
    """This process's cgroup in the tree of version 2, and in that of version 1 that bounds memory."""
    found: dict[str, str] = {}
    for line in _lines(proc / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            found["cgroup2"] = path
        elif "memory" in controllers.split(","):
            found["cgroup"] = path
    return found


def _lines(file: Path) -> list[str]:
    """Names in it may be any bytes, also such as end a line of Unicode's."""
    return [line for line in file.read_text(errors="surrogateescape").split("\n") if line]
