"""Starting, watching and ending the processes of a lab, so that none is left whatever happens.

Every process of a lab carries the lab's marker in its environment (children inherit it), which makes the
question "is anything left?" answerable without knowing who started what: kernels, terminals, workers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from gpu_kernels.hub_config.lab.settings import MARKER_VARIABLE


class LabError(RuntimeError):
    """A lab could not do what was asked; the text is for the person who started it."""


class Process:
    """One service: a command tied to this process, in a session of its own, logging to a file.

    Its own session keeps a Ctrl-C at the terminal from it: the supervisor decides who stops when.
    """

    def __init__(self, name: str, command: list[str], log: Path, env: Mapping[str, str], cwd: Path) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as file:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "gpu_kernels.hub_config.lab.die_with_parent", *command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    def is_alive(self) -> bool:
        return self._popen.poll() is None

    def wait_until(self, ready: Callable[[], bool], timeout: float, what: str) -> None:
        """Polls `ready` until it holds. Raises LabError with the log's end if that does not happen."""
        deadline = time.monotonic() + timeout
        while not ready():
            if not self.is_alive():
                raise LabError(
                    f"{self.name} ended with {self._popen.returncode} before {what}.\n{self.log_tail()}"
                )
            if time.monotonic() > deadline:
                raise LabError(f"{self.name}: {what} did not happen in {timeout:.0f} s.\n{self.log_tail()}")
            time.sleep(0.1)

    def stop(self, timeout: float) -> None:
        """SIGTERM, and SIGKILL to its whole session after `timeout` seconds. Returns when it has ended."""
        self.signal(signal.SIGTERM)
        try:
            self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()

    def signal(self, number: int) -> None:
        if self.is_alive():
            self._popen.send_signal(number)

    def log_tail(self, lines: int = 25) -> str:
        return f"The end of {self.log}:\n" + tail(self.log, lines)


def tail(path: Path, lines: int) -> str:
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return "  (no such file)"
    return "\n".join("  " + line for line in text.splitlines()[-lines:])


def marked(marker: str) -> list[psutil.Process]:
    """The processes of the lab with this marker, but for the one that asks."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(MARKER_VARIABLE) == marker:
                found.append(process)
    return found


def describe(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return f"{process.pid} ({' '.join(process.cmdline())[:120]})"
    return str(process.pid)


def kill_marked(marker: str, grace: float = 3.0) -> list[str]:
    """Ends what carries the marker: SIGTERM, then SIGKILL after `grace` seconds. Says what it ended."""
    killed: list[str] = []
    for signum in (signal.SIGTERM, signal.SIGKILL):
        left = marked(marker)
        for process in left:
            if signum == signal.SIGTERM:
                killed.append(describe(process))
            with contextlib.suppress(psutil.Error):
                process.send_signal(signum)
        psutil.wait_procs(left, timeout=grace)
    return killed


def marked_commands(marker: str, name: str) -> list[str]:
    """The lab's processes that run the program `name`."""
    return [text for text in map(describe, marked(marker)) if name in text]
