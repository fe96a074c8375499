"""Real processes: the controller is killed, stopped, started twice, and runs out of disk."""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from gpu_kernels.client import Lease, PoolClient
from gpu_kernels.errors import LedgerUnavailable, PoolError, PoolUnavailable
from gpu_kernels.resources.agents import OfferedGpu, Registration
from tests.pool.controller import Agent, ControllerProcess, ThreadedController, reserve, until


@pytest.fixture
def process(tmp_path: Path) -> Iterator[ControllerProcess]:
    courses = {"ml101": {"V100": {"thousandths": 100}}, "cv202": {"V100": {"thousandths": 60_000}}}
    long = {"lease_ttl": 600.0, "agent_ttl": 600.0}  # for leases that nobody renews, of servers that are none
    with ControllerProcess(
        tmp_path / "state", courses=courses, max_leases=100_000, max_requests=1e6, **long
    ) as process:
        yield process


def mismatch(process: ControllerProcess) -> int:
    """How many GPUs are counted otherwise than their open slices say; the controller may be running."""
    query = """SELECT COUNT(*) FROM gpus LEFT JOIN (SELECT gpu_id, SUM(mib) AS mib, SUM(thousandths) AS part
        FROM slices WHERE ended_at IS NULL GROUP BY gpu_id) ON gpu_id = id
        WHERE used_mib <> COALESCE(mib, 0) OR used_thousandths <> COALESCE(part, 0)"""
    with closing(sqlite3.connect(process.state / "ledger.sqlite")) as database:
        return int(database.execute(query).fetchone()[0])


class Load:
    """One user who reserves and releases as fast as it goes, and notes what was confirmed to it."""

    def __init__(self, client: PoolClient, name: str, stop: threading.Event) -> None:
        self.client, self.name, self.stop = client, name, stop
        self.held: dict[str, Lease] = {}
        self.confirmed = 0
        self.epochs: list[int] = []
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        number = 0
        while not self.stop.is_set():
            number += 1
            path = f"{self.name}-{number}.ipynb"
            try:
                lease = reserve(self.client, path, "0.001 V100")
                self.held[lease.id] = lease
                self.epochs.append(lease.epoch)
                self.confirmed += 1
                if number % 2:
                    del self.held[lease.id]  # from here on it may have ended, also where no answer comes
                    self.client.release(lease.id, lease.holder)
            except PoolError:
                time.sleep(0.01)


def test_a_controller_killed_under_load_loses_and_doubles_nothing(process: ControllerProcess) -> None:
    agent = Agent(process.client("gpu-server"))
    for number in range(40):
        gpu = OfferedGpu(f"GPU-{number}", 0, "V100", "software", "Software GPU", 32768, 32768)
        agent.client.register_agent(f"gpu{number}", Registration("1", "tcp://127.0.0.1:1024", "1", (gpu,)))
    stop = threading.Event()
    loads = [Load(process.client("eve", timeout=2.0), f"user{number}", stop) for number in range(4)]
    for load in loads:
        load.thread.start()
    for _ in range(3):
        before = sum(load.confirmed for load in loads)
        while sum(load.confirmed for load in loads) < before + 25:
            assert all(load.thread.is_alive() for load in loads)
            time.sleep(0.005)
        process.kill()
        assert mismatch(process) == 0
        process.start()
    stop.set()
    for load in loads:
        load.thread.join(60)
        assert not load.thread.is_alive()

    eve = process.client("eve")
    now = {lease.id: lease for lease in eve.list()}
    for load in loads:
        for lease in load.held.values():
            seen = now[lease.id]
            assert (seen.state, seen.epoch, seen.secret) == ("reserved", lease.epoch, lease.secret)
    paths = [lease.slot.path for lease in now.values() if lease.in_force]
    assert len(paths) == len(set(paths)), "a request that was sent again got a second lease"
    renewal = eve.renew([(lease.id, lease.epoch) for load in loads for lease in load.held.values()])
    assert renewal.lost == ()
    assert process.stop() == 0
    assert mismatch(process) == 0


def test_a_lease_survives_a_restart_and_its_owner_goes_on_as_before(process: ControllerProcess) -> None:
    agent = Agent(process.client("gpu-server"))
    agent.register()
    ada = process.client("ada")
    lease = reserve(ada)
    agent.report([lease])
    process.kill()
    process.start()
    again = ada.get(lease.id)
    assert (again.state, again.secret, again.epoch) == ("active", lease.secret, lease.epoch)
    assert ada.renew([(lease.id, lease.epoch)]).lost == ()
    assert [target.id for target in agent.report([lease]).leases] == [lease.id]
    assert reserve(ada).id == lease.id


