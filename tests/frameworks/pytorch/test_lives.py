"""PyTorch after its slice has gone: it says what to restart, and the process goes on without a GPU."""

from __future__ import annotations

import subprocess

import pytest

from tests.conformance.places import PLACES
from tests.frameworks import lives

from . import places

pytestmark = [pytest.mark.slow, pytest.mark.native, pytest.mark.timeout(1800)]

ON_ANOTHER_SLICE = "cannot go on with another slice: restart the kernel before you use it again"
USES = ("a tensor of before", "its numbers", "a new tensor")


def lived(python: str, place: str, how: str) -> subprocess.CompletedProcess[str]:
    with PLACES[place](1) as process, process() as environment:
        return lives.run(python, places.PROGRAMS / "lives.py", how, environment | {"OMP_NUM_THREADS": "1"})


def uses(output: str) -> dict[str, str]:
    """What each use of the device said."""
    return {use: line.removeprefix(use) for line in output.splitlines() for use in USES if use in line}


def test_on_another_slice_each_use_says_that_the_kernel_must_be_restarted(pytorch: str) -> None:
    done = lived(pytorch, "forwarded", "anew")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"PyTorch and Triton {ON_ANOTHER_SLICE}")
    said = uses(done.stdout)
    assert set(said) == set(USES)
    assert all(ON_ANOTHER_SLICE in text for text in said.values()), said
    assert done.stdout.endswith("the CPU goes on [2.0, 2.0, 2.0]\n")


@pytest.mark.parametrize(
    ("place", "how"), [("straight", "fault"), ("forwarded", "fault"), ("forwarded", "lost")]
)
def test_after_a_fault_or_without_its_worker_each_use_is_an_error(pytorch: str, place: str, how: str) -> None:
    done = lived(pytorch, place, how)
    assert done.returncode == 0, done.stderr
    said = uses(done.stdout)
    assert set(said) == set(USES)
    assert all("Error" in text for text in said.values()), said
    if place == "forwarded":
        assert "Restart the kernel (or the program) to get a working GPU again." in done.stderr
    assert done.stdout.endswith("the CPU goes on [2.0, 2.0, 2.0]\n")
