"""JAX and Keras after their slice has gone, or a kernel has gone wrong: each use is an exception, one line
says what to restart, and the process goes on. test_notebook.py has the same in a notebook.
"""

from __future__ import annotations

import json
import signal
import subprocess

import pytest

from tests.conformance.places import PLACES
from tests.frameworks import lives

from .conftest import PROGRAMS, python_with

pytestmark = [pytest.mark.native, pytest.mark.slow, pytest.mark.timeout(1800)]

PROGRAM_OF = {"jax": "jax_lives.py", "tensorflow": "keras_lives.py"}
EACH_FRAMEWORK = pytest.mark.parametrize("framework", PROGRAM_OF)
AT_WORK = f"{lives.LOST} at work"
RESTART = "Restart the kernel (or the program) to get a working GPU again."


def lived(framework: str, place: str, how: str) -> subprocess.CompletedProcess[str]:
    python = python_with(framework)
    with PLACES[place](1) as process, process() as environment:
        return lives.run(python, PROGRAMS / PROGRAM_OF[framework], how, environment)


def assert_each_use_is_an_error(done: subprocess.CompletedProcess[str], uses: int) -> None:
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert len(said["refused"]) == uses
    assert all("CUDA_ERROR_" in error for error in said["refused"].values()), said
    assert said["the CPU goes on"] == 6


@EACH_FRAMEWORK
def test_on_another_slice_each_use_is_an_exception(framework: str) -> None:
    """And before it was used the framework goes on. Whether XLA ends the process was the question: then the
    notebook's variables would be gone.
    """
    assert_each_use_is_an_error(lived(framework, "forwarded", "anew"), uses=4)


@pytest.mark.parametrize(
    ("place", "how", "uses"),
    [
        ("straight", "fault", 4),
        ("forwarded", "fault of theirs", 5),
        ("forwarded", lives.LOST, 4),
    ],
)
@EACH_FRAMEWORK
def test_after_a_fault_or_without_its_worker_one_line_says_what_to_restart(
    framework: str, place: str, how: str, uses: int
) -> None:
    done = lived(framework, place, how)
    assert_each_use_is_an_error(done, uses)
    assert done.stderr.count(RESTART) == 1


def test_jax_that_computes_when_its_worker_is_lost_gets_an_exception() -> None:
    done = lived("jax", "forwarded", AT_WORK)
    assert_each_use_is_an_error(done, uses=5)
    assert done.stderr.count(RESTART) == 1


def test_tensorflow_that_waits_for_a_lost_worker_ends_the_process_after_that_line() -> None:
    """Its thread that waits for events knows nothing else (``device_event_mgr.cc``). Where it does not wait
    just then, it goes on.
    """
    done = lived("tensorflow", "forwarded", AT_WORK)
    assert done.stderr.count(RESTART) == 1
    if done.returncode == -signal.SIGABRT:
        assert done.stderr.index(RESTART) < done.stderr.index("Unexpected Event status")
    else:
        assert_each_use_is_an_error(done, uses=5)
