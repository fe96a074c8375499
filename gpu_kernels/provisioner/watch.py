"""Watching a child process start: what it said on standard error, and whether it died at once."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from subprocess import Popen
from typing import Any

TAIL_BYTES = 4096
POLL_S = 0.01


class StderrTail:
    """Standard error of a child: copied to this process's own, as if inherited, with its end remembered.

    The copying thread ends when the last process that holds the pipe has ended.
    """

    def __init__(self, limit: int = TAIL_BYTES) -> None:
        self._limit = limit
        self._tail = bytearray()
        self._lock = threading.Lock()
        self._source, self.child_end = os.pipe()
        self._thread = threading.Thread(target=self._copy, name="kernel-stderr", daemon=True)

    def started(self) -> None:
        """Call once, after the child was started or could not be: this process lets go of the child's end."""
        os.close(self.child_end)
        self._thread.start()

    def _copy(self) -> None:
        while data := os.read(self._source, 65536):
            with self._lock:
                self._tail += data
                del self._tail[: -self._limit]
            _write_all(2, data)
        os.close(self._source)

    def text(self, wait_s: float = 0.0, lines: int = 8) -> str:
        """The last lines; waits up to ``wait_s`` for the pipe to end, as a dead child's does."""
        self._thread.join(wait_s)
        with self._lock:
            text = self._tail.decode(errors="replace")
        return "\n".join(text.strip().splitlines()[-lines:])


def _write_all(descriptor: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        # Nobody reads our standard error: the kernel must not stall for that.
        return


async def died_within(process: Popen[Any], seconds: float) -> bool:
    """Whether ``process`` ends within ``seconds``. Its own start-up takes longer, so a healthy one loses
    nothing.
    """
    deadline = time.monotonic() + seconds
    while process.poll() is None:
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(POLL_S)
    return True


def ending(returncode: int) -> str:
    """How a process ended, in words: ``exit status 1``, ``signal SIGSEGV``."""
    if returncode >= 0:
        return f"exit status {returncode}"
    try:
        return f"signal {signal.Signals(-returncode).name}"
    except ValueError:
        return f"signal {-returncode}"
