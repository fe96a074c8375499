"""Room for connections: bounded, and never withheld from who speaks by who is silent."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_kernels.limits.connections import ConnectionLimit, Full
from gpu_kernels.limits.descriptors import shares

STEPS = ["enter", "hold", "prove", "must prove", "rest", "leave", "shed"]
steps = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 30), st.sampled_from("abc")), max_size=120)
bounds = st.fixed_dictionaries(
    {
        "of_peer": st.integers(1, 4),
        "of_owner": st.integers(1, 4),
        "unproved": st.integers(1, 6),
        "proved": st.integers(1, 6),
        "reserve": st.integers(0, 3),
        "reserve_of_owner": st.integers(1, 2),
    }
)


@dataclass
class Model:
    """What the limit should know, told plainly: whose each connection is, in the order of arrival there."""

    unproved: dict[int, str] = field(default_factory=dict)
    proved: dict[int, str] = field(default_factory=dict)
    reserved: dict[int, str] = field(default_factory=dict)
    busy: set[int] = field(default_factory=set)

    @property
    def all(self) -> list[int]:
        return [*self.unproved, *self.proved, *self.reserved]

    def forget(self, connection: int) -> None:
        for held in (self.unproved, self.proved, self.reserved):
            held.pop(connection, None)
        self.busy.discard(connection)

    def gave_way(self, connection: int, kind: dict[int, str]) -> None:
        """Only the oldest idle one of its own kind and party may have."""
        assert connection in kind
        assert connection not in self.busy
        party = kind[connection]
        assert connection == next(c for c in kind if kind[c] == party and c not in self.busy)
        self.forget(connection)

    def idle(self, kind: dict[int, str], party: str | None = None) -> list[int]:
        return [c for c in kind if c not in self.busy and party in (None, kind[c])]


@given(steps, bounds)
def test_the_bounds_hold_and_only_the_idle_give_way(history, bounds):
    limit: ConnectionLimit[int] = ConnectionLimit(**bounds)
    model = Model()
    for number, (step, chosen, party) in enumerate(history):
        if step == "enter":
            try:
                evicted = limit.enter(number, party)
            except Full:
                at_limit = list(model.unproved.values()).count(party) >= bounds["of_peer"]
                assert not model.idle(model.unproved, party if at_limit else None)
                continue
            if evicted is not None:
                model.gave_way(evicted, model.unproved)
            model.unproved[number] = party
        elif step == "shed":
            for shed in limit.shed(chosen):
                model.gave_way(shed, model.unproved)
        elif model.all:
            one = model.all[chosen % len(model.all)]
            if step == "hold":
                limit.hold(one)
                model.busy.add(one)
            elif step == "rest":
                limit.rest(one)
                model.busy.discard(one)
            elif step == "leave":
                limit.leave(one)
                model.forget(one)
            else:
                prove(limit, model, one, party, bounds, reserved=step == "must prove")
        check(limit, model, bounds)


def prove(limit, model, one, owner, bounds, *, reserved):
    try:
        evicted = limit.prove(one, owner, reserved=reserved)
    except Full:
        others = {c: name for c, name in model.proved.items() if c != one}
        of_owner = list(model.proved.values()).count(owner)
        assert of_owner >= bounds["of_owner"] or len(others) >= bounds["proved"]
        if reserved:
            kept = list(model.reserved.values())
            assert len(kept) >= bounds["reserve"] or kept.count(owner) >= bounds["reserve_of_owner"]
        model.busy.discard(one)
        return
    already = {**model.proved, **model.reserved}.get(one) == owner
    model.busy.add(one)
    if evicted is not None:
        assert evicted != one
        model.gave_way(evicted, model.proved)
    if not already:
        model.forget(one)
        model.busy.add(one)
        (model.reserved if limit.is_reserved(one) else model.proved)[one] = owner
        assert reserved or not limit.is_reserved(one)


def check(limit, model, bounds):
    assert sorted(limit) == sorted(model.all)
    assert len(limit) <= bounds["unproved"] + bounds["proved"] + bounds["reserve"]
    for kind, most, of_one in (
        (model.unproved, "unproved", "of_peer"),
        (model.proved, "proved", "of_owner"),
        (model.reserved, "reserve", "reserve_of_owner"),
    ):
        assert len(kind) <= bounds[most]
        assert all(list(kind.values()).count(name) <= bounds[of_one] for name in "abc")


def room(**bounds: int) -> ConnectionLimit[str]:
    plenty = {"of_peer": 9, "of_owner": 9, "unproved": 9, "proved": 9}
    return ConnectionLimit(**{**plenty, **bounds})


def test_a_peer_at_its_limit_takes_room_from_itself_alone():
    limit = room(of_peer=2)
    limit.enter("other", "b")
    assert [limit.enter(name, "a") for name in ("1", "2", "3")] == [None, None, "1"]


def test_when_all_is_full_the_peer_with_most_gives_way():
    limit = room(unproved=3)
    for name, peer in (("1", "b"), ("2", "a"), ("3", "a")):
        limit.enter(name, peer)
    assert limit.enter("4", "c") == "2"


def test_who_is_being_looked_up_gives_way_to_nobody():
    limit = room(of_peer=2)
    for name in ("1", "2"):
        limit.enter(name, "a")
    limit.hold("1")
    assert limit.enter("3", "a") == "2"
    limit.hold("3")
    with pytest.raises(Full):
        limit.enter("4", "a")
    limit.rest("3")
    assert limit.enter("4", "a") == "3"


def test_what_is_proved_and_busy_gives_way_to_nobody():
    limit = room(of_peer=2, of_owner=2, unproved=2, proved=2, in_all=2)
    for name in ("1", "2"):
        limit.enter(name, "a")
        limit.prove(name, "lease")
    with pytest.raises(Full):
        limit.enter("3", "b")


def test_an_owner_at_the_limit_gives_way_to_itself():
    limit = room(of_owner=2)
    for name in ("1", "2", "3"):
        limit.enter(name, "a")
    assert [limit.prove(name, "ada") for name in ("1", "2")] == [None, None]
    limit.rest("1")
    assert limit.prove("3", "ada") == "1"


def test_what_is_kept_back_is_for_what_must_get_in_alone():
    limit = room(of_owner=1, reserve=1)
    for name in ("1", "2", "3"):
        limit.enter(name, "a")
    limit.prove("1", "ada")
    with pytest.raises(Full):
        limit.prove("2", "ada")
    limit.prove("2", "ada", reserved=True)
    assert limit.is_reserved("2")
    with pytest.raises(Full):
        limit.prove("3", "ada", reserved=True)
    assert not limit.is_proved("3")


@given(st.integers(0, 2_000_000))
def test_shares_of_descriptors_never_sum_to_more_than_there_are(descriptors):
    parts = shares(descriptors)
    assert min(parts.unproved, parts.of_peer, parts.proved, parts.reserve) >= 1
    assert parts.of_peer <= parts.unproved
    assert parts.unproved + parts.proved + parts.reserve <= max(16, descriptors)
