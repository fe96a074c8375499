"""Standing in the line for a kernel's lease, without a kernel."""

from __future__ import annotations

import threading

import pytest
from msgspec.structs import replace

from gpu_kernels.client import PoolClient, Slot, lease_holder
from gpu_kernels.client.lease_holder import Withdrawn
from gpu_kernels.client.lease_request import LeaseRequest
from gpu_kernels.errors import LedgerUnavailable, TooMany
from gpu_kernels.provisioner import leasing
from gpu_kernels.provisioner.asking import Asking
from gpu_kernels.provisioner.leasing import Life
from tests.provisioner.pool import wait_until


class Line:
    """One request of a kernel that lives, and what became of it."""

    def __init__(self, client: PoolClient, size: str = "1 V100", alive=lambda: True, patience=None):
        self.over = threading.Event()
        request = LeaseRequest(size, Slot("", "a"), "a", "kernel", wait=patience)
        self.asking = Asking(client, request, Life(alive), ended=self._ended, moved=lambda: None)
        self.asking.start()

    def _ended(self, asking, error) -> None:
        self.lease, self.error = asking.lease, error
        self.over.set()

    def outcome(self):
        assert self.over.wait(60)
        assert self.asking.finished(60)
        return self.error or self.lease


@pytest.fixture
def blocker(pool):
    """A lease that takes the whole GPU."""
    pool.limit(5000)
    return pool.student.ask("1 V100", key="b", slot=Slot("", "b"), holder="blocker")


class ClientThatMayNotWait(PoolClient):
    def send(self, request):
        if "wait" in request.params:
            raise TooMany("You have 64 requests that wait for an answer.")
        return super().send(request)


def test_a_patient_start_that_may_not_wait_leaves_nothing(pool, blocker):
    line = Line(ClientThatMayNotWait(pool.url, "student-token"), patience=30.0)
    assert isinstance(line.outcome(), TooMany)
    assert [lease.id for lease in pool.leases()] == [blocker.id]


def test_a_patient_start_whose_request_the_controller_ended_is_told_the_same(pool, blocker, monkeypatch):
    monkeypatch.setattr(lease_holder, "LOOK_UP_S", 0.05)

    class Client(PoolClient):
        """The answer of a controller by whose clock the wait is over."""

        def send(self, request):
            answer = super().send(request)
            return replace(answer, state="expired", position=None) if request.method == "GET" else answer

    line = Line(Client(pool.url, "student-token"), patience=30.0)
    assert "became free within 30 seconds.\nNothing is reserved" in str(line.outcome())


def test_who_may_not_wait_for_an_answer_just_now_keeps_the_place_and_asks_later(pool, blocker):
    line = Line(ClientThatMayNotWait(pool.url, "student-token"))
    wait_until(lambda: line.asking.holder.trouble is not None)
    assert [lease.state for lease in pool.leases() if lease.holder == "kernel"] == ["queued"]
    line.asking.withdraw()
    assert isinstance(line.outcome(), Withdrawn)
    assert [lease.id for lease in pool.leases()] == [blocker.id]


def test_what_comes_free_is_granted_to_who_waits(pool, blocker):
    line = Line(pool.student)
    wait_until(lambda: line.asking.holder.position == 1)
    pool.student.release(blocker.id, "blocker")
    assert line.outcome().in_force


def test_a_dead_kernels_request_is_asked_for_no_longer(pool, blocker, monkeypatch):
    monkeypatch.setattr(leasing, "DEAD_GRACE_S", 0.0)
    monkeypatch.setattr(lease_holder, "LOOK_UP_S", 0.05)
    alive = threading.Event()
    alive.set()
    line = Line(pool.student, alive=alive.is_set)
    wait_until(lambda: line.asking.holder.position == 1)
    alive.clear()
    assert isinstance(line.outcome(), Withdrawn)
    assert [lease.id for lease in pool.leases()] == [blocker.id]


def test_a_request_says_again_that_it_waits_and_keeps_its_place(pool, blocker, monkeypatch):
    monkeypatch.setattr(lease_holder, "LOOK_UP_S", 0.05)
    monkeypatch.setattr(lease_holder, "SAY_AGAIN_S", 0.0)
    asked = []

    class Client(PoolClient):
        def send(self, request):
            asked.append((request.method, request.path))
            return super().send(request)

    line = Line(Client(pool.url, "student-token"))
    wait_until(lambda: asked.count(("POST", "/leases")) > 2)
    (queued,) = [lease for lease in pool.leases() if lease.queued]
    pool.student.release(blocker.id, "blocker")
    assert line.outcome().id == queued.id


def test_a_request_that_was_not_asked_for_in_time_is_made_anew(pool, blocker, monkeypatch):
    monkeypatch.setattr(lease_holder, "LOOK_UP_S", 0.05)
    expired = []

    class Client(PoolClient):
        """The answer of a controller that has heard nothing for too long, of the request that is expired."""

        def send(self, request):
            answer = super().send(request)
            over = any(request.path.endswith(lease_id) for lease_id in expired)
            return replace(answer, state="expired") if over else answer

    line = Line(Client(pool.url, "student-token"))
    wait_until(lambda: line.asking.holder.position == 1)
    first = line.asking.lease
    expired.append(first.id)
    wait_until(lambda: line.asking.lease.id != first.id)
    pool.student.release(blocker.id, "blocker")
    assert line.outcome().in_force


def test_a_controller_that_is_away_is_asked_until_it_answers(pool, monkeypatch):
    monkeypatch.setattr(lease_holder, "RETRY_S", 0.01)
    away = threading.Event()
    away.set()

    class Client(PoolClient):
        def send(self, request):
            if away.is_set():
                raise LedgerUnavailable("The ledger cannot be written now.")
            return super().send(request)

    line = Line(Client(pool.url, "student-token"), size="0.02 V100")
    wait_until(lambda: line.asking.holder.trouble is not None)
    assert "ledger" in line.asking.holder.trouble
    away.clear()
    assert line.outcome().in_force
