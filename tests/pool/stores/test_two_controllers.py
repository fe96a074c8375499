"""Two controllers on one store, as real processes: one decides, the other takes over when it is gone."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from gpu_kernels.client import PoolClient
from gpu_kernels.errors import LedgerUnavailable, NotActive, PoolError, PoolUnavailable
from gpu_kernels.pool.ledger.state.rows import Event, Gpu, Lease, Slice
from gpu_kernels.pool.ledger.state.states import HOLDING
from gpu_kernels.pool.ledger.stores.sql import SqlStore
from tests.pool.controller import Agent, ControllerProcess, error_of, reserve, token, until

TERM = 1.5
"""Where one has to lose its term: any may then, if this machine stands still."""
LONG = 600.0
ROUNDS = 2
SOON = 60.0


class Pair:
    """Two controllers of one ledger, each with a state folder of its own and the same key."""

    def __init__(self, url: str, folder: Path, term_ttl: float = TERM) -> None:
        self.url = url
        traits = {"database_url": url, "term_ttl": term_ttl, "lease_ttl": LONG, "max_requests": 1e6}
        self.both = [ControllerProcess(folder / name, max_leases=1000, **traits) for name in ("one", "two")]
        for controller in self.both:
            key = controller.state / "lease-secret.key"
            key.write_bytes(b"k" * 32)
            key.chmod(0o600)
            controller.start()  # one after the other: of two that begin a ledger the second takes it over

    @staticmethod
    def role(controller: ControllerProcess) -> str:
        try:
            return str(httpx.get(f"{controller.url}/health", timeout=5).json().get("role", ""))
        except httpx.TransportError:
            return "gone"

    @property
    def active(self) -> ControllerProcess:
        found: list[ControllerProcess] = []

        def one() -> bool:
            found[:] = [c for c in self.both if self.role(c) == "active"]
            return len(found) == 1

        until(one, "one controller is active")
        return found[0]

    def other(self, controller: ControllerProcess) -> ControllerProcess:
        return self.both[1] if controller is self.both[0] else self.both[0]

    def client(self, name: str) -> PoolClient:
        return PoolClient(",".join(c.url for c in self.both), token(name), 2.0)

    def close(self) -> None:
        for controller in self.both:
            if controller.process is not None and controller.process.poll() is None:
                controller.process.send_signal(signal.SIGCONT)
            controller.__exit__()
            assert "Traceback" not in (controller.state / "log").read_text()


@contextmanager
def running(url: str, folder: Path, term_ttl: float) -> Iterator[Pair]:
    pair = Pair(url, folder, term_ttl)
    try:
        yield pair
    finally:
        pair.close()


@pytest.fixture
def pair(url: str, tmp_path: Path) -> Iterator[Pair]:
    with running(url, tmp_path, TERM) as pair:
        yield pair


@pytest.fixture
def lasting_pair(url: str, tmp_path: Path) -> Iterator[Pair]:
    """Of which the active one stays so until it ends."""
    with running(url, tmp_path, LONG) as pair:
        yield pair


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shared_pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Such a one for several tests, none of which stops anything."""
    folder = tmp_path_factory.mktemp("pair")
    if request.param == "sqlite":
        url = f"sqlite:///{folder / 'ledger.sqlite'}"
    else:
        url = request.getfixturevalue("postgresql_server").new_database()
    with running(url, folder, LONG) as pair:
        yield pair


