"""A run of a suite with a second chance for each test that failed, on small suites of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.native_build import python_path
from tests.rerun import MOST

SPREAD = ["-p", "xdist.plugin", "-n", "2"]
GOOD = "def test_good(): pass\n"
FAILING = "def test_failing(): assert 1 == 2\n"
FIRST_TIME = """
from pathlib import Path
def first_time(name):
    mark = Path(__file__).with_name(name)
    there = mark.exists()
    mark.touch()
    return not there
"""
FLAKY = FIRST_TIME + "def test_flaky(): assert not first_time('flaky')\n"
PROCESS_ENDS = FIRST_TIME + "import os\ndef test_ending():\n    if first_time('ending'): os._exit(3)\n"
FIXTURE_FAILS = FIRST_TIME + (
    "import pytest\n"
    "@pytest.fixture\ndef lab():\n    assert not first_time('lab')\n"
    "def test_with_lab(lab): pass\n"
)
SKIPS_LATER = FIRST_TIME + (
    "import pytest\n"
    "def test_unsure():\n    if first_time('unsure'): assert False\n    pytest.skip('not now')\n"
)


def rerun(folder: Path, suites: dict[str, str], *arguments: str) -> tuple[int, list[str]]:
    """The exit status, and the closing lines after their heading."""
    for name, text in suites.items():
        (folder / f"test_{name}.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    environment = {**os.environ, "PYTHONPATH": python_path(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "tests.rerun", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert "==== in all ====" in done.stdout, done.stdout + done.stderr
    return done.returncode, done.stdout.split("==== in all ====\n")[1].splitlines()


def test_a_suite_that_passes_has_one_run_and_its_counts_in_the_last_line(tmp_path):
    skips = "import pytest\n@pytest.mark.skip\ndef test_skipped(): pass\n"
    assert rerun(tmp_path, {"good": GOOD, "skips": skips}) == (0, ["1 passed, 0 failed, 1 skipped"])


@pytest.mark.parametrize("spread", [[], SPREAD], ids=["one process", "two processes"])
def test_what_passes_by_itself_is_named_as_flaky_and_is_no_failure(tmp_path, spread):
    status, lines = rerun(tmp_path, {"good": GOOD, "flaky": FLAKY, "fixture": FIXTURE_FAILS}, *spread)
    assert status == 0
    assert lines == [
        "flaky: test_fixture.py::test_with_lab",
        "flaky: test_flaky.py::test_flaky",
        "3 passed, 0 failed, 0 skipped, 2 of the passed flaky",
    ]


def test_what_fails_again_fails_the_run(tmp_path):
    status, lines = rerun(tmp_path, {"good": GOOD, "flaky": FLAKY, "failing": FAILING})
    assert status == 1
    assert lines == [
        "failed: test_failing.py::test_failing",
        "flaky: test_flaky.py::test_flaky",
        "2 passed, 1 failed, 0 skipped, 1 of the passed flaky",
    ]


def test_what_is_skipped_by_itself_has_not_passed(tmp_path):
    status, lines = rerun(tmp_path, {"unsure": SKIPS_LATER})
    assert status == 1
    assert lines == ["failed: test_unsure.py::test_unsure", "0 passed, 1 failed, 0 skipped"]


def test_a_test_that_took_its_process_with_it_has_its_second_run(tmp_path):
    status, lines = rerun(tmp_path, {"good": GOOD, "ending": PROCESS_ENDS}, *SPREAD)
    assert status == 0
    assert lines[0] == "flaky: test_ending.py::test_ending"
    assert lines[-1] == "2 passed, 0 failed, 0 skipped, 1 of the passed flaky"


def test_a_run_that_dies_is_a_failure_whatever_had_passed(tmp_path):
    status, lines = rerun(tmp_path, {"ending": PROCESS_ENDS})
    assert status == 3
    assert lines == [
        "the run did not come to its end: pytest's exit status is 3",
        "0 passed, 0 failed, 0 skipped",
    ]


@pytest.mark.parametrize("spread", [[], SPREAD], ids=["one process", "two processes"])
def test_a_file_that_cannot_be_read_is_a_failure_without_a_second_run(tmp_path, spread):
    status, lines = rerun(tmp_path, {"good": GOOD, "broken": "import nothing_of_this_name\n"}, *spread)
    assert status != 0
    assert "not read: test_broken.py" in lines
    assert lines[-1].split(", ")[1] == "1 failed"


def test_nothing_collected_is_a_failure(tmp_path):
    status, lines = rerun(tmp_path, {})
    assert status == pytest.ExitCode.NO_TESTS_COLLECTED
    assert lines[-1] == "0 passed, 0 failed, 0 skipped"


def test_more_failures_than_chance_makes_are_not_run_again(tmp_path):
    many = FIRST_TIME + (
        f"import pytest\n@pytest.mark.parametrize('number', range({MOST + 1}))\n"
        "def test_all(number): assert not first_time(str(number))\n"
    )
    status, lines = rerun(tmp_path, {"many": many})
    assert status == 1
    assert lines[0] == f"more than {MOST} tests failed, so that none was run again"
    assert lines[-1] == f"0 passed, {MOST + 1} failed, 0 skipped"
