"""Processes that outlive what started them: a submission's may leave its session and go on."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
WITHIN_S = 5.0
"""Who starts processes faster than they are killed is not waited for longer."""
EACH_S = 0.01


def come_to_us() -> None:
    """Whatever loses its parent below this process is this one's child from now on, not init's."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> list[int]:
    return _below(os.getpid(), 1)


def end(spared: Collection[int] = ()) -> bool:
    """Kill all children and theirs but the ``spared`` ones, for a bounded time; whether none is left."""
    until = time.monotonic() + WITHIN_S
    while strays := [child for child in children() if child not in spared]:
        for child in strays:
            for process in [*_below(child), child]:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(child, os.WNOHANG)
        if time.monotonic() > until:
            return False
        time.sleep(EACH_S)
    return True


def _below(process: int, generations: int = 1000) -> list[int]:
    """The process's children, theirs, and so on."""
    of: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError, ValueError, IndexError):
                status = Path("/proc", entry, "stat").read_bytes()
                parent = int(status.rpartition(b")")[2].split()[1])  # a name may hold anything
                of.setdefault(parent, []).append(int(entry))
    found, newest = [], [process]
    while generations and newest:
        newest = [child for parent in newest for child in of.get(parent, ())]
        found += newest
        generations -= 1
    return found
