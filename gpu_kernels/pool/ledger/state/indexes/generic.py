"""Ways to find rows of a book without looking through all of them.

Each index is told of every change of its table's rows, in either direction: undoing a change is one more
change. None may depend on the order in which rows came; where an order matters, it is the order of the rows'
own values.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)
NOTHING: Mapping[Any, Any] = MappingProxyType({})


class Follower(Protocol[R_contra]):
    """Something that keeps up with a table's rows."""

    def change(self, before: R_contra | None, after: R_contra | None) -> None:
        """A row was made, changed, or dropped; both are of one key."""


class Groups(Generic[R]):
    """Rows by what they have in common; rows whose group is None are in none."""

    def __init__(self, group: Callable[[R], Hashable | None], key: Callable[[R], Any]) -> None:
        self._group = group
        self._key = key
        self._rows: dict[Hashable, dict[Any, R]] = {}

    def change(self, before: R | None, after: R | None) -> None:
        old = None if before is None else self._group(before)
        new = None if after is None else self._group(after)
        if before is not None and old is not None and old != new:
            rows = self._rows[old]
            del rows[self._key(before)]
            if not rows:
                del self._rows[old]
        if after is not None and new is not None:
            rows = self._rows.get(new) or self._rows.setdefault(new, {})
            rows[self._key(after)] = after

    def of(self, group: Hashable) -> Mapping[Any, R]:
        """The group's rows by their key. It changes with the book: copy it before changing rows."""
        return self._rows.get(group, NOTHING)


class Unique(Generic[R]):
    """The one row of a name; rows whose name is None have none. Two of one name are a bug."""

    def __init__(self, name: Callable[[R], Hashable | None]) -> None:
        self._name = name
        self._rows: dict[Hashable, R] = {}

    def change(self, before: R | None, after: R | None) -> None:
        old = None if before is None else self._name(before)
        new = None if after is None else self._name(after)
        if old is not None and old != new:
            del self._rows[old]
        if new is not None and after is not None:
            if old != new and new in self._rows:
                raise AssertionError(f"two rows are called {new!r}")
            self._rows[new] = after

    def get(self, name: Hashable) -> R | None:
        return self._rows.get(name)


class Ordered(Generic[R]):
    """Rows in an order; rows whose rank is None are left out. Ranks are total: no two rows share one."""

    def __init__(self, rank: Callable[[R], Any | None]) -> None:
        self._rank = rank
        self._ranks: list[Any] = []
        self._rows: dict[Any, R] = {}

    def change(self, before: R | None, after: R | None) -> None:
        old = None if before is None else self._rank(before)
        new = None if after is None else self._rank(after)
        if old is not None and old != new:
            del self._ranks[bisect_left(self._ranks, old)]
            del self._rows[old]
        if new is not None and after is not None:
            if old != new:
                insort(self._ranks, new)
            self._rows[new] = after

    def __iter__(self) -> Iterator[R]:
        return (self._rows[rank] for rank in self._ranks)

    def __len__(self) -> int:
        return len(self._ranks)

    def last(self) -> R | None:
        return self._rows[self._ranks[-1]] if self._ranks else None


class Due(Generic[R]):
    """Rows by the time at which something is to be done about them.

    Putting a time off costs nothing: the heap holds a time that is not later than the row's own, and learns
    the later one when the earlier one has come.
    """

    def __init__(self, at: Callable[[R], int | None], key: Callable[[R], Any]) -> None:
        self._at = at
        self._key = key
        self._heap: list[tuple[int, Any]] = []
        self._known: dict[Any, int] = {}
        """The earliest time in the heap that stands for the row, by its key."""
        self._times: dict[Any, int] = {}

    def change(self, before: R | None, after: R | None) -> None:
        row = after if after is not None else before
        assert row is not None
        key = self._key(row)
        at = None if after is None else self._at(after)
        if at is None:
            self._times.pop(key, None)
            return
        self._times[key] = at
        known = self._known.get(key)
        if known is None or at < known:
            self._known[key] = at
            heapq.heappush(self._heap, (at, key))

    def by(self, now: int, most: int) -> list[Any]:
        """The keys of rows whose time has come, in the order of their times and keys; ``most`` at most."""
        due: list[tuple[int, Any]] = []
        while self._heap and self._heap[0][0] <= now and len(due) < most:
            at, key = heapq.heappop(self._heap)
            if self._known.get(key) != at or (due and due[-1] == (at, key)):
                continue  # an entry that a later one has taken the place of
            real = self._times.get(key)
            if real is None:
                del self._known[key]
            elif real > at:
                self._known[key] = real
                heapq.heappush(self._heap, (real, key))
            else:
                due.append((at, key))
        for entry in due:  # they stay until their rows have changed
            heapq.heappush(self._heap, entry)
        return [key for _, key in due]
