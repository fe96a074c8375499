"""SQLite: one file, one writer at a time, readers that wait for nobody.

The file is opened so that a commit survives a power cut (WAL, synchronous FULL) and so that a writer takes
its lock before it reads (BEGIN IMMEDIATE): what a decision has read cannot change before it is written.
Not on a network file system, whose locks cannot be trusted.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Sequence
from typing import Any

from gpu_kernels.errors import LedgerUnavailable
from gpu_kernels.pool.ledger.stores.database import RowMissing, unavailable
from gpu_kernels.pool.ledger.stores.statements import Batch

LONGEST_WAIT_MS = 15_000
"""For another process's transaction."""
PRAGMAS = (
    f"busy_timeout = {LONGEST_WAIT_MS}",
    "synchronous = FULL",
    "foreign_keys = ON",
    "journal_size_limit = 67108864",
)


class SQLite:
    """See ``database.Database``."""

    marker = "?"
    now = "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"
    has_table = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = ?)"
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self, path: str) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"

    def connect(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, cached_statements=512
            )
            for pragma in PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
            _keep_a_log(connection)
        except sqlite3.Error as error:
            raise self.refusal(error) or error from error
        return connection

    def usable(self, connection: sqlite3.Connection) -> bool:
        return True

    def begin(self, connection: sqlite3.Connection, writes: bool, query: str) -> Sequence[Any] | None:
        connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
        first: Sequence[Any] | None = connection.execute(query).fetchone()
        return first

    def evict(self, connection: sqlite3.Connection, older_than: int) -> tuple[int, int]:
        """A file's lock is its process's for as long as that is there."""
        return 0, 0

    def write(self, connection: sqlite3.Connection, batches: Iterable[Batch]) -> None:
        for statement, values, _ in batches:
            done = connection.executemany(statement, values).rowcount
            if done != len(values):
                raise RowMissing(f"{statement}: {done} of {len(values)} rows")

    def commit(self, connection: sqlite3.Connection) -> None:
        connection.execute("COMMIT")

    def rollback(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")

    def in_doubt(self, error: Exception) -> bool:
        """A commit's last page may be in the log although the disk has refused to say so."""
        return getattr(error, "sqlite_errorname", "").startswith("SQLITE_IOERR")

    def refusal(self, error: Exception) -> LedgerUnavailable | None:
        if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError | sqlite3.InterfaceError):
            return None
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        return unavailable(_why(name), f"{name}: {error}: {self.path}")


def _keep_a_log(connection: sqlite3.Connection) -> None:
    """Into WAL, which lasts with the file. SQLite refuses this change at once, without its ``busy_timeout``,
    while another connection reads or makes the same change: two that open a new file wait here instead."""
    give_up = time.monotonic() + LONGEST_WAIT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > give_up:
                raise
        time.sleep(0.01)


def _why(name: str) -> str:
    if name == "SQLITE_FULL" or name.startswith("SQLITE_IOERR"):
        return "its disk is full or failing"
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return "another program holds it"
    if name in ("SQLITE_CORRUPT", "SQLITE_NOTADB"):
        return "its file is damaged"
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")):
        return "its file may not be written"
    return ""
