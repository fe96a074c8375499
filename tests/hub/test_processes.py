import os
import subprocess
import sys

import psutil
import pytest

from gpu_kernels.hub_config.lab.processes import LabError, Process, kill_marked, marked
from gpu_kernels.hub_config.lab.settings import MARKER_VARIABLE
from gpu_kernels.hub_config.lab.supervisor import wait

SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
DEAF = [
    sys.executable,
    "-c",
    "import signal as s, time; s.signal(s.SIGTERM, s.SIG_IGN); print('up', flush=True); time.sleep(600)",
]


def start(tmp_path, command):
    environment = {**os.environ, MARKER_VARIABLE: str(tmp_path)}
    return Process("it", command, tmp_path / "it.log", environment, tmp_path)


@pytest.fixture(autouse=True)
def nothing_outlives_a_failed_test(tmp_path):
    yield
    kill_marked(str(tmp_path), grace=0.2)


def wait_up(process):
    process.wait_until(lambda: "up" in process.log.read_text(), 60, "it came up")


def test_a_stopped_process_is_gone(tmp_path):
    process = start(tmp_path, SLEEP)
    wait_up(process)
    process.stop(60)
    assert not process.is_alive()
    assert not marked(str(tmp_path))


def test_a_process_deaf_to_sigterm_is_killed(tmp_path):
    process = start(tmp_path, DEAF)
    wait_up(process)
    process.stop(0.2)
    assert not process.is_alive()


def test_a_process_that_ends_early_is_reported_with_its_log(tmp_path):
    process = start(tmp_path, [sys.executable, "-c", "print('what went wrong'); raise SystemExit(3)"])
    with pytest.raises(LabError, match=r"ended with 3[\s\S]*what went wrong"):
        process.wait_until(lambda: False, 60, "it came up")


def test_a_process_that_never_comes_up_is_reported(tmp_path):
    process = start(tmp_path, SLEEP)
    try:
        with pytest.raises(LabError, match="it came up did not happen"):
            process.wait_until(lambda: False, 0.1, "it came up")
    finally:
        process.kill()


def test_what_carries_the_marker_is_ended_and_named(tmp_path):
    child = f"import subprocess, sys; subprocess.Popen({DEAF!r}, start_new_session=True)"
    parent = start(tmp_path, [sys.executable, "-c", child])
    wait(lambda: "up" in parent.log.read_text() and not parent.is_alive(), 60, "there is no orphan")
    (left,) = marked(str(tmp_path))
    assert [str(left.pid)] == [text.split()[0] for text in kill_marked(str(tmp_path), grace=0.2)]
    assert not marked(str(tmp_path))


def test_other_labs_are_left_alone(tmp_path):
    process = start(tmp_path, SLEEP)
    try:
        assert kill_marked(str(tmp_path / "other")) == []
        assert process.is_alive()
    finally:
        process.kill()


def test_services_end_when_their_supervisor_is_killed(tmp_path):
    log = tmp_path / "it.log"
    supervisor = (
        "import os, sys, time, pathlib\n"
        "from gpu_kernels.hub_config.lab.processes import Process\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        f"Process('it', {SLEEP!r}, folder / 'it.log', os.environ, folder)\n"
        "time.sleep(600)\n"
    )
    environment = {**os.environ, MARKER_VARIABLE: str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", supervisor], env=environment) as popen:
        while not log.exists() or "up" not in log.read_text():
            assert popen.poll() is None
        services = [process for process in marked(str(tmp_path)) if process.pid != popen.pid]
        popen.kill()
    gone, alive = psutil.wait_procs(services, timeout=60)
    assert gone
    assert not alive


KEPT = [sys.executable, "-m", "gpu_kernels.hub_config.lab.respawn"]


def test_a_kept_command_that_cannot_start_is_given_up_with_its_status():
    assert subprocess.run([*KEPT, sys.executable, "-c", "raise SystemExit(3)"], timeout=100).returncode == 3


def test_a_kept_command_that_ends_well_ends_it():
    assert subprocess.run([*KEPT, sys.executable, "-c", ""], timeout=100).returncode == 0


def test_a_kept_command_is_stopped_by_a_signal(tmp_path):
    process = start(tmp_path, [*KEPT, *SLEEP])
    wait_up(process)
    process.stop(60)
    assert not marked(str(tmp_path))


def test_a_kept_command_that_is_killed_comes_back(tmp_path):
    keep_at_once = (
        "import sys; from gpu_kernels.hub_config.lab import respawn;"
        "respawn.SETTLED_S = 0.0; respawn.main(sys.argv[1:])"
    )
    process = start(tmp_path, [sys.executable, "-c", keep_at_once, *SLEEP])
    wait_up(process)
    (child,) = [other for other in marked(str(tmp_path)) if other.pid != process.pid]
    child.kill()
    process.wait_until(lambda: process.log.read_text().splitlines().count("up") == 2, 60, "it came up again")
    process.stop(60)
    assert not marked(str(tmp_path))
