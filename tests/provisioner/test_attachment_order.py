"""Requests of one kernel that are on their way at once: none overtakes another, and none is forgotten."""

from __future__ import annotations

import threading

import pytest

from gpu_kernels.client import PoolClient, Slot
from gpu_kernels.client.keeper import KEEPER
from gpu_kernels.client.lease_request import LeaseRequest
from gpu_kernels.errors import PoolUnavailable
from gpu_kernels.provisioner import leasing
from gpu_kernels.provisioner.asking import Asking
from gpu_kernels.provisioner.attachment import Attachment
from tests.provisioner.pool import settled, wait_until


class SlowOnTheWay(PoolClient):
    """A student's client whose requests for some sizes are held up before the controller has them, until
    they are let through.
    """

    def __init__(self, url: str, *sizes: str) -> None:
        super().__init__(url, "student-token")
        self.sent: list[str] = []
        self.through = {size: threading.Event() for size in sizes}

    def send(self, request):
        if request.path == "/leases":
            self.sent.append(request.body["key"])
            if request.body["size"] in self.through:
                self.through.pop(request.body["size"]).wait(60)
        return super().send(request)


class SlowOnTheWayBack(PoolClient):
    """A student's client whose answers to requests for a size are held up until they are let through."""

    def __init__(self, url: str, size: str) -> None:
        super().__init__(url, "student-token")
        self._size, self.through = size, threading.Event()

    def send(self, request):
        answer = super().send(request)
        if request.path == "/leases" and request.body["size"] == self._size:
            self.through.wait(60)
        return answer


class LosesAnswers(PoolClient):
    """A student's client whose requests reach the controller, and whose answers never come."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "student-token")

    def send(self, request):
        answer = super().send(request)
        if (request.method, request.path) == ("POST", "/leases"):
            raise PoolUnavailable("the connection was lost")
        return answer


class SlowToGiveBack(PoolClient):
    """A student's client whose releases are held up until they are let through."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "student-token")
        self.through = threading.Event()

    def send(self, request):
        if request.path.endswith("/release"):
            self.through.wait(60)
        return super().send(request)


@pytest.fixture
def asking(pool, monkeypatch):
    """``asking(client, size)``: an attachment that asks through it for a slice."""
    made = []

    def ask(client, size: str) -> Attachment:
        monkeypatch.setattr(leasing, "client_of_this_process", lambda: client)
        made.append(attachment := Attachment("kernel-1", lambda: True))
        attachment.ask(LeaseRequest(size, Slot("", "a"), "first", "kernel-1"))
        return attachment

    yield ask
    for attachment in made:
        attachment.end()


def test_who_asks_again_after_a_withdrawn_request_waits_for_the_one_before_that(asking, pool):
    slow = SlowOnTheWay(pool.url, "0.02 V100")
    let_through = slow.through["0.02 V100"]
    attachment = asking(slow, "0.02 V100")
    wait_until(lambda: slow.sent == ["first"])
    attachment.attach("0.05 V100")
    second = attachment.asking
    attachment.release()
    assert second.finished(60)
    attachment.want()
    third = attachment.asking
    assert [second.started, third.started] == [False, False]
    assert slow.sent == ["first"]
    let_through.set()
    assert settled(attachment, 60).state == "attached"
    assert attachment.view().lease.in_force
    assert [lease.id for lease in pool.in_force()] == [attachment.view().lease.id]


def test_a_smaller_size_waits_since_the_first_did_though_that_is_told_of_its_end_before(asking, pool):
    pool.limit(5000)
    pool.student.ask("1 V100", key="b", slot=Slot("", "b"), holder="blocker")
    slow = SlowOnTheWayBack(pool.url, "0.02 V100")
    attachment = asking(slow, "0.05 V100")
    first = attachment.asking
    wait_until(lambda: first.holder.position is not None)
    attachment.attach("0.02 V100")
    assert first.finished(60)  # the controller has ended it: the second has its place
    since = attachment._standing.left[0].since
    slow.through.set()
    wait_until(lambda: attachment._standing.wanted.since == since)
    assert attachment.view().place.size == "0.02 V100"


def test_who_listens_hears_of_a_refusal_though_who_waited_has_left_before(pool):
    """As a grading run: its notebook ends as soon as it is refused, and what it was refused with counts."""
    told = []
    attachment = Attachment("kernel-1", lambda: True, lambda _, view: told.append((view.state, view.error)))

    def leave() -> None:
        if attachment.view().state == "refused":
            attachment.release()

    attachment._watching.append(leave)
    pool.limit(50)
    attachment.ask(LeaseRequest("0.5 V100", Slot("", "a"), "first", "kernel-1"))
    wait_until(lambda: attachment.view().state == "released")
    wait_until(lambda: [error for state, error in told if state == "refused" and error is not None])
    attachment.end()


def test_a_request_that_gets_no_thread_is_refused_and_the_next_one_is_asked_for(asking, pool, monkeypatch):
    attachment = asking(pool.student, "0.02 V100")
    assert settled(attachment, 60).state == "attached"

    def no_thread(_) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(Asking, "start", no_thread)
        attachment.attach("0.05 V100")
    view = attachment.view()
    assert (view.state, view.place) == ("attached", None)
    assert "fault of this installation" in view.declined
    attachment.attach("0.05 V100")
    assert settled(attachment, 60).size == "0.05 V100"
    attachment.end()


def test_a_kernel_that_was_dead_for_a_while_has_its_slice_renewed_again(asking, pool):
    attachment = asking(pool.student, "0.02 V100")
    lease = settled(attachment, 60).lease
    for holder in KEEPER.holders():  # as the keeper does when the kernel has no process for too long
        KEEPER.forget(holder)
    attachment.restarting()
    assert KEEPER.keeps() == [lease.id]
    attachment.release()
    assert KEEPER.keeps() == []


def test_a_kernel_asks_anew_though_its_loss_is_just_being_told(asking, pool, monkeypatch):
    attachment = asking(pool.student, "0.02 V100")
    lease = settled(attachment, 60).lease
    held = attachment._held()
    held.on_lost = lambda held: None  # it is on its way to us
    pool.admin.revoke(lease.id, "the test says so")
    KEEPER.round()
    attachment.want()
    view = settled(attachment, 60)
    assert view.state == "attached"
    assert view.lease.id != lease.id


def test_a_kernel_that_ends_while_the_answer_to_its_request_is_lost_leaves_no_place_in_the_line(asking, pool):
    pool.limit(50)
    other = pool.student.ask("0.05 V100", key="other", slot=Slot("", "other"), holder="other")
    attachment = asking(LosesAnswers(pool.url), "0.02 V100")
    wait_until(lambda: "kernel-1" in [lease.holder for lease in pool.leases()])
    request = attachment.asking
    attachment.end()
    assert request.finished(60)
    assert [lease.id for lease in pool.leases()] == [other.id]


def test_who_listens_hears_of_a_change_before_the_controller_has_answered_to_what_it_gives_back(asking, pool):
    slow = SlowToGiveBack(pool.url)
    attachment = asking(slow, "0.02 V100")
    lease = settled(attachment, 60).lease
    changes = attachment.changes
    releasing = threading.Thread(target=attachment.release)
    releasing.start()
    attachment.wait(changes, 60)
    assert attachment.changes > changes
    assert [each.id for each in pool.in_force()] == [lease.id]
    slow.through.set()
    releasing.join(60)
    assert pool.in_force() == []