class Load:
    """Clients that ask for leases and give them back, and remember what they were told."""

    def __init__(self, pair: Pair, clients: int = 3) -> None:
        self._pair = pair
        self._stop = threading.Event()
        self.granted: dict[str, str] = {}
        """Lease id and secret of all that was ever granted."""
        self.held: set[str] = set()
        self.given_back: set[str] = set()
        self.errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(clients)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int) -> None:
        with self._pair.client("eve") as client:
            count = 0
            while not self._stop.is_set():
                count += 1
                path = f"{number}-{count}.ipynb"
                try:
                    lease = self._until_told(reserve, client, path, "0.001 V100", course="cv202")
                    self.granted[lease.id] = lease.secret or ""
                    if count % 3:
                        self._until_told(client.release, lease.id, "kernel-1")
                        self.given_back.add(lease.id)
                    else:
                        self.held.add(lease.id)
                except BaseException as error:
                    self.errors.append(error)
                    return

    def _until_told(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Repeat what had no answer, as a provisioner would: repeating is safe."""
        end = time.monotonic() + SOON
        while True:
            try:
                return call(*arguments, **named)
            except (PoolUnavailable, LedgerUnavailable):
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def wait_for_more(self, count: int = 20) -> None:
        start = len(self.granted)
        until(lambda: bool(self.errors) or len(self.granted) >= start + count, "leases are granted")
        assert self.errors == []

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(SOON)
            assert not thread.is_alive()
        assert self.errors == []


def check(url: str, load: Load) -> None:
    """Nothing of what anybody was told is lost, and nothing was done twice."""
    store = SqlStore(url)
    leases = {lease.id: lease for lease in store.every(Lease)}
    assert set(load.granted) <= set(leases)
    assert all(leases[name].state in ("reserved", "active") for name in load.held)
    assert all(leases[name].state not in ("reserved", "active", "queued") for name in load.given_back)
    slots = [(lease.path, lease.state) for lease in leases.values() if lease.place == "current"]
    assert len(slots) == len(set(slots))
    assert len({lease.path for lease in leases.values()}) == len(leases), "a request was granted twice"
    holding = {lease.id for lease in leases.values() if lease.state in HOLDING}
    open_slices = [part for part in store.every(Slice) if part.ended_at is None]
    assert {part.lease_id for part in open_slices} == holding
    (gpu,) = store.every(Gpu)
    assert gpu.used_mib == sum(part.mib for part in open_slices)
    assert gpu.used_thousandths == sum(part.thousandths for part in open_slices)
    epochs = [lease.epoch for lease in leases.values() if lease.epoch]
    assert len(epochs) == len(set(epochs))
    events = [event.id for event in store.every(Event)]
    assert sorted(events) == list(range(1, len(events) + 1))
    store.close_readers()


class Server:
    """A GPU server that confirms what it is told, wherever the active controller is."""

    def __init__(self, pair: Pair) -> None:
        self.agent = Agent(pair.client("gpu-server"))
        until(self._is_registered, "the server is there")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _is_registered(self) -> bool:
        try:
            self.agent.register(total_mib=33000, allocatable_mib=32768)
        except PoolError:
            return False
        return True

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            try:
                self.agent.report()
            except PoolError:
                continue

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(SOON)


def test_the_one_on_standby_says_where_the_active_one_is(shared_pair: Pair) -> None:
    pair = shared_pair
    active = pair.active
    standby = pair.other(active)
    assert pair.role(standby) == "standby"
    headers = {"Authorization": f"token {token('ada')}"}
    refused = httpx.get(f"{standby.url}/api/v1/leases", headers=headers)
    assert refused.status_code == 503
    error = error_of(refused)
    assert error["code"] == "not_active"
    assert error["details"] == {"address": active.url}
    assert httpx.get(f"{standby.url}/health").json()["active"] == active.url
    assert "pool_controller_active 0.0" in httpx.get(f"{standby.url}/metrics").text
    assert "pool_controller_active 1.0" in httpx.get(f"{active.url}/metrics").text
    with pytest.raises(NotActive), PoolClient(standby.url, token("ada"), SOON) as client:
        client.list()


def test_one_that_is_stopped_hands_over_at_once(lasting_pair: Pair) -> None:
    """It does not wait for the end of the term."""
    pair = lasting_pair
    active = pair.active
    standby = pair.other(active)
    assert active.stop() == 0
    until(lambda: pair.role(standby) == "active", "the other one takes over")
    with standby.client("ada") as client:
        assert client.list() == []


def test_kill_9_of_the_active_one_under_load_loses_nothing(pair: Pair) -> None:
    server, load = Server(pair), Load(pair)
    for _ in range(ROUNDS):
        load.wait_for_more()
        active = pair.active
        active.kill()
        load.wait_for_more()
        active.start()
    load.stop()
    server.stop()
    check(pair.url, load)


def test_one_that_was_stopped_for_longer_than_its_term_decides_nothing_more(pair: Pair) -> None:
    server, load = Server(pair), Load(pair)
    for _ in range(ROUNDS):
        load.wait_for_more()
        active = pair.active
        standby = pair.other(active)
        stop_between_writes(active)
        until(lambda: pair.role(standby) == "active", "the other one takes over")  # noqa: B023
        load.wait_for_more()
        assert active.process is not None
        os.kill(active.process.pid, signal.SIGCONT)
        until(lambda: pair.role(active) == "standby", "the old one steps down")  # noqa: B023
        assert pair.active is not None
    load.stop()
    server.stop()
    check(pair.url, load)


def stop_between_writes(controller: ControllerProcess) -> None:
    """SIGSTOP at a moment in which it holds no lock of a SQLite file.

    PostgreSQL ends the session of a process that stands still within a transaction; a file's lock is held for
    as long as its process is there, and nobody can decide until it goes on or is killed.
    """
    assert controller.process is not None
    end = time.monotonic() + SOON
    while True:
        os.kill(controller.process.pid, signal.SIGSTOP)
        if not holds_the_lock(controller):
            return
        os.kill(controller.process.pid, signal.SIGCONT)
        assert time.monotonic() < end
        time.sleep(0.01)


def holds_the_lock(controller: ControllerProcess) -> bool:
    url = json.loads((controller.state / "config.json").read_text())["PoolController"]["database_url"]
    if not url.startswith("sqlite"):
        return False
    probe = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=0.05, isolation_level=None)
    try:
        probe.execute("BEGIN IMMEDIATE")
        probe.execute("ROLLBACK")
    except sqlite3.OperationalError:
        return True
    finally:
        probe.close()
    return False


class TestOneStateFolder:
    """Two on one machine: the folder's lock tells the second that the first is dead."""

    @pytest.fixture
    def first(self, tmp_path: Path) -> Iterator[ControllerProcess]:
        with ControllerProcess(tmp_path / "state", term_ttl=3600.0) as controller:
            yield controller

    @pytest.fixture
    def second(self, first: ControllerProcess) -> Iterator[ControllerProcess]:
        second = ControllerProcess(first.state, term_ttl=3600.0)
        with second:
            yield second

    def test_the_second_takes_over_without_waiting(
        self, first: ControllerProcess, second: ControllerProcess
    ) -> None:
        role = partial(Pair.role, second)
        assert role() == "standby"
        first.kill()
        until(lambda: role() == "active", "the second one takes over")

    def test_the_first_goes_on_where_it_was_when_it_is_started_again(self, first: ControllerProcess) -> None:
        client = first.client("eve")
        Agent(first.client("gpu-server")).register()
        lease = reserve(client)
        first.kill()
        first.start()
        assert client.get(lease.id).secret == lease.secret


def test_one_with_another_key_does_not_start(shared_pair: Pair, tmp_path: Path) -> None:
    stranger = ControllerProcess(tmp_path / "stranger", database_url=shared_pair.url, term_ttl=LONG)
    with pytest.raises(AssertionError, match=r"lease-secret.key is not that of"):
        stranger.start()
