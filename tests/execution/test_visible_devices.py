"""CUDA_VISIBLE_DEVICES chooses among the GPUs of a lease, as it does among those of a machine."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.both_ways import environments
from tests.forwarding.minimal_agent import MinimalAgent, uuid_of
from tests.native_build import Build, python_path

from .conftest import MEMORY_MIB

NO_DEVICE, NOT_INITIALIZED = 100, 3
FIRST, SECOND = uuid_of(0), uuid_of(1)
BOTH = [0, 1]
CHOICES: dict[str | None, list[int]] = {
    None: BOTH,
    "0,1": BOTH,
    "1": [1],
    "1,0": [1, 0],
    " 1 , 0": [1, 0],
    "1,-1,0": [1],
    "0,7,1": [0],
    "1gpu,0": [1, 0],
    SECOND: [1],
    f"{SECOND[:6]},{FIRST[:6]}": [1, 0],
    f"{SECOND},0": [1],
    "": [],
    "-1": [],
    "2": [],
    "none": [],
    "0,0": [],
    f"{FIRST},{FIRST}": [],
    "GPU-": [],
    "GPU-ff": [],
    "MIG-0": [],
}


@pytest.fixture(scope="module")
def seen(agent: MinimalAgent, native: Build) -> list[tuple[dict[str | None, Any], str]]:
    """Straight and forwarded: what the program saw with each value, and what it was told."""
    results = []
    for environment in environments(agent, native, MEMORY_MIB):
        environment.pop("CUDA_VISIBLE_DEVICES", None)
        path = python_path(environment)
        run = subprocess.run(
            [sys.executable, "-m", "tests.execution.cases_visible_devices", json.dumps(list(CHOICES))],
            env=environment | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        results.append((dict(json.loads(line) for line in run.stdout.splitlines()), run.stderr))
    return results


@pytest.mark.parametrize("value", CHOICES)
def test_the_list_chooses_and_orders(
    seen: list[tuple[dict[str | None, Any], str]], value: str | None
) -> None:
    (straight, _), (forwarded, _) = seen
    assert forwarded[value] == straight[value]
    if not CHOICES[value]:
        assert straight[value] == [NO_DEVICE, NOT_INITIALIZED]
        return
    started, devices, code = straight[value]
    assert (started, code) == (0, 0)
    for number, (there, device) in enumerate(zip(CHOICES[value], devices, strict=True)):
        uuid, bus, back, memory, right_memory, *work = device
        assert uuid == uuid_of(there)[4:].replace("-", "")
        assert (bus, back, memory, right_memory) == (
            f"0000:00:{there:02x}.0",
            number,
            MEMORY_MIB[there] << 20,
            True,
        )
        written = f"{number + 5:02x}000000{number + 6:02x}000000"
        assert work == [number, written] * 3


def test_a_list_that_leaves_nothing_is_explained_and_none_is_not(
    seen: list[tuple[dict[str | None, Any], str]],
) -> None:
    for _, told in seen:
        assert "CUDA_VISIBLE_DEVICES=2 leaves this program no GPU: there are 2 GPUs, numbers 0 to 1" in told
        assert "CUDA_VISIBLE_DEVICES=-1" not in told
