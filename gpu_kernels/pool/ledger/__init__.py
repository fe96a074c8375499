"""The database: models, migrations and the transactions. Imports ``policy``; knows nothing of HTTP."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from sqlalchemy.orm import Session

from gpu_kernels.errors import LedgerUnavailable
from gpu_kernels.pool.ledger.courses import add_first_courses
from gpu_kernels.pool.ledger.database import WRITES, ledger_errors, migrate, open_engine
from gpu_kernels.pool.ledger.ending import promote, shift
from gpu_kernels.pool.ledger.granting import settle_queue
from gpu_kernels.pool.ledger.transaction import Caps, Changes, Clock, Timing, Transaction, database_clock
from gpu_kernels.pool.ledger.watch import Watch

T = TypeVar("T")
log = logging.getLogger("gpu_kernels.pool")


class Ledger:
    """The ledger of who holds what: every change is one write transaction that runs ``work``.

    Not for use from an event loop: calls block on the disk. One writer at a time is all that a database of
    this kind takes, so writers of one process should share one thread.
    """

    def __init__(
        self,
        url: str,
        timing: Timing | None = None,
        clock: Clock = database_clock,
        watch: Watch | None = None,
        caps: Caps | None = None,
    ) -> None:
        self.timing = timing or Timing()
        self.watch = watch
        self.caps = caps or Caps()
        self._clock = clock
        self._engine = open_engine(url)
        self._writing = self._engine.execution_options(**{WRITES: True})
        self._outage = False

    def start(self, courses: Mapping[str, Mapping[str, int]] | None = None) -> None:
        """Migrate, give every living lease a whole time to live, and create the first courses in a new
        ledger.
        """
        migrate(self._engine)

        def begin(tx: Transaction) -> None:
            promote(tx)
            add_first_courses(tx, courses or {})

        self.write(begin)

    def close(self) -> None:
        self._engine.dispose()

    def write(self, work: Callable[[Transaction], T]) -> tuple[T, Changes]:
        """Run one decision: all of it or nothing. What ``work`` raises is raised, and nothing has changed.

        Raises ``LedgerUnavailable`` where the database cannot be written. The first write after such an
        outage gives every living lease a whole time to live, since no renewal could be written meanwhile.
        """
        try:
            with ledger_errors(), Session(self._writing, expire_on_commit=False) as session, session.begin():
                tx = Transaction(session, self._clock(session), self.timing, self.caps)
                self._make_up(tx)
                result = work(tx)
                settle_queue(tx)
                tx.finish()
        except LedgerUnavailable:
            self._outage = True
            raise
        self._outage = False
        if self.watch is not None:
            self.watch.seen(tx.now)
        return result, tx.changes

    def _make_up(self, tx: Transaction) -> None:
        """Give back the time in which nobody could renew, before anything is decided by it."""
        lost = 0 if self.watch is None else self.watch.lost(tx.now)
        if lost:
            log.warning("this process stood still or a clock was set: %.1f s do not count", lost / 1000)
            shift(tx, lost)
        if self._outage:
            promote(tx)

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run a reader on one consistent view; it waits for no writer and holds none up."""
        with ledger_errors(), Session(self._engine) as session:
            return work(Transaction(session, self._clock(session), self.timing, self.caps))


__all__ = ["Caps", "Changes", "Ledger", "Timing", "Transaction", "Watch"]
