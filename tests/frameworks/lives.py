"""Programs whose slice goes away while they use it."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import psutil

WORKER = "gpu-worker"
ENDS_WITHIN_S = 900
LOST = "lost"
"""What has happened to a slice whose worker was killed."""


def run(
    python: str, program: Path, how: str, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run ``program`` with the word ``how``. It prints ``ready`` and waits for a line; then its workers have
    been killed, where ``how`` begins with ``lost``. The output is what came after ``ready``.
    """
    command: Sequence[str] = [python, str(program), how]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdout is not None
        try:
            is_ready = "ready\n" in iter(process.stdout.readline, "")
            if is_ready and how.startswith(LOST):
                kill_workers()
            output = process.communicate("go on\n" if is_ready else None, timeout=ENDS_WITHIN_S)[0]
        finally:
            process.kill()
        errors.seek(0)
        return subprocess.CompletedProcess(command, process.returncode, output, errors.read())


def kill_workers() -> None:
    """Those that this process's agents have started."""
    found = [each for each in psutil.Process().children(recursive=True) if each.name() == WORKER]
    assert found, "no worker is there to be killed"
    for worker in found:
        os.kill(worker.pid, signal.SIGKILL)
    psutil.wait_procs(found, timeout=60)
