"""What the agents of one machine promise of its memory, each for its software GPUs.

A promise is an abstract socket whose name says how much it is: all of a network namespace see it in
/proc/net/unix, of whatever account its agent is, and it goes with the agent, however that ends. One agent at
a time looks what is left and takes its part.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpu_kernels.remoting.machine_memory import MachineMemory

PREFIX = "gpu-kernels/software-memory"
SOCKETS = Path("/proc/net/unix")
WITHIN_S = 10.0
BETWEEN_LOOKS_S = 0.02


class NoMemoryLeft(Exception):
    """Nothing can be offered here; the text is for who runs the agent."""


@dataclass(frozen=True)
class Promise:
    """In force while the object lives. ``each_mib`` is what each software GPU may offer, ``text`` how that
    came about."""

    each_mib: int
    reduced: bool
    text: str
    claim: socket.socket | None = None


def promise(memory: MachineMemory, asked_mib: int, count: int, least_mib: int) -> Promise:
    """Promise up to ``asked_mib`` for each of ``count`` software GPUs. Raises ``NoMemoryLeft`` where that
    would be less than ``least_mib``."""
    if memory.told:
        return _within(memory, asked_mib, count, least_mib, {})
    with _alone():
        made = _within(memory, asked_mib, count, least_mib, promised())
        return Promise(made.each_mib, made.reduced, made.text, _claim(made.each_mib * count))


def promised() -> dict[int, int]:
    """What agents of this machine have promised, in MiB by their process ids."""
    pattern = re.compile(rf"@{PREFIX}/(\d{{1,10}})/(\d{{1,12}})$")
    found = filter(None, map(pattern.search, SOCKETS.read_text().splitlines()))
    return {int(each[1]): int(each[2]) for each in found}


def _within(
    memory: MachineMemory, asked_mib: int, count: int, least_mib: int, others: dict[int, int]
) -> Promise:
    each = min(asked_mib, max(0, memory.software_mib - sum(others.values())) // count)
    beside = ", ".join(f"process {pid} offers {mib}" for pid, mib in sorted(others.items()))
    why = (
        f"{memory.mib} MiB ({memory.source}), of which {memory.reserve_mib} are kept for the rest of it and "
        f"at least {memory.room_mib // 4} for workers themselves" + (f"; {beside}" if beside else "")
    )
    if each < least_mib:
        raise NoMemoryLeft(
            f"no memory is left for a software GPU: this machine has {why}. Stop what offers it, or say "
            "what part of the machine is this agent's: machine_memory_mib, or GPU_KERNELS_MACHINE_MEMORY_MIB"
        )
    text = f"{count} software GPU{'s' if count > 1 else ''} with {each} MiB"
    if each < asked_mib:
        return Promise(each, True, f"{text}, not {asked_mib} as configured: this machine has {why}")
    return Promise(each, False, f"{text}; this machine has {why}")


def _claim(mib: int) -> socket.socket:
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    claim.bind(f"\0{PREFIX}/{os.getpid()}/{mib}")
    return claim


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Raises ``NoMemoryLeft`` where another agent does not let go of it."""
    until = time.monotonic() + WITHIN_S
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lock:
        while True:
            try:
                lock.bind(f"\0{PREFIX}")
                break
            except OSError:
                if time.monotonic() > until:
                    raise NoMemoryLeft(
                        "another process of this machine has been looking for memory to promise for "
                        f"{WITHIN_S:g} s: end it, or set machine_memory_mib"
                    ) from None
                time.sleep(BETWEEN_LOOKS_S)
        yield
