"""Whose request is worked on next, where one thread works for everybody: so many in each turn of the event
loop, one of each party after another.

A turn of the loop runs whatever is ready. Without a bound, a party with two hundred connections makes each
turn as long as two hundred requests take, and everybody else's request, which needs several turns, waits for
as many of them. Here a party waits for its own line, and for one request of each other party.
"""

from __future__ import annotations

import asyncio

EACH_TURN = 4
"""Requests that may begin in one turn of the loop: of some milliseconds together."""


class Turns:
    """Belongs to one event loop. Nobody is refused, and nothing waits while there is room."""

    def __init__(self, each_turn: int = EACH_TURN) -> None:
        self._each_turn = each_turn
        self._left = each_turn
        self._counting = False
        self._lines: dict[str, dict[asyncio.Future[bool], None]] = {}

    def __len__(self) -> int:
        """How many wait."""
        return sum(map(len, self._lines.values()))

    def ask(self, party: str) -> asyncio.Future[bool]:
        """Done, with True, when it is this one's turn: maybe at once; with False when it was given up."""
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._count()
        if self._left and not self._lines:
            self._left -= 1
            turn.set_result(True)
        else:
            self._lines.setdefault(party, {})[turn] = None
        return turn

    def give_up(self, party: str, turn: asyncio.Future[bool]) -> None:
        """Nobody waits for it any more. Ignored where it is done."""
        line = self._lines.get(party, {})
        if turn in line:
            del line[turn]
            if not line:
                del self._lines[party]
            if not turn.done():  # cancelled, as the loop's last waits are
                turn.set_result(False)

    def _count(self) -> None:
        if not self._counting:
            self._counting = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._counting, self._left = False, self._each_turn
        while self._left and self._lines:
            party, line = next(iter(self._lines.items()))
            turn = next(iter(line))
            del line[turn], self._lines[party]
            if line:
                self._lines[party] = line  # behind all others
            self._left -= 1
            if not turn.done():
                turn.set_result(True)
        if self._left < self._each_turn:
            self._count()
