"""Turns: so many in each turn of the loop, one of each party after another, and none is lost."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gpu_kernels.limits.turns import Turns

EACH = 3
PARTIES = "abcd"
Step = tuple[str, int]
STEPS = st.lists(st.tuples(st.sampled_from(["ask", "give up", "turn"]), st.integers(0, 100)), max_size=60)


async def play(steps: list[Step]) -> None:
    """Any order of asking, giving up and turns of the loop, against what is promised."""
    turns = Turns(EACH)
    waiting: list[tuple[str, asyncio.Future[bool]]] = []
    for what, number in steps:
        if what == "turn":
            before = [(party, turn) for party, turn in waiting if not turn.done()]
            await asyncio.sleep(0)
            served = Counter(party for party, turn in before if turn.done())
            left = Counter(party for party, turn in before if not turn.done())
            assert served.total() == min(EACH, len(before)), "all that may begin do, and no more"
            assert all(served[one] + 1 >= served[other] for one in left for other in served), "each in turn"
            for party in PARTIES:
                line = [turn.done() for owner, turn in before if owner == party]
                assert line == sorted(line, reverse=True), "within a party whoever came first"
        elif what == "ask":
            party = PARTIES[number % len(PARTIES)]
            turn = turns.ask(party)
            assert not turn.done() or not len(turns), "nobody begins before those who wait"
            waiting.append((party, turn))
        elif waiting:
            party, turn = waiting[number % len(waiting)]
            was_done = turn.done()
            turns.give_up(party, turn)
            assert was_done or turn.result() is False
        assert len(turns) == sum(not turn.done() for _, turn in waiting)
    for _ in range(len(waiting) + 1):
        await asyncio.sleep(0)
    assert len(turns) == 0
    assert all(turn.done() for _, turn in waiting)


@given(STEPS)
def test_any_history_keeps_what_is_promised(steps: list[Step]) -> None:
    asyncio.run(play(steps))


async def test_nobody_waits_while_there_is_room() -> None:
    turns = Turns(EACH)
    assert [turns.ask("one").done() for _ in range(EACH + 1)] == [True] * EACH + [False]


async def test_a_newcomer_waits_for_one_of_each_other_party() -> None:
    turns = Turns(1)
    crowd = [turns.ask("crowd") for _ in range(100)]
    newcomer = turns.ask("newcomer")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert newcomer.done()
    assert sum(turn.done() for turn in crowd) == 2


async def test_a_wait_that_was_cancelled_may_be_given_up() -> None:
    turns = Turns(1)
    turns.ask("one")
    waiting = turns.ask("one")
    waiting.cancel()
    turns.give_up("one", waiting)
    assert len(turns) == 0
