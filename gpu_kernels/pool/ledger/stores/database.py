"""What a SQL store needs of a database: how to connect, to begin, to write in bulk, and what its errors mean.

``sqlite`` and ``postgresql`` each have one. Everything else is the same SQL on both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from gpu_kernels.errors import LedgerUnavailable
from gpu_kernels.pool.ledger.stores.statements import Batch

Connection = Any
"""A DBAPI connection, in autocommit: transactions begin and end by statements."""


class Database(Protocol):
    """One database, and the dialect of it."""

    marker: str
    """What stands for a parameter."""
    now: str
    """An expression: milliseconds since 1970 by the database's clock."""
    has_table: str
    """A query: whether there is a table of the name given."""
    url: str
    """As SQLAlchemy reads it, for migrations."""
    errors: tuple[type[Exception], ...]
    """What its driver raises."""

    def connect(self) -> Connection:
        """A new connection. Raises ``LedgerUnavailable``."""

    def usable(self, connection: Connection) -> bool:
        """Whether the connection is worth another try, as far as can be known without one."""

    def begin(self, connection: Connection, writes: bool, query: str) -> Sequence[Any] | None:
        """Begin a transaction (``writes``: as the one writer) and give the first row of ``query`` in it."""

    def evict(self, connection: Connection, older_than: int) -> tuple[int, int]:
        """End others' write transactions that began so many milliseconds ago, where the database can do that;
        how many it ended, and how many younger ones there are, as far as it can tell.
        """

    def write(self, connection: Connection, batches: Iterable[Batch]) -> None:
        """Run the statements in their order. Raises ``RowMissing`` where one did not find all its rows."""

    def commit(self, connection: Connection) -> None: ...

    def rollback(self, connection: Connection) -> None:
        """Raises what the driver raises where the connection is lost."""

    def in_doubt(self, error: Exception) -> bool:
        """Whether a ``commit`` that raised this may have been carried out all the same."""

    def refusal(self, error: Exception) -> LedgerUnavailable | None:
        """What to tell of a driver's error: None where it is a bug's, a broken constraint say."""


class RowMissing(AssertionError):
    """The store lacks a row that the book says it has: somebody else wrote, or there is a bug."""


def unavailable(why: str, log_message: str) -> LedgerUnavailable:
    """``why``: a few words for the user, such as "its disk is full"; may be empty."""
    return LedgerUnavailable(
        f"The GPU pool cannot write to its ledger now{f' ({why})' if why else ''}; nothing was changed.\n"
        "The pool's administrator has to see to it.\n"
        "Try again in a minute, or choose 'Python 3' to work without a GPU.",
        log_message=f"ledger: {log_message}",
        retry_after=10.0,
    )
