"""The tiers of the suite: what `quick` forbids, what the end of a run tells, who shares a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.native_build import ROOT, python_path
from tests.spreading import unit
from tests.tiers import IDLE_LOAD

CONFTEST = """
import os
from tests import tiers

class Clock:
    now = 0.0
    def perf_counter(self): return self.now
    process_time = perf_counter

tiers.time = Clock()
os.getloadavg = lambda: (0.0, LOAD * os.cpu_count(), 0.0)

def pytest_configure(config):
    config.pluginmanager.register(tiers.Tiers(config), "tiers")

from tests.spreading import pytest_generate_tests
"""
REFUSED = """
import contextlib, ctypes, os, socket, subprocess, sys, threading
import pytest
pytestmark = pytest.mark.quick

def starts():
    subprocess.run([sys.executable, "-c", ""])

@pytest.fixture
def started():
    starts()

def test_starts_a_process(): starts()

def test_hides_that_it_starts_a_process():
    with contextlib.suppress(Exception):
        starts()

def test_has_a_fixture_that_starts_a_process(started): pass

def test_forks_in_a_thread():
    thread = threading.Thread(target=lambda: os.fork() or os._exit(0))
    thread.start()
    thread.join()

def test_listens(): socket.socket().bind(("127.0.0.1", 0))

def test_loads_the_native_build(): ctypes.CDLL("ROOT/remoting/lib/softgpu/libcuda.so.1")
"""
ALLOWED = """
import asyncio, subprocess, threading
import pytest
pytestmark = pytest.mark.quick

def test_computes(): assert 1 + 1 == 2

def test_waits_in_an_event_loop(): asyncio.run(asyncio.sleep(0))

def test_asks_git(): subprocess.run(["git", "--version"], check=True)
"""
UNMARKED = """
import subprocess, sys
import pytest
from tests.tiers import time

@pytest.fixture(scope="module")
def lab(): time.now += 10

@pytest.fixture
def notebook(): time.now += 10

def test_starts_a_process(): subprocess.run([sys.executable, "-c", ""])

@pytest.mark.slow
def test_is_marked(): time.now += 10

def test_takes_long(): time.now += 10

def test_takes_long_to_begin(notebook): pass

def test_is_the_first_with_the_lab(lab): pass
"""


def run(folder: Path, suite: str, *arguments: str, load: float = 0.1) -> list[str]:
    """The lines that pytest prints of a suite, on a machine with this load average for each processor."""
    (folder / "conftest.py").write_text(CONFTEST.replace("LOAD", str(load)))
    (folder / "test_suite.py").write_text(suite.replace("ROOT", str(ROOT)))
    (folder / "pytest.ini").write_text(
        "[pytest]\naddopts = -p no:cacheprovider\nmarkers =\n  quick\n  slow\n"
    )
    environment = {**os.environ, "PYTHONPATH": python_path(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-rA", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.stdout.splitlines()


def named(lines: list[str], outcome: str) -> set[str]:
    return {
        line.split("::")[1].split(" ")[0] for line in lines if line.startswith(f"{outcome} test_suite.py::")
    }


def test_a_quick_test_is_refused_processes_sockets_and_the_native_build(tmp_path):
    lines = run(tmp_path, REFUSED)
    assert named(lines, "PASSED") == set()
    assert named(lines, "FAILED") == {
        "test_starts_a_process",
        "test_hides_that_it_starts_a_process",
        "test_forks_in_a_thread",
        "test_listens",
        "test_loads_the_native_build",
    }
    assert named(lines, "ERROR") == {"test_has_a_fixture_that_starts_a_process"}
    said = "\n".join(lines)
    assert "A quick test started a process (subprocess.Popen: " in said
    assert "A quick test used a socket (socket.bind: ('127.0.0.1', 0))" in said


SHARED = """
import subprocess, sys
import pytest

@pytest.fixture(scope="session")
def lab():
    yield
    subprocess.run([sys.executable, "-c", ""], check=True)

def test_asks_for_a_lab(lab): pass

@pytest.mark.quick
def test_is_the_last(): pass
"""


def test_a_quick_test_may_be_the_last_one_before_a_lab_is_stopped(tmp_path):
    lines = run(tmp_path, SHARED)
    assert named(lines, "PASSED") == {"test_asks_for_a_lab", "test_is_the_last"}
    assert named(lines, "ERROR") == set()


def test_a_quick_test_may_compute_wait_and_ask_git(tmp_path):
    lines = run(tmp_path, ALLOWED, "-m", "quick")
    assert lines[-1].strip("= ").startswith("3 passed in")
    assert not any(line.startswith("tiers:") for line in lines)


def test_in_the_quick_tier_a_file_without_the_marker_is_not_even_read(tmp_path):
    (tmp_path / "test_other.py").write_text("import nothing_of_this_name\n")
    assert run(tmp_path, ALLOWED, "-m", "quick")[-1].strip("= ").startswith("3 passed in")


def test_the_end_of_a_run_names_what_took_long_without_what_it_shares(tmp_path):
    lines = run(tmp_path, UNMARKED)
    at = lines.index("tiers: these took longer than 5 s, and are not marked slow:")
    told = {line.split("::")[1] for line in lines[at + 1 : at + 3]}
    assert told == {"test_takes_long", "test_takes_long_to_begin"}
    assert not any("test_is_the_first_with_the_lab" in line for line in lines if line.startswith("  "))


def test_beside_other_work_times_are_counted_and_not_believed(tmp_path):
    lines = run(tmp_path, UNMARKED, load=2 * IDLE_LOAD)
    assert (
        "tiers: 2 tests that are not marked slow took longer than 5 s, beside other work "
        "(load average 3.0 for each processor)"
    ) in lines
    assert not any(line.startswith("  ") and "test_takes_long" in line for line in lines)


def test_a_file_that_could_be_quick_is_named_when_everything_ran(tmp_path):
    suite = ALLOWED.replace("pytestmark", "other")
    assert "  test_suite.py" in run(tmp_path, suite)
    assert "  test_suite.py" not in run(tmp_path, suite, "test_suite.py")
    assert "  test_suite.py" not in run(tmp_path, UNMARKED)


def test_parameters_that_each_process_would_have_in_another_order_are_refused(tmp_path):
    suite = "import pytest\n@pytest.mark.parametrize('one', {'a', 'b'})\ndef test_one(one): pass\n"
    lines = run(tmp_path, suite)
    assert any("the parameters of test_suite.py::test_one are a set, in no order" in line for line in lines)


def test_files_that_share_a_lab_share_a_process(tmp_path):
    assert (
        unit("tests/e2e/test_faults.py::test_a") == unit("tests/e2e/test_servers.py::test_b") == "tests/e2e"
    )
    assert unit("tests/units/test_units.py::test_a[x::y]") == "tests/units/test_units.py"


def test_long_tests_that_share_nothing_go_to_whichever_process_is_free():
    first, second = (f"tests/frameworks/pytorch/test_operators.py::test_a[{n}]" for n in (1, 2))
    assert (unit(first), unit(second)) == (first, second)
