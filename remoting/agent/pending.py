"""Who may have how many connections on their way to a worker.

A connection belongs to its peer until it has proved a lease, and to that lease from then on. When there are
too many, the oldest unproved one gives way: whoever speaks is proved in a moment, so what is old is idle. It
is taken from the peer that is at its limit, else from the one that has most; proved ones never give way.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Full(Exception):
    """No room, and nobody to give way."""


class Pending(Generic[T]):
    """Connections in the order in which they came. Pure bookkeeping."""

    def __init__(self, of_one: int, in_all: int) -> None:
        """``of_one``: the most of one peer, or of one lease; ``in_all``: of all together."""
        self._of_one = of_one
        self._in_all = in_all
        self._unproved: dict[str, dict[T, None]] = {}
        self._proved: dict[str, dict[T, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, (*self._unproved.values(), *self._proved.values())))

    def enter(self, connection: T, peer: str) -> T | None:
        """Let one in; the one that has to give way for it, if any. Raises ``Full``."""
        evicted = None
        if len(self._unproved.get(peer, ())) >= self._of_one:
            evicted = self._oldest_of(peer)
        elif len(self) >= self._in_all:
            if not self._unproved:
                raise Full
            evicted = self._oldest_of(max(self._unproved, key=lambda name: len(self._unproved[name])))
        if evicted is not None:
            self.leave(evicted)
        self._unproved.setdefault(peer, {})[connection] = None
        return evicted

    def prove(self, connection: T, lease_id: str) -> None:
        """It is the lease's from now on. Raises ``Full`` if that has as many as one may have."""
        if len(self._proved.get(lease_id, ())) >= self._of_one:
            raise Full
        self.leave(connection)
        self._proved.setdefault(lease_id, {})[connection] = None

    def leave(self, connection: T) -> None:
        """It is closed or handed over. Unknown ones are ignored."""
        for parties in (self._unproved, self._proved):
            for name, held in list(parties.items()):
                if connection in held:
                    del held[connection]
                    if not held:
                        del parties[name]
                    return

    def _oldest_of(self, peer: str) -> T:
        return next(iter(self._unproved[peer]))
