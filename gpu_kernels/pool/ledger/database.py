"""The engine: how the ledger's database is opened, and the only clock that ends a lease.

SQLite is opened so that a commit survives a power cut (WAL, synchronous FULL) and so that a writer takes
its lock before it reads (BEGIN IMMEDIATE): what a decision has read cannot change before it is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import BigInteger, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import QueuePool
from sqlalchemy.sql.expression import FunctionElement

from gpu_kernels.errors import GPUKernelsError, LedgerUnavailable

MIGRATIONS = Path(__file__).parent / "migrations"
WRITES = "gpu_kernels_writes"
"""The execution option of connections that will write."""


class NewerDatabase(GPUKernelsError):
    """The database was migrated by a newer version of this software."""

    code = "newer_database"


class now_ms(FunctionElement[int]):
    """Milliseconds since 1970 by the database's clock."""

    inherit_cache = True
    type = BigInteger()


@compiles(now_ms, "sqlite")
def _now_sqlite(element: now_ms, compiler: Any, **options: Any) -> str:
    return "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"


@compiles(now_ms, "postgresql")
def _now_postgresql(element: now_ms, compiler: Any, **options: Any) -> str:
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"


def open_engine(url: str) -> Engine:
    """An engine for ``url``; a SQLite file is opened for one controller and many readers of it."""
    if make_url(url).get_backend_name() != "sqlite":
        engine = create_engine(url, isolation_level="READ COMMITTED")
        event.listen(engine, "begin", _lock_postgresql)
        return engine
    engine = create_engine(url, poolclass=QueuePool, pool_size=5, max_overflow=0)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, record: object) -> None:
    connection.isolation_level = None  # the driver must not begin transactions of its own
    for pragma in (
        "busy_timeout = 15000",
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _lock_postgresql(connection: Connection) -> None:
    """One writer at a time, as with SQLite: a decision reads sums over many rows, which row locks do not
    hold.
    """
    if connection.get_execution_options().get(WRITES):
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7203468151)")


def migrate(engine: Engine) -> None:
    """Bring the database to this code's schema. Raises ``NewerDatabase`` when it is ahead of the code."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    script = ScriptDirectory.from_config(config)
    known = {revision.revision for revision in script.walk_revisions()}
    with ledger_errors(), engine.execution_options(**{WRITES: True}).begin() as connection:
        present = set(MigrationContext.configure(connection).get_current_heads())
        if not present <= known:
            raise NewerDatabase(
                f"The ledger was written by a newer version (schema {', '.join(sorted(present - known))}). "
                "Start that version, or give this one another database; nothing was changed."
            )
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


@contextmanager
def ledger_errors() -> Iterator[None]:
    """A database that cannot be used becomes a refusal; a broken constraint stays the bug that it is."""
    try:
        yield
    except IntegrityError:
        raise
    except DBAPIError as error:
        name = getattr(error.orig, "sqlite_errorname", type(error.orig).__name__)
        full = name == "SQLITE_FULL" or "disk" in str(error.orig)
        raise LedgerUnavailable(
            "The GPU pool cannot write to its ledger now"
            f"{' (its disk is full or failing)' if full else ''}; nothing was changed.\n"
            "Whoever runs the pool has to see to it.\n"
            "Try again in a minute, or choose 'Python 3' to work without a GPU.",
            log_message=f"ledger: {name}: {error.orig}",
            retry_after=10.0,
        ) from error
