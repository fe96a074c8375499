"""Runs a command that ends when its parent ends:
`python -m gpu_kernels.hub_config.lab.die_with_parent [--yielding] COMMAND...`.

The kernel sends SIGTERM to the process when the thread that started it dies, whatever killed it. The command
replaces this interpreter (exec), so that process ids, signals and exit codes are the command's own.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from gpu_kernels.priority import yield_processors

PR_SET_PDEATHSIG = 1
YIELDING = "--yielding"
NICENESS = 10


def die_with_parent(parent: int) -> None:
    """Asks for SIGTERM at the death of `parent`, and ends now if that has already happened."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        sys.exit(0)


def main(command: list[str]) -> None:
    yields, command = command[:1] == [YIELDING], command[command[:1] == [YIELDING] :]
    if not command:
        sys.exit("usage: python -m gpu_kernels.hub_config.lab.die_with_parent [--yielding] COMMAND...")
    die_with_parent(os.getppid())
    for ignored in (signal.SIGINT, signal.SIGHUP):  # as what starts in the background has them: see up.py
        signal.signal(ignored, signal.SIG_DFL)
    if yields:
        yield_processors(NICENESS)
    os.execvp(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
