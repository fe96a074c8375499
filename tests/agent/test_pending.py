"""Room for connections: bounded, and never withheld from who speaks by who is silent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remoting.agent.pending import Full, Pending

steps = st.lists(
    st.tuples(st.sampled_from(["enter", "prove", "leave"]), st.integers(0, 30), st.sampled_from("abc")),
    max_size=80,
)


@given(steps, st.integers(1, 4), st.integers(1, 6))
def test_the_bounds_hold_and_only_the_unproved_give_way(history, of_one, in_all):
    room: Pending[int] = Pending(of_one, in_all)
    unproved: dict[int, str] = {}
    proved: dict[int, str] = {}
    for number, (step, chosen, party) in enumerate(history):
        if step == "enter":
            try:
                evicted = room.enter(1000 + number, party)
            except Full:
                assert len(proved) >= in_all
                continue
            if evicted is not None:
                assert evicted in unproved, "a proved connection never gives way"
                oldest = min(c for c, peer in unproved.items() if peer == unproved[evicted])
                assert evicted == oldest
                del unproved[evicted]
            unproved[1000 + number] = party
        elif step == "prove" and unproved:
            connection = list(unproved)[chosen % len(unproved)]
            try:
                room.prove(connection, party)
            except Full:
                assert list(proved.values()).count(party) == of_one
                continue
            del unproved[connection]
            proved[connection] = party
        elif step == "leave" and (unproved or proved):
            connection = [*unproved, *proved][chosen % (len(unproved) + len(proved))]
            room.leave(connection)
            unproved.pop(connection, None)
            proved.pop(connection, None)
        assert len(room) == len(unproved) + len(proved) <= in_all
        for held in (unproved, proved):
            assert all(list(held.values()).count(name) <= of_one for name in "abc")


def test_a_peer_at_its_limit_takes_room_from_itself_alone():
    room: Pending[str] = Pending(2, 10)
    room.enter("other", "b")
    assert [room.enter(name, "a") for name in ("1", "2", "3")] == [None, None, "1"]


def test_when_all_is_full_the_peer_with_most_gives_way():
    room: Pending[str] = Pending(3, 3)
    for name, peer in (("1", "b"), ("2", "a"), ("3", "a")):
        room.enter(name, peer)
    assert room.enter("4", "c") == "2"


def test_what_is_proved_gives_way_to_nobody():
    room: Pending[str] = Pending(2, 2)
    for name in ("1", "2"):
        room.enter(name, "a")
        room.prove(name, "lease")
    with pytest.raises(Full):
        room.enter("3", "b")
