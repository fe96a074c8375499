"""PostgreSQL 13 or later: one writer at a time by an advisory lock, as with SQLite.

A decision reads sums over many rows, which row locks do not hold; with one lock around it, READ COMMITTED is
enough and nothing is ever retried. The lock is taken by a statement of its own, so that what is read after
it sees all that was committed before it. Its statements travel together (pipeline mode): a transaction
costs three round trips, however much it writes.

A controller that is stopped, or cut off, in the middle of a transaction must not hold the lock for longer
than its term: the server ends a session that has begun and says nothing
(``idle_in_transaction_session_timeout``), and whoever may take the next term ends what else is left of an
older one (``evict``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from psycopg import pq
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper
from sqlalchemy import URL
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from gpu_kernels.errors import GPUKernelsError, LedgerUnavailable
from gpu_kernels.pool.ledger.stores.database import RowMissing, unavailable
from gpu_kernels.pool.ledger.stores.statements import Batch

WRITERS_LOCK = 7203468151
OLDEST = 130000
LONGEST_WAIT_MS = 15_000
"""For another process's transaction."""
BULK = 20
"""From so many rows on, arrays are faster than a statement for each."""
LOST_AFTER = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "target_session_attrs": "read-write",
}
"""libpq's options by which a server that is gone, or is a replica, is noticed; the URL may say otherwise."""


NOT_NOW = ("08", "25006", "25P03", "25P04", "28", "3D", "40", "53", "55P03", "57", "58", "XX001", "XX002")
"""SQLSTATEs of a server that cannot do it now, whatever it is: lost, shutting down, full, a replica, damaged;
or that has ended a session which stood still, or lasted, for too long. All others are about what it was asked
for.
"""
EVICT = """
SELECT CASE WHEN sessions.xact_start < clock_timestamp() - %s * interval '1 millisecond'
  THEN pg_terminate_backend(locks.pid) ELSE false END
FROM pg_locks AS locks
JOIN pg_stat_activity AS sessions ON sessions.pid = locks.pid
JOIN pg_database AS here ON here.oid = locks.database AND here.datname = current_database()
WHERE locks.locktype = 'advisory' AND locks.granted AND locks.pid <> pg_backend_pid()
  AND locks.classid::bigint = %s::bigint >> 32 AND locks.objid::bigint = %s::bigint & 4294967295
"""
"""Of each other session that holds the writers' lock: whether it has for too long, and so is ended."""


class TooOld(GPUKernelsError):
    """The PostgreSQL server is older than what this software is tested with."""

    code = "database_too_old"


class PostgreSQL:
    """See ``database.Database``. ``idle_ms``: how long a session may stand still within a transaction."""

    marker = "%s"
    now = "CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT)"
    has_table = "SELECT to_regclass(%s) IS NOT NULL"
    errors: tuple[type[Exception], ...] = (psycopg.Error,)

    def __init__(self, url: URL, idle_ms: int) -> None:
        self.url = url.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
        _, given = PGDialect_psycopg().create_connect_args(url)  # type: ignore[no-untyped-call]
        self._arguments = {**LOST_AFTER, **given}
        self._settings = (
            ("lock_timeout", f"{LONGEST_WAIT_MS}ms"),
            ("idle_in_transaction_session_timeout", f"{idle_ms}ms"),
            ("synchronous_commit", "on"),
            ("default_transaction_isolation", "read committed"),
            ("application_name", "gpu-pool"),
        )
        self._shown = f"{url.host or given.get('host', 'local')}/{url.database}"

    def connect(self) -> psycopg.Connection[Any]:
        try:
            connection = psycopg.connect(**self._arguments, autocommit=True, prepare_threshold=2)
        except psycopg.Error as error:
            raise self.refusal(error) or error from error
        version = connection.info.server_version
        if version < OLDEST:
            connection.close()
            raise TooOld(
                f"The ledger's PostgreSQL server is version {version // 10000}; 13 or later is needed. "
                "Upgrade it, or give this controller another database."
            )
        connection.prepared_max = 1000
        # All integers as bigint, so that one statement is one prepared statement whatever the numbers.
        connection.adapters.register_dumper(int, Int8Dumper)
        connection.adapters.register_dumper(int, Int8BinaryDumper)
        try:
            query = ", ".join("set_config(%s, %s, false)" for _ in self._settings)
            flat = [text for setting in self._settings for text in setting]
            connection.execute(f"SELECT {query}", flat)
        except psycopg.Error as error:
            connection.close()
            raise self.refusal(error) or error from error
        return connection

    def usable(self, connection: psycopg.Connection[Any]) -> bool:
        return not connection.closed and not connection.broken

    def begin(self, connection: psycopg.Connection[Any], writes: bool, query: str) -> Sequence[Any] | None:
        """All in one message. (Not in pipeline mode: at a pipeline's end the driver sends a flush, by which
        the server forgets how long the session may stand still.)
        """
        lock = f"SELECT pg_advisory_xact_lock({WRITERS_LOCK});" if writes else ""
        cursor = connection.execute(f"BEGIN{'' if writes else ' READ ONLY'}; {lock} {query}")
        while cursor.nextset():
            pass
        return cursor.fetchone()

    def evict(self, connection: psycopg.Connection[Any], older_than: int) -> tuple[int, int]:
        holders = connection.execute(EVICT, (older_than, WRITERS_LOCK, WRITERS_LOCK)).fetchall()
        ended = sum(was_ended for (was_ended,) in holders)
        return ended, len(holders) - ended

    def write(self, connection: psycopg.Connection[Any], batches: Iterable[Batch]) -> None:
        done = []
        with connection.pipeline():
            for statement, values, bulk in batches:
                cursor = connection.cursor()
                if bulk and len(values) >= BULK:
                    cursor.execute(bulk, [list(column) for column in zip(*values, strict=True)])
                else:
                    cursor.executemany(statement, values)
                done.append((statement, len(values), cursor))
        for statement, count, cursor in done:
            if cursor.rowcount != count:
                raise RowMissing(f"{statement}: {cursor.rowcount} of {count} rows")

    def commit(self, connection: psycopg.Connection[Any]) -> None:
        if connection.info.transaction_status != pq.TransactionStatus.INTRANS:
            raise AssertionError("a commit without a transaction, or after an error of it")
        connection.execute("COMMIT")

    def rollback(self, connection: psycopg.Connection[Any]) -> None:
        if connection.info.transaction_status != pq.TransactionStatus.IDLE:
            connection.execute("ROLLBACK")

    def in_doubt(self, error: Exception) -> bool:
        """A commit whose answer was lost may have been carried out; an answer that is an error says no."""
        return isinstance(error, psycopg.OperationalError) and (
            error.sqlstate is None or error.sqlstate.startswith("57P")
        )

    def refusal(self, error: Exception) -> LedgerUnavailable | None:
        state = getattr(error, "sqlstate", None)
        if not isinstance(error, psycopg.Error) or not (
            state.startswith(NOT_NOW) if state else isinstance(error, psycopg.OperationalError)
        ):
            return None
        return unavailable(
            _why(error), f"PostgreSQL at {self._shown}: {error.sqlstate or ''} {error}".strip()
        )


def _why(error: psycopg.Error) -> str:
    state = error.sqlstate or ""
    if state in ("53100", "58030"):
        return "its disk is full or failing"
    if state in ("55P03", "40P01"):
        return "another program holds it"
    if state == "25006":
        return "its database server is read-only now"
    return "its database server does not answer"
