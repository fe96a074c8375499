"""The set that the controller tells, taken over: whatever order, repetition or age it comes in."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gpu_kernels.client import AssignedLease, Assignment, LeaseSlice
from gpu_kernels.remoting.agent.grants import NOT_KNOWN, REMEMBERED_ENDS, Grants, told_at
from gpu_kernels.remoting.hello import Hello, Refusal, Status

GPU = "GPU-1"


def secret_of(lease_id: str, epoch: int) -> bytes:
    return hashlib.sha256(f"{lease_id}/{epoch}".encode()).digest()


def assigned(lease_id: str, epoch: int = 1, expires_in: float = 60.0, gpu: str = GPU) -> AssignedLease:
    digest = hashlib.sha256(secret_of(lease_id, epoch)).hexdigest()
    return AssignedLease(lease_id, epoch, digest, expires_in, (LeaseSlice(gpu, 0, 655, 20),))


def hello(lease_id: str, epoch: int = 1, secret: bytes | None = None) -> Hello:
    return Hello(0, 0, bytes(16), epoch, lease_id, secret_of(lease_id, epoch) if secret is None else secret)


def grants(floors: dict[str, int] | None = None) -> Grants:
    return Grants([GPU], floors or {})


def status_of(held: Grants, asked: Hello, now: float = 0.0) -> Status:
    try:
        held.admit(asked, now)
    except Refusal as refusal:
        return refusal.status
    return Status.OK


TIMES = st.floats(0.0, 100.0)


@given(start=TIMES, there=TIMES, wait=TIMES, told=st.floats(0.0, 1.0), back=TIMES, life=TIMES)
def test_no_grant_outlives_its_lease_and_the_long_poll_is_not_lost(start, there, wait, told, back, life):
    """A request takes ``there`` to the controller, is held for ``wait``, of which the answer tells a part."""
    counted = start + there + wait
    held = grants()
    answer = Assignment(1, (assigned("a", expires_in=life),), held=wait * told)
    held.apply(answer, anchored_at=start, answered_at=counted + back)
    deadline = held.next_deadline()
    assert deadline is not None
    slack = 1e-9
    assert deadline <= counted + life + slack, "never after the lease's own end"
    assert deadline >= counted + life - there - wait * (1 - told) - slack


@given(start=TIMES, held=st.one_of(st.floats(), st.just(-1.0)), took=TIMES)
def test_no_word_on_how_long_it_was_held_gives_more_time_than_the_answer_took(start, held, took):
    assert start <= told_at(start, held, start + took) <= start + took


def test_what_the_agent_promises_counts_from_the_start_all_the_same():
    held = Grants([GPU], {}, fences_after=FENCE)
    held.apply(Assignment(1, (assigned("a"),), held=9.0), anchored_at=100.0, answered_at=110.0)
    assert held.trusted_until == 100.0 + FENCE


def test_a_grant_lapses_at_its_deadline_and_comes_back_with_a_newer_word():
    held = grants()
    held.apply(Assignment(1, (assigned("a", expires_in=10),)), anchored_at=100.0)
    assert held.next_deadline() == 110.0
    assert status_of(held, hello("a"), now=109.9) == Status.OK
    assert status_of(held, hello("a"), now=110.0) == Status.LEASE_ENDED
    assert not held.serves(("a", 1), 110.0)
    held.apply(Assignment(1, (assigned("a", expires_in=10),)), anchored_at=105.0)
    assert status_of(held, hello("a"), now=110.0) == Status.OK


def test_the_deadline_counts_from_the_start_of_the_request():
    held = grants()
    held.apply(Assignment(1, (assigned("a", expires_in=10),)), anchored_at=100.0)
    # The reply may have taken 9 seconds: that time is the lease's, not a gift.
    assert held.serves(("a", 1), 109.0)
    assert not held.serves(("a", 1), 110.5)


def test_a_set_that_is_older_changes_nothing():
    held = grants()
    held.apply(Assignment(5, (assigned("a"),)), 0.0)
    assert held.apply(Assignment(4, ()), 0.0) is None
    assert held.serves(("a", 1), 0.0)


def test_a_repeated_set_changes_nothing():
    held = grants()
    held.apply(Assignment(5, (assigned("a"),)), 0.0)
    change = held.apply(Assignment(5, (assigned("a"),)), 0.0)
    assert change is not None
    assert (change.ended, change.floors_raised, change.refused) == ((), False, ())


def test_an_ended_lease_does_not_come_back_even_to_another_agent_process():
    held = grants()
    held.apply(Assignment(1, (assigned("a"),)), 0.0)
    held.apply(Assignment(2, ()), 0.0)
    for later in (held, grants(held.floors)):
        change = later.apply(Assignment(9, (assigned("a"),)), 0.0)
        assert change is not None
        assert "already ended" in change.refused[0]
        assert not later.serves(("a", 1), 0.0)
        later.apply(Assignment(10, (assigned("a", epoch=2),)), 0.0)
        assert later.serves(("a", 2), 0.0)


def test_a_new_epoch_ends_the_old_one():
    held = grants()
    held.apply(Assignment(1, (assigned("a"),)), 0.0)
    change = held.apply(Assignment(2, (assigned("a", epoch=2),)), 0.0)
    assert change is not None
    assert [grant.key for grant in change.ended] == [("a", 1)]
    assert status_of(held, hello("a", 1)) == Status.OLD_EPOCH
    assert status_of(held, hello("a", 2)) == Status.OK


@pytest.mark.parametrize(
    ("lease", "why"),
    [
        (assigned("a", gpu="GPU-elsewhere"), "not here"),
        (AssignedLease("a", 1, "zz", 60.0, (LeaseSlice(GPU, 0, 1, 1),)), "digest"),
        (AssignedLease("a", 1, "ab" * 31, 60.0, (LeaseSlice(GPU, 0, 1, 1),)), "digest"),
        (AssignedLease("a", 1, "ab" * 32, 60.0, ()), "not here"),
    ],
)
def test_what_cannot_be_served_is_refused_and_the_rest_is_served(lease, why):
    held = grants()
    change = held.apply(Assignment(1, (lease, assigned("b"))), 0.0)
    assert change is not None
    assert why in change.refused[0]
    assert not held.serves(("a", 1), 0.0)
    assert held.serves(("b", 1), 0.0)


def test_a_set_that_cannot_be_understood_changes_nothing():
    held = grants()
    held.apply(Assignment(1, (assigned("a"),)), 0.0)
    without_time = AssignedLease("b", 1, "ab" * 32, None, (LeaseSlice(GPU, 0, 1, 1),))
    with pytest.raises(TypeError):
        held.apply(Assignment(9, (without_time,)), 0.0)
    assert held.applied_seq == 1
    assert held.serves(("a", 1), 0.0)


def test_after_registering_anew_lower_numbers_are_news():
    held = grants()
    held.apply(Assignment(50, (assigned("a"),)), 0.0)
    held.forget_sequence()
    assert held.apply(Assignment(1, ()), 0.0) is not None
    assert not held.serves(("a", 1), 0.0)


def test_a_replaced_agent_serves_nothing_but_no_lease_has_ended():
    held = grants()
    held.apply(Assignment(1, (assigned("a"),)), 0.0)
    held.drop_all()
    assert not held.serves(("a", 1), 0.0)
    held.apply(Assignment(1, (assigned("a"),)), 0.0)
    assert held.serves(("a", 1), 0.0)


def test_what_is_remembered_of_the_past_is_bounded():
    held = grants()
    for number in range(REMEMBERED_ENDS + 10):
        held.apply(Assignment(number, (assigned(f"lease-{number}"),)), 0.0)
    assert status_of(held, hello("lease-0")) == Status.UNKNOWN_LEASE
    assert status_of(held, hello(f"lease-{REMEMBERED_ENDS}")) == Status.LEASE_ENDED


names = st.sampled_from(["a", "b", "c"])
small = st.integers(0, 4)


@given(st.lists(st.tuples(names, small), max_size=6), st.binary(min_size=32, max_size=32), names, small)
def test_without_the_secret_every_lease_gives_the_same_answer(history, wrong, lease_id, epoch):
    held = grants()
    for number, (name, at) in enumerate(history):
        held.apply(Assignment(number, (assigned(name, at),)), 0.0)
    with pytest.raises(Refusal) as refused:
        held.admit(hello(lease_id, epoch, wrong), 0.0)
    assert (refused.value.status, refused.value.text) == (Status.UNKNOWN_LEASE, NOT_KNOWN)


FENCE = 12.0


def changes(
    seq: int, *new: AssignedLease, lives: tuple[tuple[str, int, float], ...] = (), of: str = ""
) -> Assignment:
    return Assignment(seq, incarnation=of, changes=new, lives=lives)


def test_changes_say_as_much_as_the_full_set():
    held = grants()
    held.apply(Assignment(1, (assigned("a"), assigned("b"))), 0.0)
    change = held.apply(changes(2, assigned("c"), lives=(("a", 1, 60.0),)), anchored_at=30.0)
    assert change is not None
    assert [grant.key for grant in change.ended] == [("b", 1)]
    assert not held.in_doubt
    assert [held.serves((name, 1), 61.0) for name in "abc"] == [True, False, True]
    assert held.served_until(("a", 1)) == 90.0


def test_a_name_that_is_not_known_asks_for_everything_and_the_rest_is_served():
    held = grants()
    held.apply(Assignment(1, (assigned("a"),)), 0.0)
    held.apply(changes(5, lives=(("a", 1, 60.0), ("missed", 4, 60.0))), 0.0)
    assert held.in_doubt
    assert held.serves(("a", 1), 0.0)
    held.apply(Assignment(5, (assigned("a"), assigned("missed", 4))), 0.0)
    assert not held.in_doubt
    assert held.serves(("missed", 4), 0.0)


def test_a_lease_that_was_refused_is_not_asked_for_again_and_again():
    held = grants()
    held.apply(Assignment(1, (assigned("a", gpu="GPU-elsewhere"),)), 0.0)
    for _ in range(3):
        held.apply(changes(1, lives=(("a", 1, 60.0),)), 0.0)
        assert not held.in_doubt


def test_changes_that_another_ledger_counts_change_nothing():
    held = grants()
    held.apply(Assignment(7, (assigned("a"),), "first"), 0.0)
    assert held.apply(changes(9, lives=(), of="second"), 0.0) is None
    assert held.in_doubt
    assert held.serves(("a", 1), 0.0)
    assert held.apply(Assignment(2, (), "second"), 0.0) is not None
    assert (held.applied_seq, held.incarnation, held.in_doubt) == (2, "second", False)
    assert not held.serves(("a", 1), 0.0)


def test_without_an_acknowledged_report_nothing_is_served_after_the_promised_time():
    held = Grants([GPU], {}, fences_after=FENCE)
    held.apply(Assignment(1, (assigned("a", expires_in=1000),)), anchored_at=100.0)
    assert held.served_until(("a", 1)) == held.next_deadline() == 100.0 + FENCE
    assert status_of(held, hello("a"), now=100.0 + FENCE) == Status.LEASE_ENDED
    held.apply(changes(1, lives=(("a", 1, 1000.0),)), anchored_at=150.0)
    assert held.serves(("a", 1), 150.0 + FENCE - 0.1)


def test_an_answer_that_is_dropped_gives_no_time():
    held = Grants([GPU], {}, fences_after=FENCE)
    held.apply(Assignment(5, (assigned("a"),)), anchored_at=100.0)
    held.apply(Assignment(4, (assigned("a"),)), anchored_at=110.0)
    assert held.trusted_until == 100.0 + FENCE


def test_the_highest_epoch_outlives_the_lease_and_the_process():
    held = grants()
    held.apply(Assignment(1, (assigned("a", 7), assigned("b", 4))), 0.0)
    held.apply(Assignment(2, ()), 0.0)
    assert held.highest_epoch == 7
    assert Grants([GPU], held.floors, highest_epoch=7).highest_epoch == 7


class AgentOfAnUnreliableController(RuleBasedStateMachine):
    """Sets come late, again, by changes, from a ledger that was restored, and across restarts of the agent.

    ``twin`` is told the same, always in full.
    """

    def __init__(self) -> None:
        super().__init__()
        self.held = Grants([GPU], {}, fences_after=FENCE)
        self.twin = Grants([GPU], {}, fences_after=FENCE)
        self.acknowledged_at = 0.0
        self.now = 0.0
        self.seq = 0
        self.sets: list[Assignment] = []
        self.over: set[tuple[str, int]] = set()
        self.serving: set[tuple[str, int]] = set()

    def take(self, assignment: Assignment, anchored_at: float) -> None:
        newer = assignment.target_seq >= self.held.applied_seq
        if self.held.apply(assignment, anchored_at) is not None:
            self.acknowledged_at = anchored_at
        if newer:
            said = {(lease.id, lease.epoch) for lease in assignment.told}
            said |= {(lease_id, epoch) for lease_id, epoch, _ in assignment.lives or ()}
            self.over |= self.serving - said
            self.serving = said - self.over

    @rule(chosen=st.dictionaries(names, st.integers(1, 4)), life=st.floats(0.1, 20.0))
    def a_set_comes(self, chosen, life):
        self.seq += 1
        leases = tuple(assigned(name, epoch, life) for name, epoch in sorted(chosen.items()))
        self.sets.append(Assignment(self.seq, leases))
        self.take(self.sets[-1], self.now)
        self.twin.apply(self.sets[-1], self.now)

    @precondition(lambda self: self.sets)
    @rule(
        chosen=st.dictionaries(names, st.integers(1, 4)), life=st.floats(0.1, 20.0), since=st.integers(0, 9)
    )
    def a_set_comes_by_its_changes(self, chosen, life, since):
        """``since``: what the controller takes the agent to know, rightly or not."""
        self.seq += 1
        base = next((old for old in self.sets if old.target_seq == since), Assignment(0, ()))
        known = {(lease.id, lease.epoch) for lease in base.leases}
        new = tuple(assigned(k, e, life) for k, e in sorted(chosen.items()) if (k, e) not in known)
        old = tuple((k, e, life) for k, e in sorted(chosen.items()) if (k, e) in known)
        self.take(Assignment(self.seq, changes=new, lives=old), self.now)
        self.sets.append(Assignment(self.seq, tuple(assigned(k, e, life) for k, e in sorted(chosen.items()))))
        if self.held.in_doubt:
            self.take(self.sets[-1], self.now)
        self.twin.apply(self.sets[-1], self.now)

    @precondition(lambda self: self.sets)
    @rule(data=st.data())
    def an_earlier_set_comes_again(self, data):
        earlier = data.draw(st.sampled_from(self.sets))
        self.take(earlier, self.now)
        self.twin.apply(earlier, self.now)

    @rule(seconds=st.floats(0.0, 15.0))
    def time_passes(self, seconds):
        self.now += seconds

    @rule()
    def the_agent_restarts(self):
        self.held, self.twin = (
            Grants([GPU], one.floors, highest_epoch=one.highest_epoch, fences_after=FENCE)
            for one in (self.held, self.twin)
        )
        self.serving = set()

    @rule()
    def the_ledger_is_another(self):
        self.held.forget_sequence()
        self.twin.forget_sequence()

    @invariant()
    def changes_lead_to_what_full_sets_lead_to(self) -> None:
        for key in ((name, epoch) for name in "abc" for epoch in range(6)):
            assert self.held.served_until(key) == self.twin.served_until(key)
        assert self.held.floors == self.twin.floors

    @invariant()
    def nothing_that_is_over_is_served(self):
        served = [key for key in self.over if self.held.serves(key, self.now)]
        assert served == []

    @invariant()
    def nothing_is_served_without_a_word_of_the_controller(self) -> None:
        if self.now >= self.acknowledged_at + FENCE:
            assert not [name for name in "abc" for e in range(6) if self.held.serves((name, e), self.now)]

    @invariant()
    def one_epoch_of_a_lease_at_most(self):
        for name in "abc":
            assert sum(self.held.serves((name, epoch), self.now) for epoch in range(6)) <= 1

    @invariant()
    def who_proves_a_served_lease_is_admitted_and_nobody_else(self):
        for name in "abc":
            for epoch in range(1, 5):
                admitted = status_of(self.held, hello(name, epoch), self.now) == Status.OK
                assert admitted == self.held.serves((name, epoch), self.now)


TestAgentOfAnUnreliableController = AgentOfAnUnreliableController.TestCase
