"""PyTorch's operator database on the software GPU, against the CPU and against the committed list.

An operator that fails and is not on the list fails the run, and so does one on it that passes. Two sample
inputs of each operator and type are tried; GPU_KERNELS_OPERATOR_SAMPLES=0 tries all (a quarter of an hour).
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from . import places

pytestmark = [pytest.mark.slow, pytest.mark.native, pytest.mark.timeout(3600)]

LIST = Path(__file__).parent / "lists" / "operators.txt"
SAMPLES = int(os.environ.get("GPU_KERNELS_OPERATOR_SAMPLES", "2"))
CASES_AT_LEAST = 5900
PASS_AT_LEAST = 0.99


def listed(everything: bool) -> set[str]:
    """The cases that do not pass, as the program names them."""
    cases = set()
    for line in LIST.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        among_all, line = line.startswith("all: "), line.removeprefix("all: ")
        operator, types, case, _ = line.split(": ", 3)
        if everything or not among_all:
            cases |= {f"{operator} {each} {case}" for each in types.split()}
    return cases


def test_operators_agree_with_the_cpu(pytorch: str, place: str) -> None:
    done = places.run(pytorch, place, "operators.py", "--samples", str(SAMPLES))
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    expected = listed(everything=SAMPLES == 0)
    unlisted = {case: why for case, why in found["failed"].items() if case not in expected}
    assert not unlisted
    assert not expected - set(found["failed"]), "these pass now: take them from the list"
    assert found["passed"] >= CASES_AT_LEAST
    assert found["passed"] >= PASS_AT_LEAST * (found["passed"] + len(found["failed"]))