def test_a_full_disk_is_a_refusal_and_no_corruption(process: ControllerProcess) -> None:
    """No file of the controller may grow beyond what the ledger has now: as on a full disk, writes fail."""
    assert process.process is not None
    agent = Agent(process.client("gpu-server"))
    agent.register()
    eve = process.client("eve")
    first = reserve(eve, "first.ipynb", "0.001 V100")
    files = [path for path in process.state.iterdir() if path.name.startswith(("ledger", "log"))]
    full = max(path.stat().st_size for path in files)
    unlimited = resource.prlimit(process.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.process.pid, resource.RLIMIT_FSIZE, (full, unlimited[1]))
    refusal = None
    for number in range(500):
        try:
            reserve(eve, f"{number}.ipynb", "0.001 V100")
        except LedgerUnavailable as error:
            refusal = error
            break
    assert refusal is not None
    assert "nothing was changed" in refusal.message or "repeating a request is safe" in refusal.message
    assert refusal.status == 503
    assert refusal.retry_after in (2, 10)
    assert eve.get(first.id).state == "reserved"
    before = {lease.id for lease in eve.list()}
    resource.prlimit(process.process.pid, resource.RLIMIT_FSIZE, unlimited)
    assert {lease.id for lease in eve.list()} == before
    later = reserve(eve, "later.ipynb", "0.001 V100")
    process.kill()
    assert mismatch(process) == 0
    with sqlite3.connect(process.state / "ledger.sqlite") as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    process.start()
    assert {lease.id for lease in eve.list()} == {*before, later.id}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_when_told_to_also_with_clients_waiting(process: ControllerProcess, number: int) -> None:
    assert process.process is not None
    agent = Agent(process.client("gpu-server", timeout=1.0))
    agent.register()
    waiting = threading.Thread(target=_ignore_pool_errors, args=(agent,))
    waiting.start()
    httpx.get(f"{process.url}/health")
    process.process.send_signal(number)
    assert process.process.wait(60) == 0
    waiting.join()
    assert "Traceback" not in (process.state / "log").read_text()


def test_a_stop_answers_those_who_wait_and_logs_no_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A long poll of an agent and one of a queued student are under way when the controller stops."""
    with ThreadedController(tmp_path / "state") as controller, ThreadPoolExecutor(2) as pool:
        agent, student = Agent(controller.client("gpu-server")), controller.client("ada")
        agent.register()
        eve = controller.client("eve")
        reserve(eve, "all.ipynb", "1 V100")
        queued = reserve(student, wait=600)
        agent.report()
        polls: list[Future[Any]] = [
            pool.submit(agent.report, wait=30.0),
            pool.submit(student.get, queued.id, 30.0),
        ]
        until(lambda: controller.long_polls() == 2, "both wait")
        controller.stop()
        for poll in polls:
            with pytest.raises(PoolUnavailable, match="being stopped or restarted") as refusal:
                poll.result(60)
            assert refusal.value.retry_after
    logged = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert all(" 503 " in f" {record.getMessage()}" for record in logged)
    assert not any(record.exc_info for record in logged)


def _ignore_pool_errors(agent: Agent) -> None:
    with suppress(PoolError):
        agent.report(wait=10.0)


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ("--PoolController.lease_ttl=0", "must be more than 0"),
        ("--PoolController.lease_ttl=nan", "must be more than 0"),
        ("--PoolController.lease_ttl=0.1", "must be at least 0.5 s"),
        (
            "--PoolController.sweep_interval=16",
            "sweep_interval (16 s) must be at most a quarter of lease_ttl",
        ),
        ("--PoolController.queue_ttl=30", "queue_ttl (30 s) must be more than 30 s"),
        ("--PoolController.database_url=sqlite:////proc/nowhere/ledger.sqlite", "cannot run"),
        ("--PoolController.token_file=/nowhere/tokens.json", "No such file"),
        ("--PoolController.sizes={'': ['0.0001']}", "finer than a thousandth"),
    ],
)
def test_what_cannot_run_says_why_and_exits(tmp_path: Path, argument: str, text: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpu_kernels.pool", f"--state-dir={tmp_path}", "--port=0", argument],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_the_state_folder_is_private(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"PoolController": {"token_file": "/nowhere"}}))
    state = tmp_path / "new"
    subprocess.run(
        [sys.executable, "-m", "gpu_kernels.pool", f"--config={config}", f"--state-dir={state}", "--port=0"],
        capture_output=True,
        timeout=60,
    )
    assert os.stat(state).st_mode & 0o777 == 0o700
    assert (state / "lock").exists()


def test_another_programs_lock_on_the_database_holds_up_no_reader(tmp_path: Path) -> None:
    with (
        ThreadedController(tmp_path / "state", sweep_interval=15.0) as controller,
        closing(sqlite3.connect(tmp_path / "state" / "ledger.sqlite", isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        assert controller.client("ada").pool().queued == 0
        other.execute("ROLLBACK")
