"""JAX and Keras after their slice has gone: each use is an exception, and the process goes on."""

from __future__ import annotations

import json

import pytest

from tests.conformance.places import PLACES
from tests.frameworks import lives

from .conftest import PROGRAMS, python_with

pytestmark = [pytest.mark.native, pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("how", ["anew", lives.LOST])
@pytest.mark.parametrize(
    ("framework", "program"), [("jax", "jax_lives.py"), ("tensorflow", "keras_lives.py")]
)
def test_each_use_of_a_slice_that_has_gone_is_an_exception(framework: str, program: str, how: str) -> None:
    """Whether XLA ends the process was the question: then the notebook's variables would be gone."""
    python = python_with(framework)
    with PLACES["forwarded"](1) as process, process() as environment:
        done = lives.run(python, PROGRAMS / program, how, environment)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert len(said["refused"]) == 3
    assert all("CUDA_ERROR_" in error for error in said["refused"].values()), said
    assert said["the CPU goes on"] == 6
    if how == lives.LOST:
        assert "Restart the kernel (or the program) to get a working GPU again." in done.stderr
