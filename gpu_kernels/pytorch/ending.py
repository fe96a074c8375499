"""A process that ends while autograd's threads still hold something of Python's.

A thread of autograd's lets go of a backward pass after it has told that it is done, and needs Python's lock
for what it holds of Python's. Where Python ends meanwhile, it ends each thread that waits for its lock (3.11
to 3.13), in the midst of a destructor: the process is ended by SIGABRT after its last line.
"""

from __future__ import annotations

import atexit
import contextlib
import re
import time
from pathlib import Path

NAME = "pt_autograd_"
"""How PyTorch names these threads, with the device's number."""
QUIET_S = 0.012
"""Longer than Python's switch interval: who waits for the lock runs within it, to ask for it again."""
MOST_S = 2.0
"""Such a thread may be at work for a program's thread that nobody waits for."""


def wait_for_autograd() -> None:
    """Have Python wait for autograd's threads before it ends. Again changes nothing."""
    atexit.unregister(_until_they_wait)
    atexit.register(_until_they_wait)


def _until_they_wait() -> None:
    """Called by Python when it ends: return when none has run while this thread slept, without the lock."""
    end = time.monotonic() + MOST_S
    before, now = None, _threads()
    while now and time.monotonic() < end and not (now == before and all(map(_sleeps, now.values()))):
        time.sleep(QUIET_S)
        before, now = now, _threads()


def _threads() -> dict[str, list[str]]:
    """The state of each, and how often it has been given a processor and lost it, by its id."""
    found = {}
    for status in Path("/proc/self/task").glob("*/status"):  # of no thread where there is no such folder
        with contextlib.suppress(OSError):  # it ended meanwhile
            told = status.read_text(encoding="utf-8", errors="replace")
            if told.startswith(f"Name:\t{NAME}"):
                found[status.parent.name] = re.findall(r"^(?:State|\w*ctxt_switches):\s*(\w+)", told, re.M)
    return found


def _sleeps(state: list[str]) -> bool:
    return state[:1] == ["S"]
