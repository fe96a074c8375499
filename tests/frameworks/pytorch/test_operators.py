"""PyTorch's operator database on the software GPU, against the CPU and against the committed list.

An operator that fails and is not on the list fails the run, and so does one on it that passes. What agrees
has the CPU's bits; the list names what agrees but for rounding. Straight and forwarded on one host one that
copies the slice's memory fails the run too. Two sample inputs of each operator and type are tried; ``make
operators`` tries all.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from . import places

pytestmark = [pytest.mark.slow, pytest.mark.native, pytest.mark.timeout(7200)]

TESTS_APART = True
"""Processes of a run share these tests: each is minutes long (tests/spreading.py)."""
LIST = Path(__file__).parent / "lists" / "operators.txt"
SAMPLES = int(os.environ.get("GPU_KERNELS_OPERATOR_SAMPLES", "2"))
PARTS = 3
CASES_AT_LEAST = 5900
PASS_AT_LEAST = 0.99


@dataclass
class Listed:
    """Cases as the program names them."""

    fail: set[str] = field(default_factory=set)
    are_rounded: set[str] = field(default_factory=set)


def listed(everything: bool) -> Listed:
    """What the list says of a run with all samples, or with the first two of each."""
    found = Listed()
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        among_all, line = line.startswith("all: "), line.removeprefix("all: ")
        rounded, line = line.startswith("rounded: "), line.removeprefix("rounded: ")
        operator, types, cases, _ = line.split(": ", 3)
        if everything or not among_all:
            names = {f"{operator} {each} {case}" for each in types.split() for case in cases.split()}
            (found.are_rounded if rounded else found.fail).update(names)
    return found


@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_operators_agree_with_the_cpu(pytorch: str, place: str, part: int) -> None:
    chosen = ["--samples", str(SAMPLES), "--part", f"{part}/{PARTS}"]
    done = places.run(pytorch, place, "operators.py", *chosen)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    expected = listed(everything=SAMPLES == 0)
    unlisted = {case: why for case, why in found["failed"].items() if case not in expected.fail}
    assert not unlisted
    passing = expected.fail & set(found["agreed"])
    assert not passing, "these pass now: take them from the list"
    assert not set(found["rounded"]) - expected.are_rounded
    copied = sum(found["copied"].values())
    print(
        f"{place}, {part} of {PARTS}: {len(found['agreed'])} cases agree, {len(found['failed'])} fail as "
        f"listed; {copied} bytes of the slice's memory were copied"
    )
    assert bool(copied) == (place == "copied"), list(found["copied"])[:20]
    assert len(found["agreed"]) >= 0.95 * CASES_AT_LEAST / PARTS


def test_the_list_names_operators_and_less_than_a_hundredth_of_the_cases(pytorch: str) -> None:
    done = places.run(pytorch, "straight", "operators.py", "--names")
    everything = listed(everything=True)
    cases = everything.fail | everything.are_rounded
    assert {case.split(" ")[0] for case in cases} <= set(json.loads(done.stdout)), done.stderr
    assert len(everything.fail) <= (1 - PASS_AT_LEAST) * CASES_AT_LEAST
