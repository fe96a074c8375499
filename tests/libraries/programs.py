"""Programs of this folder that call a library of our own, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpu_kernels.remoting.paths import native_build

HERE = Path(__file__).parent

Run = Callable[..., tuple[dict[str, Any], str]]
"""``run(environment, program, what)``: what the program printed, and what it said. A fourth argument is
another major version of the library than the newest."""


def runner_of(library: str, newest: int) -> Run:
    """Runs programs, which must succeed, with ``library``, "cublas" say."""

    def run(
        environment: Mapping[str, str], program: str, what: str, major: int = newest
    ) -> tuple[dict[str, Any], str]:
        done = subprocess.run(
            [sys.executable, HERE / program, what, native_build().libraries / f"lib{library}.so.{major}"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=500,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout), done.stderr

    return run
