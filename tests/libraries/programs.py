"""Programs of this folder that call a library of our own, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpu_kernels.remoting.paths import native_build
from tests.conformance.places import PLACES
from tests.native_build import python_path

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


@contextmanager
def slice_at(place: str) -> Iterator[dict[str, str]]:
    """The environment of a program with a slice of its own: a fault ends the worker."""
    with PLACES[place](1) as process, process() as environment:
        yield environment | {"PYTHONPATH": python_path()}


def beyond(found: Mapping[str, float], tolerance: Callable[[str], float]) -> dict[str, float]:
    """Which differences are larger than may be; one that is no number is."""
    return {name: far for name, far in found.items() if not far <= tolerance(name)}
