"""`jupyter gpu lab`: what it refuses, and what is left when it is killed: nothing. What it leaves when it is
stopped, and finds again, is in tests/repository/test_installed_wheel.py.
"""

import fcntl
import os
import random
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from gpu_kernels.hub_config.lab import accounts
from gpu_kernels.hub_config.lab import up as up_module
from gpu_kernels.hub_config.lab.processes import LabError, marked
from gpu_kernels.hub_config.lab.settings import CONFIGURATION, SETTINGS_VARIABLE, Settings
from gpu_kernels.hub_config.lab.student import Student
from gpu_kernels.hub_config.lab.supervisor import Lab, wait
from gpu_kernels.spawner.ports import is_free
from tests.native_build import ROOT

pytestmark = [pytest.mark.hub, pytest.mark.native, pytest.mark.timeout(600)]

SOON = 60.0
COMMAND = (sys.executable, "-m", "gpu_kernels.cli")


def ports_in_a_row():
    """Drawn, so that labs which other tests start at the same moment get others."""
    rows = range(18000, 30000, 6)
    for first in random.sample(rows, len(rows)):
        if all(is_free("127.0.0.1", first + offset) for offset in range(6)):
            return first
    raise AssertionError("no six free ports in a row")


def heed_signals():
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Up:
    """The command as a child with a terminal's signals, also where this process has none."""

    def __init__(self, state: Path, port: int, *extra: str, command=COMMAND, cwd=ROOT) -> None:
        self.settings = Settings.in_a_row(state, port)
        self.popen = subprocess.Popen(
            [
                *command,
                "lab",
                "--no-browser",
                "--state",
                state,
                "--port",
                str(port),
                *extra,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=cwd,
            preexec_fn=heed_signals,
        )
        self.output = ""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
        self.finish()

    def wait_until_it_says(self, text):
        while text not in self.output:
            line = self.popen.stdout.readline()
            assert line, f"it ended, having said:\n{self.output}"
            self.output += line

    def finish(self):
        """The exit status, after everything it said was read."""
        self.output += self.popen.stdout.read()
        return self.popen.wait()

    def login(self, name):
        return Student(self.settings.url, accounts.logins(self.settings.secrets)[name])


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


@pytest.mark.slow
def test_a_second_lab_is_refused_the_state_folder_and_a_killed_runner_takes_everything_along(state):
    port = ports_in_a_row()
    with Up(state, port) as up:
        up.wait_until_it_says("Ctrl-C stops everything")
        with Up(state, port) as second:
            assert second.finish() == 2
        assert "Another lab runs with its state in" in second.output
        assert up.popen.poll() is None
        with up.login("ana") as ana:
            ana.log_in()
            ana.start_server()
        up.popen.kill()
        _, alive = psutil.wait_procs(marked(up.settings.marker), timeout=SOON)
    assert alive == []
    up.settings.check_ports_free()


def test_a_taken_port_is_said_before_anything_starts(state):
    port = ports_in_a_row()
    with socket.create_server(("127.0.0.1", port + 3)), Up(state, port) as up:
        assert up.finish() == 2
    assert f"port {port + 3} (the pool controller)" in up.output
    assert marked(up.settings.marker) == []


def test_a_lab_says_where_its_machine_has_less_memory_than_its_gpus_were_to_have(state):
    settings = Settings.in_a_row(state, 8000, gpu_memory_mib=32768)
    for offered, lines in ((32768, 0), (15819, 3)):
        lab = SimpleNamespace(
            settings=settings, gpus=lambda mib=offered: [SimpleNamespace(allocatable_mib=mib)]
        )
        said = up_module.less_than_asked(lab)
        assert len(said) == lines
    assert "offers 15819 MiB, not 32768" in said[0]
    assert str(state / "logs" / "agent.log") in said[1]


class FailsAndIsInterruptedWhileItStops(Lab):
    def start_hub(self):
        raise LabError("the hub fell")

    def _sweep(self):
        os.kill(os.getpid(), signal.SIGTERM)
        super()._sweep()


def test_a_signal_while_a_failed_lab_stops_neither_breaks_that_off_nor_hides_why(state, monkeypatch, capfd):
    monkeypatch.setattr(up_module, "Lab", FailsAndIsInterruptedWhileItStops)
    settings = Settings.on_free_ports(state)
    assert up_module.run(settings) == 1
    said = capfd.readouterr()
    assert "stopping (once more" in said.err
    assert "FAILED: the hub fell" in said.err
    assert "no process" not in said.out
    with settings.lock.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_signal_that_is_ignored_stays_so(state):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with up_module.stopped_by_signals(Lab(Settings.on_free_ports(state))):
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_browser_has_a_session_of_its_own_and_nothing_of_a_slice_and_may_lack(
    tmp_path, monkeypatch, capfd
):
    browser, told = tmp_path / "browser", tmp_path / "told"
    browser.write_text(
        f"#!/bin/sh\necho noise; ps -o sid= -p $$ >{told}.part\n"
        f"echo $1 $GPU_KERNELS_SECRET >>{told}.part; mv {told}.part {told}\n"
    )
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    monkeypatch.setenv("GPU_KERNELS_SECRET", "of-the-slice-around")
    up_module.open_browser("http://127.0.0.1:8000")
    wait(told.exists, SOON, "no browser was started")
    session, url = told.read_text().split()
    assert int(session) != os.getsid(0)
    assert url == "http://127.0.0.1:8000"
    assert capfd.readouterr() == ("", "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    up_module.open_browser("http://127.0.0.1:8000")


@pytest.mark.parametrize("address", ["0.0.0.0", ""])
def test_the_hub_refuses_demo_logins_on_an_address_given_by_hand(state, address):
    settings = Settings.on_free_ports(state)
    settings.make_folders()
    config = CONFIGURATION / "jupyterhub_config.py"
    hub = subprocess.run(
        [
            sys.executable,
            "-m",
            "jupyterhub",
            "--config",
            config,
            "--url",
            f"http://{address}:{settings.port}",
        ],
        env={**os.environ, SETTINGS_VARIABLE: str(settings.save())},
        cwd=state,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert hub.returncode != 0
    assert "The demo lab does not listen on" in hub.stdout + hub.stderr
    assert is_free("127.0.0.1", settings.port)


@pytest.mark.slow
def test_a_killed_hub_takes_proxy_controller_and_servers_along(state):
    with Lab(Settings.on_free_ports(state)) as lab:
        with Student(lab.settings.url, accounts.logins(lab.settings.secrets)["ana"]) as ana:
            ana.log_in()
            ana.start_server()
        agent = psutil.Process(lab.agent.pid)
        others = [process for process in marked(lab.settings.marker) if process != agent]
        os.kill(lab.hub.pid, signal.SIGKILL)
        _, alive = psutil.wait_procs(others, timeout=SOON)
        assert alive == []
        assert agent.is_running()
    assert lab.problems == []
