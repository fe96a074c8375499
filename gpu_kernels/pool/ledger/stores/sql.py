"""The ledger in a SQL database: one code for SQLite and PostgreSQL, see ``Store`` for what each call means.

``SqlStore`` is what the desk's one thread uses; ``history.History``, from which it has its readers, has
connections of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import make_url

from gpu_kernels.errors import GPUKernelsError, LedgerUnavailable, OutcomeUnknown
from gpu_kernels.extras import how_to_install
from gpu_kernels.pool.ledger.state.rows import TABLES, Change, Event, Key, Lease, Row, Slice, key_of
from gpu_kernels.pool.ledger.stores import Leading, Loaded
from gpu_kernels.pool.ledger.stores.database import Connection, Database
from gpu_kernels.pool.ledger.stores.history import History
from gpu_kernels.pool.ledger.stores.schema import upgrade
from gpu_kernels.pool.ledger.stores.sqlite import SQLite
from gpu_kernels.pool.ledger.stores.statements import Codecs, quoted
from gpu_kernels.pool.ledger.stores.term import Leader, Terms, deposed

log = logging.getLogger("gpu_kernels.pool")

TERM_TTL_MS = 10_000


class UnknownDatabase(GPUKernelsError):
    """The URL names no database that a ledger can be kept in."""

    code = "unknown_database"


def open_database(url: str, term_ttl: int = TERM_TTL_MS) -> Database:
    """The database that a SQLAlchemy URL names. Nothing is connected yet."""
    parsed = make_url(url)
    kind = parsed.get_backend_name()
    if kind == "sqlite" and parsed.database and parsed.database != ":memory:":
        return SQLite(parsed.database)
    if kind == "postgresql":
        try:
            from gpu_kernels.pool.ledger.stores.postgresql import PostgreSQL
        except ImportError:
            raise UnknownDatabase(
                "The ledger's database is a PostgreSQL, and its driver is not installed. "
                f"{how_to_install('controller,postgresql')}"
            ) from None
        return PostgreSQL(parsed, term_ttl)
    raise UnknownDatabase(
        f"A ledger cannot be kept in {parsed.render_as_string(hide_password=True)!r}; "
        "give a URL like sqlite:////var/lib/gpu-pool/ledger.sqlite or postgresql://user@host/database."
    )


class SqlStore(History):
    """See ``Store``. ``term_ttl``: milliseconds without a renewal after which another may take the term.
    ``key_print``: tells the key of the leases' secrets from others; who has another one may not take over.
    """

    def __init__(self, url: str, *, term_ttl: int = TERM_TTL_MS, key_print: str = "") -> None:
        database = open_database(url, term_ttl)
        self._codecs = Codecs(database.marker)
        super().__init__(database, self._codecs)
        self._database = database
        self._terms = Terms(database, term_ttl, key_print)
        self._connection: Connection | None = None
        self._leading: Leading | None = None
        self._now = 0

    def open(self) -> None:
        upgrade(self._database, self._terms)
        with self._driver_errors():
            self._connected()

    def lead(self, holder: str, address: str, *, alone: bool = False) -> Leading:
        if not alone:
            self._wait_for_the_end()
            self._evict()
        if not upgrade(self._database, self._terms, alone=alone):
            raise deposed(None)
        try:
            leader = self._begin(writes=True)
            if not alone and not self._may_take(leader, self._now):
                raise deposed(leader)
            with self._driver_errors():
                own = self._terms.take(self._connected(), leader, self._now, holder, address)
            self.commit()
        except BaseException:
            self.rollback()
            raise
        self._leading = own
        log.info("term %d is taken (incarnation %s)", own.term, own.incarnation)
        return own

    def _wait_for_the_end(self) -> None:
        """A look without the writer's lock, so that a standby is in nobody's way."""
        leader, now = self.leader()
        self._terms.check_key(leader)
        if not self._may_take(leader, now):
            raise deposed(leader)

    def _evict(self) -> None:
        """End what has stood still in a transaction for a whole term. Raises ``Deposed``, for another try,
        where a younger one is under way: who waited for its lock could not end it when it is as old."""
        with self._driver_errors():
            ended, left = self._database.evict(self._connected(), self._terms.ttl)
        if ended:
            log.warning("%d session(s) stood still in a transaction of the ledger, and were ended", ended)
        if left:
            leader, _ = self.leader()
            raise deposed(leader)

    def _may_take(self, leader: Leader | None, now: int) -> bool:
        own = self._leading
        mine = own is not None and leader is not None and self._terms.is_of(leader, own)
        return mine or self._terms.over(leader, now)

    def leader(self) -> tuple[Leader | None, int]:
        """Who holds the term, and the store's time. From any thread, also before ``open``."""
        if not self.knows_terms():
            return None, 0
        now, leader = self._terms.parse(self._read(self._terms.query)[0])
        return leader, now

    def knows_terms(self) -> bool:
        """False for a ledger of the first schema, and for none. From any thread, also before ``open``."""
        return bool(self._read(self._database.has_table, ("leadership",))[0][0])

    def begin(self, *, writes: bool = True) -> int:
        leader = self._begin(writes=writes)
        try:
            self._terms.check(leader, self._leading)
        except BaseException:
            self.rollback()
            raise
        assert leader is not None
        if writes and self._terms.due(leader.renewed_at, self._now):
            self.renew_term()
        return self._now

    def _begin(self, writes: bool) -> Leader | None:
        """Begin, on a new connection where the one there was is lost."""
        for again in (True, False):
            connection = self._connected()
            try:
                first = self._database.begin(connection, writes, self._terms.query)
                break
            except self._database.errors as error:
                self.rollback()
                if self._connection is None and again:
                    continue
                raise self._database.refusal(error) or error from error
        self._now, leader = self._terms.parse(first)
        return leader

    def load(self, ended_since: int) -> Loaded:
        with self._driver_errors():
            newest = self._connected().execute("SELECT COALESCE(MAX(id), 0) FROM events").fetchone()
        return Loaded(self._load(ended_since), newest[0])

    def _load(self, ended_since: int) -> Iterator[Row]:
        m = self._database.marker
        for row in TABLES:
            codec = self._codecs[row]
            query, values = f"SELECT {codec.columns} FROM {row.TABLE}", ()
            if row is Event:
                continue
            if row is Lease:
                query += f" WHERE ended_at IS NULL OR ended_at >= {m}"
                values = (ended_since,)  # type: ignore[assignment]
            elif row is Slice:
                query += (
                    f" WHERE lease_id IN (SELECT id FROM leases WHERE ended_at IS NULL OR ended_at >= {m})"
                )
                values = (ended_since,)  # type: ignore[assignment]
            with self._driver_errors():
                yield from codec.rows(self._connected().execute(query, values))

    def chunks(self, kind: type[Row], size: int) -> Iterator[list[Any]]:
        """All rows of a table, within a transaction, so many at a time; for copying a ledger."""
        codec, m = self._codecs[kind], self._database.marker
        key = ", ".join(quoted(name) for name in kind.KEY)
        after = ""
        last: Key = ()
        while True:
            query = f"SELECT {codec.columns} FROM {kind.TABLE} {after} ORDER BY {key} LIMIT {m}"
            with self._driver_errors():
                rows = list(codec.rows(self._connected().execute(query, (*last, size)).fetchall()))
            if not rows:
                return
            yield rows
            after, last = f"WHERE ({key}) > ({', '.join([m] * len(kind.KEY))})", key_of(rows[-1])

    def write(self, changes: Sequence[Change]) -> None:
        with self._driver_errors():
            self._database.write(self._connected(), self._codecs.batches(changes))

    def renew_term(self) -> None:
        assert self._leading is not None
        with self._driver_errors():
            self._terms.renew(self._connected(), self._leading, self._now)

    def commit(self) -> None:
        try:
            self._database.commit(self._connected())
        except self._database.errors as error:
            doubt, refusal = self._database.in_doubt(error), self._database.refusal(error)
            self.rollback()
            if not doubt:
                raise refusal or error from error
            raise OutcomeUnknown(
                "The GPU pool's ledger failed in the middle of a write, and may have made it or not.\n"
                "Try again in a moment: repeating a request is safe.",
                log_message=refusal.log_message if refusal else f"ledger: {error}",
                retry_after=2.0,
            ) from error

    def rollback(self) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            self._database.rollback(connection)
        except self._database.errors as error:
            log.warning("the ledger's connection is given up: %s", error)
            self._disconnect()
        if not self._database.usable(connection):
            self._disconnect()

    def close(self) -> None:
        own, self._leading = self._leading, None
        self.rollback()
        try:
            if own is not None and self._connection is not None:
                self._begin(writes=True)
                with self._driver_errors():
                    self._terms.resign(self._connected(), own)
                self.commit()
        except LedgerUnavailable as error:
            log.warning("the term could not be given up, and ends by itself: %s", error.log_message)
        finally:
            self.rollback()
            self._disconnect()
            self.close_readers()

    def prune(self, before: int, most_events: int, batch: int) -> bool:
        m = self._database.marker

        def forget(table: str, where: str, order: str, *values: int) -> int:
            some = f"SELECT id FROM {table} WHERE {where} ORDER BY {order} LIMIT {m}"
            done = self._connected().execute(f"DELETE FROM {table} WHERE id IN ({some})", values).rowcount
            return int(done)

        with self._driver_errors():
            newest = self._connected().execute("SELECT COALESCE(MAX(id), 0) FROM events").fetchone()[0]
            leases = forget("leases", f"ended_at < {m}", "ended_at", before, batch)
            events = forget("events", f"at < {m} AND id < {m}", "at", before, newest, batch)
            events += forget("events", f"id <= {m}", "id", newest - most_events, batch - events)
        return batch in (leases, events)

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._database.connect()
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except self._database.errors as error:
                log.warning("closing the ledger's connection: %s", error)

    @contextmanager
    def _driver_errors(self) -> Iterator[None]:
        """A database that cannot be used becomes a refusal; a broken constraint stays the bug that it is."""
        try:
            yield
        except self._database.errors as error:
            if self._connection is not None and not self._database.usable(self._connection):
                self._disconnect()
            raise self._database.refusal(error) or error from error


def rows_of(store: SqlStore, kinds: Iterable[type[Row]]) -> list[Any]:
    """All committed rows of these tables, in no order; for tests and audits."""
    return [row for kind in kinds for row in store.every(kind)]
