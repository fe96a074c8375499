"""JAX and TensorFlow as their wheels come: on this machine's CPU, and on the software GPU both ways."""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_kernels.remoting.environment import without_gpu
from tests.conformance.places import PLACES
from tests.frameworks import installed

A_FIFTIETH = {"GPU_KERNELS_SOFTGPU_MEMORY_MIB": "655"}
"""Straight: what 0.02 of a V100 has."""
PROGRAMS = Path(__file__).parent / "programs"

Run = Callable[..., dict[str, Any]]
"""Runs a program of ``programs`` in the fixture's place, and gives what it said."""


def python_with(framework: str) -> str:
    """The Python of ``make frameworks``, or the one that GPU_KERNELS_FRAMEWORK_PYTHON names; else a skip."""
    variable = f"GPU_KERNELS_{framework.upper()}_PYTHON"
    found = f"from importlib.util import find_spec; assert find_spec({framework!r})"
    try:
        return installed.python_with(framework, variable, found)
    except installed.NotInstalled as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module", params=["straight", "forwarded"])
def environment(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    with PLACES[request.param](1) as process, process() as env:
        yield {name: value for name, value in env.items() if name != "GPU_KERNELS_SOFTGPU_LOG"}


@pytest.fixture(scope="module")
def cpu_environment() -> dict[str, str]:
    return without_gpu(os.environ) | {"JAX_PLATFORMS": "cpu"}


def run(python: str, program: str, environment: dict[str, str], *words: str, **extra: str) -> dict[str, Any]:
    """What a program printed as JSON in its last line; ``stderr`` is added."""
    done = subprocess.run(
        [python, PROGRAMS / program, *words],
        env=environment | extra,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return {**json.loads(done.stdout.splitlines()[-1]), "stderr": done.stderr}


def assert_goes_by_the_slices_memory(said: dict[str, Any], error: str) -> None:
    """Of a program that asked for more than there is, and for half of it."""
    assert said["refused"].startswith(error), said["refused"]
    assert said["goes on"] == [2, 4]
    assert said["in use"] < 64
    assert said["total"] / 2 <= said["half"] < said["total"]


def assert_close(here: dict[str, Any], cpu: dict[str, Any], digits: int = 4) -> None:
    """Each list of numbers that ``here`` has is the CPU's to so many digits."""
    assert here.keys() == cpu.keys()
    for name, numbers in here.items():
        if name == "stderr":
            continue
        assert len(numbers) == len(cpu[name]), name
        for one, other in zip(numbers, cpu[name], strict=True):
            assert math.isclose(one, other, rel_tol=10**-digits, abs_tol=10**-digits), (name, one, other)
