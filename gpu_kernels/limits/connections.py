"""Who may have how many connections at once, and who gives way.

A connection belongs to its peer until it has proved whose it is, and to that owner from then on. Where there
are too many, the oldest *idle* one gives way. Whoever speaks is proved in a moment, so what stays unproved
and idle is of no use to anybody: it is taken from the peer that is at its limit, else from the one that has
most. That is why a limit by peer locks nobody out who shares an address with an attacker (a proxy's, a
Jupyter host's): the newcomer is let in, and an idle one of that address goes.

Proved connections are never pushed out by unproved ones, nor the other way round: each kind has room of its
own. Among proved ones, an owner at the limit gives way to itself. A part is reserved for calls that must get
in however full the rest is.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Full(Exception):
    """No room, and nobody to give way."""


class _Table(Generic[T]):
    """Connections by the party that they belong to, in the order in which they came."""

    def __init__(self, most: int, of_one: int) -> None:
        self.most, self.of_one = most, of_one
        self.size = 0
        self._parties: dict[str, dict[T, None]] = {}

    def of(self, party: str) -> int:
        return len(self._parties.get(party, ()))

    def add(self, connection: T, party: str) -> None:
        self._parties.setdefault(party, {})[connection] = None
        self.size += 1

    def remove(self, connection: T, party: str) -> None:
        held = self._parties[party]
        del held[connection]
        self.size -= 1
        if not held:
            del self._parties[party]

    def oldest_idle(self, busy: set[T], party: str) -> T | None:
        return next((held for held in self._parties.get(party, ()) if held not in busy), None)

    def oldest_idle_of_the_greediest(self, busy: set[T]) -> T | None:
        """Of the party with most; of the next one where all of that party's are busy."""
        if not self._parties:
            return None
        greediest = max(self._parties, key=self.of)
        found = self.oldest_idle(busy, greediest)
        if found is None:
            others = sorted(self._parties, key=self.of, reverse=True)
            found = next((c for name in others if (c := self.oldest_idle(busy, name)) is not None), None)
        return found


class ConnectionLimit(Generic[T]):
    """Pure bookkeeping: whoever it names as giving way must be closed by the caller.

    A connection is *busy* while it must not give way: while its token is looked up (``hold``), and from its
    proof on until ``rest``. Belongs to one thread.
    """

    def __init__(
        self,
        *,
        of_peer: int,
        of_owner: int,
        unproved: int,
        proved: int,
        in_all: int | None = None,
        reserve: int = 0,
        reserve_of_owner: int = 8,
    ) -> None:
        """``of_peer``: the most unproved ones of one peer, ``unproved``: of all peers; ``of_owner`` and
        ``proved`` likewise for proved ones. ``in_all``: the most of both together, where that is less.
        ``reserve``: further ones for what must get in, ``reserve_of_owner`` of one owner.
        """
        self._unproved: _Table[T] = _Table(unproved, of_peer)
        self._proved: _Table[T] = _Table(proved, of_owner)
        self._reserved: _Table[T] = _Table(reserve, reserve_of_owner)
        self._in_all = unproved + proved if in_all is None else in_all
        self._where: dict[T, tuple[_Table[T], str]] = {}
        self._busy: set[T] = set()

    def __len__(self) -> int:
        return len(self._where)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._where))

    @property
    def unproved(self) -> int:
        """How many are unproved."""
        return self._unproved.size

    def enter(self, connection: T, peer: str) -> T | None:
        """Let one in; the one that has to give way for it, if any. Raises ``Full``."""
        table, gives_way = self._unproved, None
        if table.of(peer) >= table.of_one:
            gives_way = self._must(table.oldest_idle(self._busy, peer))
        elif table.size >= table.most or self._used >= self._in_all:
            gives_way = self._must(table.oldest_idle_of_the_greediest(self._busy))
        if gives_way is not None:
            self.leave(gives_way)
        self._put(connection, table, peer)
        return gives_way

    def hold(self, connection: T) -> None:
        """It has spoken, and who it is will be known in a moment: it does not give way meanwhile."""
        if connection in self._where:
            self._busy.add(connection)

    def prove(self, connection: T, owner: str, *, reserved: bool = False) -> T | None:
        """It is the owner's from now on, and busy; another that gives way for it, if any.

        Raises ``Full`` where the owner, or all owners together, have as many as they may and none is idle.
        ``reserved``: it may then take of what is kept back. What has left already stays so.
        """
        if connection not in self._where:
            return None
        table, party = self._where[connection]
        self._busy.add(connection)
        if table is not self._unproved and party == owner:
            return None
        try:
            gives_way = self._room_of(owner, besides=int(table is self._proved))
            to = self._proved
        except Full:
            kept = self._reserved
            if not reserved or kept.size >= kept.most or kept.of(owner) >= kept.of_one:
                self._busy.discard(connection)
                raise
            gives_way, to = None, kept
        if gives_way is not None:
            self.leave(gives_way)
        table.remove(connection, party)
        to.add(connection, owner)
        self._where[connection] = (to, owner)
        return gives_way

    def rest(self, connection: T) -> None:
        """It waits for its peer's next words, or for its peer to take an answer: it may give way."""
        self._busy.discard(connection)

    def leave(self, connection: T) -> None:
        """It is closed or handed over. Unknown ones are ignored."""
        self._busy.discard(connection)
        table, party = self._where.pop(connection, (None, ""))
        if table is not None:
            table.remove(connection, party)

    def is_proved(self, connection: T) -> bool:
        return connection in self._where and self._where[connection][0] is not self._unproved

    def is_reserved(self, connection: T) -> bool:
        """Whether it is one of those kept back, which must not stay longer than its answer takes."""
        return connection in self._where and self._where[connection][0] is self._reserved

    def shed(self, most: int) -> list[T]:
        """At most so many idle unproved ones that give way, because the process has run short."""
        shed: list[T] = []
        while len(shed) < most:
            idle = self._unproved.oldest_idle_of_the_greediest(self._busy)
            if idle is None:
                break
            self.leave(idle)
            shed.append(idle)
        return shed

    @property
    def _used(self) -> int:
        return self._unproved.size + self._proved.size

    def _room_of(self, owner: str, besides: int) -> T | None:
        """Who gives way for one more of the owner's. Raises ``Full``."""
        table = self._proved
        if table.of(owner) >= table.of_one:
            return self._must(table.oldest_idle(self._busy, owner))
        if table.size - besides >= table.most:
            return self._must(table.oldest_idle_of_the_greediest(self._busy))
        return None

    def _must(self, found: T | None) -> T:
        if found is None:
            raise Full
        return found

    def _put(self, connection: T, table: _Table[T], party: str) -> None:
        table.add(connection, party)
        self._where[connection] = (table, party)
