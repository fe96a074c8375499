"""Runs a command and starts it again when it dies: `python -m gpu_kernels.hub_config.lab.respawn COMMAND...`.

For the controller under a hub: the hub itself looks after a service every 30 seconds only, which is most of a
lease's life. A command that ends well, or dies within its first seconds (a taken port, a broken
configuration), is not started again: its exit status is this program's, for the hub to see.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from types import FrameType

from gpu_kernels.hub_config.lab.die_with_parent import die_with_parent

SETTLED_S = 5.0


def main(command: list[str]) -> int:
    die_with_parent(os.getppid())
    child: subprocess.Popen[bytes] | None = None
    stopping = False

    def pass_on(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True
        if child is not None:
            child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    status = 0
    while not stopping:
        begun = time.monotonic()
        child = subprocess.Popen(
            [sys.executable, "-m", "gpu_kernels.hub_config.lab.die_with_parent", *command]
        )
        if stopping:  # the signal came while the child was being made
            child.terminate()
        status = child.wait()
        if status == 0 or time.monotonic() - begun < SETTLED_S:
            return status
        if not stopping:
            print(
                f"{' '.join(command[:3])} ended with {status}; starting it again", file=sys.stderr, flush=True
            )
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
