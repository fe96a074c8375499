"""The runner finds every test's outcome, whatever a test does to its process."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.agent.conftest import is_alive

from .runner import Result, Run
from .suite import Suite

NOT_FOR_LONG = 5.0


@contextmanager
def here() -> Iterator[dict[str, str]]:
    yield dict(os.environ)


def outcomes(folder: Path, text: str, **how: float) -> dict[str, Result]:
    """What the runner says of a file with ``text``."""
    (folder / "part").mkdir()
    (folder / "part" / "test_it.py").write_text("import os, signal, time, pytest\n" + text)
    suite = Suite(name="it", distribution="pytest", root=folder, folders=("part",), counted=("part",))
    results = Run(suite, here, 1, **how).results()
    return {result.name.removeprefix("part/test_it.py::"): result for result in results}


def told(results: dict[str, Result]) -> dict[str, str]:
    return {name: result.outcome for name, result in results.items()}


def test_every_ordinary_outcome_is_told_apart(tmp_path: Path) -> None:
    found = outcomes(
        tmp_path,
        """
def test_passes(): pass
def test_fails(): assert 1 == 2, "no"
def test_is_skipped(): pytest.skip("not here")
@pytest.mark.xfail(reason="known", strict=True)
def test_fails_as_expected(): assert False
@pytest.mark.xfail(strict=True)
def test_passes_unexpectedly(): pass
@pytest.fixture
def broken(): yield; raise ValueError("late")
def test_fails_in_its_tear_down(broken): pass
""",
    )
    assert told(found) == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_is_skipped": "skipped",
        "test_fails_as_expected": "xfailed",
        "test_passes_unexpectedly": "failed",
        "test_fails_in_its_tear_down": "failed",
    }
    assert found["test_is_skipped"].reason == "not here"
    assert "late" in found["test_fails_in_its_tear_down"].reason


def test_the_file_goes_on_after_a_test_that_kills_its_process(tmp_path: Path) -> None:
    found = outcomes(
        tmp_path,
        """
def test_before(): pass
def test_dies(): print("last words", flush=True); os.kill(os.getpid(), signal.SIGSEGV)
def test_leaves(): os._exit(0)
def test_after(): pass
""",
    )
    assert told(found) == {
        "test_before": "passed",
        "test_dies": "died",
        "test_leaves": "died",
        "test_after": "passed",
    }
    assert "SIGSEGV" in found["test_dies"].reason


def test_the_file_goes_on_after_a_test_that_hangs(tmp_path: Path) -> None:
    text = "def test_hangs(): time.sleep(600)\ndef test_after(): pass\n"
    found = outcomes(tmp_path, text, test_seconds=NOT_FOR_LONG)
    assert told(found) == {"test_hangs": "hung", "test_after": "passed"}


def test_a_fault_of_the_gpu_spoils_no_other_test(tmp_path: Path) -> None:
    found = outcomes(
        tmp_path,
        """
spoilt = False
def test_faults():
    global spoilt
    spoilt = True
    raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")
def test_after(): assert not spoilt
""",
    )
    assert told(found) == {"test_faults": "failed", "test_after": "passed"}


def test_a_process_that_dies_on_its_way_out_is_not_overlooked(tmp_path: Path) -> None:
    text = "import atexit\natexit.register(os.kill, os.getpid(), signal.SIGABRT)\ndef test_passes(): pass\n"
    found = outcomes(tmp_path, text)
    assert told(found) == {"test_passes": "passed", "part/test_it.py": "died"}


@pytest.mark.parametrize(
    ("text", "outcome"), [("import nothing_such", "failed"), ("pytest.importorskip('no_such')", "skipped")]
)
def test_a_file_that_cannot_be_collected_counts_as_one_test(tmp_path: Path, text: str, outcome: str) -> None:
    assert told(outcomes(tmp_path, text)) == {"part/test_it.py": outcome}


def test_what_a_hanging_test_has_started_ends_with_it(tmp_path: Path) -> None:
    told_of = tmp_path / "child"
    text = f"""
def test_hangs():
    import subprocess
    child = subprocess.Popen(["sleep", "600"])
    open({str(told_of)!r}, "w").write(str(child.pid))
    child.wait()
"""
    assert told(outcomes(tmp_path, text, test_seconds=NOT_FOR_LONG)) == {"test_hangs": "hung"}
    child, end = int(told_of.read_text()), time.monotonic() + 60
    while is_alive(child):  # it was killed, and may not have died yet
        assert time.monotonic() < end
        time.sleep(0.01)
