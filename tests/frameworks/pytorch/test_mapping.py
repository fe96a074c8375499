"""PyTorch's operators on a forwarded slice's memory, mapped on one host: no copies, no waits, no crash."""

from __future__ import annotations

import json
import subprocess

import psutil
import pytest

from tests.conformance.places import PLACES

from . import places

pytestmark = [pytest.mark.slow, pytest.mark.native, pytest.mark.timeout(1800)]

READS_A_STEP = 0
"""The loss is read where it lies."""
MIXED = """\
mapped True False
read True True
written True
a column [97.0, 7.0, 99.0] 97.0
"""


def test_a_training_step_copies_nothing_and_waits_for_nothing(pytorch: str) -> None:
    forwarded = json.loads(places.run(pytorch, "forwarded", "traffic.py").stdout)
    assert forwarded["all"] == [0, 0]
    assert forwarded["waits"] <= READS_A_STEP
    copied = json.loads(places.run(pytorch, "copied", "traffic.py").stdout)
    assert copied["bytes"] > 0
    assert copied["waits"] > 100
    assert forwarded["losses"] == pytest.approx(copied["losses"], rel=1e-5)


def test_operands_that_are_not_mapped_are_copied(pytorch: str) -> None:
    done = places.run(pytorch, "forwarded", "mapped.py", "mixed")
    assert done.stdout == MIXED, done.stderr


def test_a_killed_worker_is_an_error_of_the_next_operator(pytorch: str) -> None:
    with PLACES["forwarded"](1) as process, process() as environment:
        program = subprocess.Popen(
            [pytorch, str(places.PROGRAMS / "mapped.py"), "killed"],
            env=environment | {"OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with program:
            assert program.stdout
            assert program.stdout.readline() == "there True\n"
            children = psutil.Process().children(recursive=True)
            (worker,) = [child for child in children if child.name() == "gpu-worker"]
            worker.kill()
            out, err = program.communicate("\n", timeout=places.ENDS_WITHIN_S)
    assert out == "AcceleratorError True\n", err
    assert program.returncode == 0
