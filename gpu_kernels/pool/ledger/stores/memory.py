"""A store in the memory of this process: as a database, but that nothing is kept when the process ends.

For tests, the simulation and replays. A controller's restart is a new ledger over the same store.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gpu_kernels.pool.ledger.state.rows import TABLES, Change, Event, Key, Lease, Row, Slice, key_of
from gpu_kernels.pool.ledger.state.states import FINAL
from gpu_kernels.pool.ledger.stores import MOST_ROWS, Deposed, EndedLease, Leading, Loaded, Page
from gpu_kernels.pool.ledger.stores.cursors import read_cursor, write_cursor


class Disk:
    """What is committed; several stores may be over one, as controllers over a database."""

    def __init__(self) -> None:
        self.rows: dict[type[Row], dict[Key, Row]] = {kind: {} for kind in TABLES}
        self.term = 0


class MemoryStore:
    """See ``Store``. ``now`` tells the time in milliseconds; ``incarnation`` makes a new one."""

    def __init__(
        self,
        now: Callable[[], int],
        incarnation: Callable[[], str] = lambda: secrets.token_hex(8),
        disk: Disk | None = None,
    ) -> None:
        self._now = now
        self._incarnation = incarnation
        self.disk = disk or Disk()
        self._leading: Leading | None = None
        self._written: list[Change] = []

    def open(self) -> None:
        pass

    def lead(self, holder: str, address: str, *, alone: bool = False) -> Leading:
        """Whoever asks has the next term; the one before it is over."""
        self.disk.term += 1
        self._leading = Leading(self.disk.term, self._incarnation())
        return self._leading

    def begin(self, *, writes: bool = True) -> int:
        if self._leading is None or self._leading.term != self.disk.term:
            raise Deposed("Another controller has taken over.")
        self._written = []
        return self._now()

    def load(self, ended_since: int) -> Loaded:
        leases = {
            row.id: row
            for row in self._all(Lease)
            if row.state not in FINAL or (row.ended_at or 0) >= ended_since
        }
        slices = [row for row in self._all(Slice) if row.lease_id in leases]
        rest = [row for kind in TABLES if kind not in (Lease, Slice, Event) for row in self._all(kind)]
        last = max((row.id for row in self._all(Event)), default=0)
        return Loaded([*rest, *leases.values(), *slices], last)

    def _all(self, kind: type[Any]) -> Iterable[Any]:
        return self.disk.rows[kind].values()

    def write(self, changes: Sequence[Change]) -> None:
        self._written += changes

    def commit(self) -> None:
        for before, after in self._written:
            row = after or before
            assert row is not None
            table, key = self.disk.rows[type(row)], key_of(row)
            if table.get(key) != before:
                raise AssertionError(f"the book took {before} for what is stored: {table.get(key)}")
            if after is None:
                del table[key]
            else:
                table[key] = after
        self._written = []

    def rollback(self) -> None:
        self._written = []

    def renew_term(self) -> None:
        pass

    def close(self) -> None:
        self._leading = None

    def prune(self, before: int, most_events: int, batch: int) -> bool:
        leases = [
            row
            for row in self._all(Lease)
            if row.state in FINAL and row.ended_at is not None and row.ended_at < before
        ][:batch]
        last = max((row.id for row in self._all(Event)), default=0)
        old = [
            row
            for row in self._all(Event)
            if row.id < last and (row.at < before or row.id <= last - most_events)
        ][:batch]
        self._written += [Change(row, None) for row in (*leases, *old)]
        return batch in (len(leases), len(old))

    def find_lease(self, lease_id: str) -> EndedLease | None:
        lease = self.disk.rows[Lease].get((lease_id,))
        return None if lease is None else self._with_slices(lease)

    def _with_slices(self, lease: Any) -> EndedLease:
        slices = [row for row in self._all(Slice) if row.lease_id == lease.id]
        return EndedLease(lease, tuple(sorted(slices, key=lambda row: row.gpu_id)))

    def ended_leases(
        self,
        *,
        user: str | None = None,
        course: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page:
        found = [
            row
            for row in self._all(Lease)
            if row.state in FINAL and user in (None, row.user) and course in (None, row.course)
        ]
        page = _page(found, lambda row: (row.created_at, row.id), (int, str), cursor, limit)
        return Page(tuple(self._with_slices(row) for row in page.rows), page.cursor)

    def usage(
        self,
        *,
        since: int,
        until: int,
        user: str | None = None,
        course: str | None = None,
        cursor: str | None = None,
        limit: int = 1000,
    ) -> Page:
        found = [
            row
            for row in self._all(Slice)
            if row.started_at < until
            and (row.ended_at is None or row.ended_at > since)
            and user in (None, row.user)
            and course in (None, row.course)
        ]
        return _page(
            found, lambda row: (row.started_at, row.lease_id, row.gpu_id), (int, str, int), cursor, limit
        )

    def events(
        self,
        *,
        subject: str | None = None,
        kind: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page:
        found = [
            row for row in self._all(Event) if subject in (None, row.subject) and kind in (None, row.kind)
        ]
        return _page(found, lambda row: (row.id,), (int,), cursor, limit)

    def events_after(self, last: int, limit: int = 1000) -> Sequence[Event]:
        return sorted((row for row in self._all(Event) if row.id > last), key=lambda row: row.id)[:limit]

    def held(self) -> Mapping[int, tuple[int, int]]:
        sums: dict[int, tuple[int, int]] = {}
        for row in self._all(Slice):
            if row.ended_at is None:
                mib, thousandths = sums.get(row.gpu_id, (0, 0))
                sums[row.gpu_id] = mib + row.mib, thousandths + row.thousandths
        return sums


def _page(
    rows: Iterable[Any],
    rank: Callable[[Any], tuple[Any, ...]],
    kinds: tuple[type, ...],
    cursor: str | None,
    limit: int,
) -> Page:
    """Newest first; the cursor is the rank of the last row that was told."""
    limit = max(1, min(limit, MOST_ROWS))
    before = None if cursor is None else read_cursor(cursor, kinds)
    ranked = sorted((row for row in rows if before is None or rank(row) < before), key=rank, reverse=True)
    more = len(ranked) > limit
    return Page(tuple(ranked[:limit]), write_cursor(rank(ranked[limit - 1])) if more else None)
