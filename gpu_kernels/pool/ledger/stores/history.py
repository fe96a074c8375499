"""The readers of a SQL store: what is committed, page by page, from any thread.

Each reader takes a connection of a small stock and gives it back. Pages go from newest to oldest by a key
that never changes, and a cursor is the key of the last row told: nothing is told twice or left out, whatever
is added meanwhile.
"""

from __future__ import annotations

import queue
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_kernels.pool.ledger.state.rows import Event, Lease, Row, Slice
from gpu_kernels.pool.ledger.stores import MOST_ROWS, EndedLease, Page
from gpu_kernels.pool.ledger.stores.cursors import read_cursor, write_cursor
from gpu_kernels.pool.ledger.stores.database import Connection, Database
from gpu_kernels.pool.ledger.stores.statements import Codecs, quoted

MOST_IDLE = 4


class History:
    """The part of ``SqlStore`` that any thread may use."""

    def __init__(self, database: Database, codecs: Codecs) -> None:
        self._reading = database
        self._rows = codecs
        self._idle: queue.LifoQueue[Connection] = queue.LifoQueue(MOST_IDLE)
        self._gone = False

    def _read(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """All that a query gives. A connection that was lost while it lay idle is replaced."""
        while True:
            connection, fresh = self._take()
            try:
                found: list[Any] = connection.execute(query, values).fetchall()
            except self._reading.errors as error:
                lost = not self._reading.usable(connection)
                connection.close()
                if lost and not fresh:
                    continue
                raise self._reading.refusal(error) or error from error
            except BaseException:
                connection.close()
                raise
            self._give_back(connection)
            return found

    def _take(self) -> tuple[Connection, bool]:
        try:
            return self._idle.get_nowait(), False
        except queue.Empty:
            return self._reading.connect(), True

    def _give_back(self, connection: Connection) -> None:
        try:
            if self._gone:
                raise queue.Full
            self._idle.put_nowait(connection)
        except queue.Full:
            connection.close()

    def close_readers(self) -> None:
        self._gone = True
        while True:
            try:
                self._idle.get_nowait().close()
            except queue.Empty:
                return

    def every(self, kind: type[Row], where: str = "", values: Sequence[Any] = ()) -> list[Any]:
        """The rows of one table."""
        codec = self._rows[kind]
        return list(codec.rows(self._read(f"SELECT {codec.columns} FROM {kind.TABLE} {where}", values)))

    def find_lease(self, lease_id: str) -> EndedLease | None:
        leases = self.every(Lease, f"WHERE id = {self._reading.marker}", (lease_id,))
        return self._with_slices(leases)[0] if leases else None

    def _with_slices(self, leases: Sequence[Lease]) -> list[EndedLease]:
        if not leases:
            return []
        markers = ", ".join([self._reading.marker] * len(leases))
        slices: dict[str, list[Slice]] = {lease.id: [] for lease in leases}
        for part in self.every(
            Slice, f"WHERE lease_id IN ({markers}) ORDER BY lease_id, gpu_id", [lease.id for lease in leases]
        ):
            slices[part.lease_id].append(part)
        return [EndedLease(lease, tuple(slices[lease.id])) for lease in leases]

    def ended_leases(
        self,
        *,
        user: str | None = None,
        course: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page:
        where = _Where(self._reading.marker).equal(user=user, course=course).add("ended_at IS NOT NULL")
        page = self._page(Lease, where, ("created_at", "id"), (int, str), cursor, limit)
        return Page(tuple(self._with_slices(page.rows)), page.cursor)

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
        m = self._reading.marker
        where = _Where(m).equal(user=user, course=course)
        where.add(f"started_at < {m}", until).add(f"(ended_at IS NULL OR ended_at > {m})", since)
        return self._page(Slice, where, ("started_at", "lease_id", "gpu_id"), (int, str, int), cursor, limit)

    def events(
        self,
        *,
        subject: str | None = None,
        kind: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page:
        where = _Where(self._reading.marker).equal(subject=subject, kind=kind)
        return self._page(Event, where, ("id",), (int,), cursor, limit)

    def events_after(self, last: int, limit: int = 1000) -> Sequence[Event]:
        m = self._reading.marker
        return self.every(Event, f"WHERE id > {m} ORDER BY id LIMIT {m}", (last, min(limit, MOST_ROWS)))

    def held(self) -> Mapping[int, tuple[int, int]]:
        sums = self._read(
            "SELECT gpu_id, CAST(SUM(mib) AS BIGINT), CAST(SUM(thousandths) AS BIGINT) FROM slices "
            "WHERE ended_at IS NULL GROUP BY gpu_id"
        )
        return {gpu_id: (mib, thousandths) for gpu_id, mib, thousandths in sums}

    def _page(
        self,
        kind: type[Row],
        where: _Where,
        key: tuple[str, ...],
        kinds: tuple[type, ...],
        cursor: str | None,
        limit: int,
    ) -> Page:
        """The next ``limit`` rows, and one more to know whether there are others."""
        limit = max(1, min(limit, MOST_ROWS))
        columns = ", ".join(key)
        if cursor is not None:
            markers = ", ".join([self._reading.marker] * len(key))
            where.add(f"({columns}) < ({markers})", *read_cursor(cursor, kinds))
        order = ", ".join(f"{name} DESC" for name in key)
        text = f"{where} ORDER BY {order} LIMIT {self._reading.marker}"
        rows = self.every(kind, text, (*where.values, limit + 1))
        more = rows[limit:]
        rows = rows[:limit]
        last = write_cursor(tuple(getattr(rows[-1], name) for name in key)) if more else None
        return Page(tuple(rows), last)


class _Where:
    """A condition that grows; only what is asked for stands in it, so that an index can serve it."""

    def __init__(self, marker: str) -> None:
        self._marker = marker
        self._parts: list[str] = []
        self.values: list[Any] = []

    def add(self, part: str, *values: Any) -> _Where:
        self._parts.append(part)
        self.values.extend(values)
        return self

    def equal(self, **wanted: str | None) -> _Where:
        for name, value in wanted.items():
            if value is not None:
                self.add(f"{quoted(name)} = {self._marker}", value)
        return self

    def __str__(self) -> str:
        return f"WHERE {' AND '.join(self._parts)}" if self._parts else ""
