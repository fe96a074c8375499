"""The book over its store: batches of jobs, each batch one transaction of the store."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from gpu_kernels.errors import LedgerUnavailable, OutcomeUnknown, PoolError
from gpu_kernels.pool.ledger.clock_guard import ClockGuard
from gpu_kernels.pool.ledger.commands.outage import promote, shift
from gpu_kernels.pool.ledger.commands.queue import settle_queue
from gpu_kernels.pool.ledger.commands.quotas import add_first_courses
from gpu_kernels.pool.ledger.state.book import Book
from gpu_kernels.pool.ledger.state.rows import Event
from gpu_kernels.pool.ledger.state.site_policy import SitePolicy
from gpu_kernels.pool.ledger.stores import MOST_ROWS, Deposed, Store
from gpu_kernels.pool.ledger.transaction import Caps, Changes, Setting, Timing, Transaction
from gpu_kernels.vocabulary.rules import HOUR, LONGEST_WINDOW

T = TypeVar("T")
Work = Callable[[Transaction], Any]
log = logging.getLogger("gpu_kernels.pool")

FORGET_BATCH = 500
"""Ended leases leave the book so many at a time, between two batches."""


@dataclass(frozen=True, slots=True)
class Job:
    """Something to do with the book: a decision, or (``reads``) a look that changes nothing."""

    work: Work
    reads: bool = False


@dataclass(slots=True)
class Outcome(Generic[T]):
    """What became of a job: its result, or what it raised; a job that raised has changed nothing."""

    result: T | None = None
    error: Exception | None = None

    def get(self) -> T:
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]


@dataclass(slots=True)
class Batch:
    """``outcomes`` in the order of the jobs; ``changes`` of all of them together."""

    outcomes: list[Outcome[Any]]
    changes: Changes = field(default_factory=Changes)


class Ledger:
    """The ledger of who holds what. Not for use from an event loop: calls block on the store; nor by two
    threads at once.
    """

    def __init__(
        self,
        store: Store,
        timing: Timing | None = None,
        *,
        clock_guard: ClockGuard | None = None,
        caps: Caps | None = None,
        holder: str | None = None,
        address: str = "",
        site: SitePolicy | None = None,
    ) -> None:
        self.store = store
        self.clock_guard = clock_guard
        self._setting = Setting(timing or Timing(), caps or Caps(), site or SitePolicy())
        self.book = Book(self._setting.site)
        self._holder = holder or socket.gethostname()
        self._address = address
        self._outage = False
        self._stale = True
        """Whether the book is not what the store has, and must be loaded before anything else."""
        self._deposed: Deposed | None = None

    @property
    def timing(self) -> Timing:
        return self._setting.timing

    @timing.setter
    def timing(self, timing: Timing) -> None:
        self._setting.timing = timing

    @property
    def caps(self) -> Caps:
        return self._setting.caps

    @caps.setter
    def caps(self, caps: Caps) -> None:
        self._setting.caps = caps

    @property
    def site(self) -> SitePolicy:
        return self._setting.site

    @site.setter
    def site(self, site: SitePolicy) -> None:
        """The book is loaded anew by it."""
        self._setting.site = site
        self._stale = True

    @property
    def deposed(self) -> Deposed | None:
        """Why this controller decides nothing: another one leads. From any thread."""
        return self._deposed

    @property
    def incarnation(self) -> str:
        """What agents count by."""
        return self._setting.counts_by

    def start(self, courses: Mapping[str, Mapping[str, int]] | None = None, *, alone: bool = True) -> None:
        """Bring the store up to this code, take the term, load the book, give every living lease a whole
        time to live, and create the first courses in a new ledger.

        ``alone``: no other controller can be alive on this store (see ``Store.lead``). Raises ``Deposed``
        where another one leads; that may be tried again, and so may a ledger that was deposed.
        """
        try:
            self.store.open()
            self._setting.counts_by = self.store.lead(self._holder, self._address, alone=alone).incarnation
        except Deposed as error:
            self._deposed = error
            raise
        self._deposed = None
        self._stale = self._outage = True
        if self.clock_guard is not None:
            self.clock_guard.begin_anew()
        self.write(lambda tx: add_first_courses(tx, courses or {}))

    def close(self) -> None:
        self.store.close()

    def write(self, work: Callable[[Transaction], T]) -> tuple[T, Changes]:
        """Run one decision: all of it or nothing. What ``work`` raises is raised, and nothing has changed.

        Raises ``LedgerUnavailable`` where the store cannot be written, ``Deposed`` where another controller
        has taken over.
        """
        batch = self.run([Job(work)])
        return batch.outcomes[0].get(), batch.changes

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run a reader on what is committed."""
        outcome: Outcome[T] = self.run([Job(work, reads=True)]).outcomes[0]
        return outcome.get()

    def run(self, jobs: Sequence[Job]) -> Batch:
        """Run a batch as one transaction of the store. Never raises: each job has its outcome.

        A job that raises is undone by itself. Where the store fails, nothing of the batch has happened, and
        all who wanted that are told so. Readers come last, and see what has been committed.
        """
        if self._deposed is not None:
            return _all_fail(jobs, self._deposed)
        try:
            return self._run(jobs)
        except Deposed as error:
            self._deposed = error
            return _all_fail(jobs, error)
        except LedgerUnavailable as error:
            return self._only_readers(jobs, error)
        except Exception as error:
            writers = [job for job in jobs if not job.reads]
            if len(writers) <= 1:
                if not isinstance(error, PoolError):
                    log.exception("the store refused what was decided")
                return _all_fail(jobs, error)
            log.error("the store refused a batch of %d jobs; each is tried by itself", len(jobs))
            return self._one_by_one(jobs)

    def _only_readers(self, jobs: Sequence[Job], error: LedgerUnavailable) -> Batch:
        """A store that cannot be written can often be read."""
        readers = {number: job for number, job in enumerate(jobs) if job.reads}
        if not readers or len(readers) == len(jobs):
            return _all_fail(jobs, error)
        read = dict(zip(readers, self.run(list(readers.values())).outcomes, strict=True))
        return Batch([read.get(number) or Outcome(error=error) for number in range(len(jobs))])

    def _one_by_one(self, jobs: Sequence[Job]) -> Batch:
        """A job whose rows the store does not take must not undo the others."""
        result = Batch([])
        for job in jobs:
            batch = self.run([job])
            result.outcomes += batch.outcomes
            result.changes.merge(batch.changes)
        return result

    def _run(self, jobs: Sequence[Job]) -> Batch:
        writes = any(not job.reads for job in jobs)
        self._stale |= self.book.torn
        decided = _Decided(line=self._setting.line)
        try:
            now = self.store.begin(writes=writes or self._stale)
            if self._stale:
                self._load(now)
            if writes:
                self._make_up(decided, now)
                self._decide(decided, jobs, now)
            written = self.book.changes()
            if written:
                self.store.write(written)
            self.store.commit()
        except BaseException as error:
            self._setting.line = decided.line
            self._undo(error)
            raise
        self.book.settle()
        if writes:
            self._committed(decided, now)
        changes = Changes()
        for tx in decided.kept:
            changes.merge(tx.changes)
        changes.events += [c.after for c in written if isinstance(c.after, Event)]
        return Batch([decided.outcomes.get(n) or self._look(job, now) for n, job in enumerate(jobs)], changes)

    def _transaction(self, now: int) -> Transaction:
        return Transaction(self.book, self.store, self._setting, now)

    def _load(self, now: int) -> None:
        """Begin a new book with what the store has."""
        self.book = Book(self._setting.site)
        loaded = self.store.load(now - self._remembered())
        self.book.load(loaded.rows, loaded.last_event)
        self._remember_spending(now)
        self._stale = False

    def _remember_spending(self, now: int) -> None:
        """Budgets reach further back than the book."""
        since, cursor = now - LONGEST_WINDOW * HOUR, None
        while True:
            page = self.store.usage(since=since, until=now, cursor=cursor, limit=MOST_ROWS)
            self.book.entitlements.remember(
                part for part in page.rows if (part.lease_id, part.gpu_id) not in self.book.slices
            )
            if page.cursor is None:
                return
            cursor = page.cursor

    def _remembered(self) -> int:
        return max(self.timing.remember_ended, self.timing.swap_rest)

    def _make_up(self, decided: _Decided, now: int) -> None:
        """Give back the time in which nobody could renew, before anything is decided by it."""
        tx = self._transaction(now)
        lost = 0 if self.clock_guard is None else self.clock_guard.lost(now)
        if lost:
            log.warning("this process stood still or a clock was set: %.1f s do not count", lost / 1000)
            shift(tx, lost)
            since = self._setting.watched_since + lost
            tx.when_committed(lambda: self._watching_since(since))
        if self._outage:
            promote(tx)
            tx.when_committed(lambda: self._watching_since(now))
        decided.kept.append(tx)

    def _watching_since(self, now: int) -> None:
        self._setting.watched_since = now

    def _decide(self, decided: _Decided, jobs: Sequence[Job], now: int) -> None:
        """Run the jobs that change something, and then the queue, if anything may move in it."""
        for number, job in enumerate(jobs):
            if not job.reads:
                decided.outcomes[number] = self._try(decided, job.work, now)
        may_move = any(tx.queue_may_move for tx in decided.kept)

        def settle(tx: Transaction) -> None:
            tx.queue_may_move = may_move
            settle_queue(tx)

        if (failed := self._try(decided, settle, now).error) is not None:
            log.error("the queue could not be gone through", exc_info=failed)

    def _try(self, decided: _Decided, work: Work, now: int) -> Outcome[Any]:
        """Run one job; what raises is undone to where it began. What tears the book ends the batch."""
        tx, mark = self._transaction(now), self.book.mark()
        try:
            outcome = Outcome(work(tx))
        except Exception as error:
            if self.book.torn:
                raise
            self.book.undo_to(mark)
            return Outcome(error=error)
        decided.kept.append(tx)
        self._setting.line = tx.line
        return outcome

    def _undo(self, error: BaseException) -> None:
        self.store.rollback()
        if not self.book.torn:
            self.book.undo_to(0)
        if isinstance(error, OutcomeUnknown):
            self._stale = True
        if isinstance(error, LedgerUnavailable):
            self._outage = True

    def _committed(self, decided: _Decided, now: int) -> None:
        self._outage = False
        for tx in decided.kept:
            for work in tx.afterwards:
                work()
        if self.clock_guard is not None:
            self.clock_guard.seen(now)
        self.book.forget(now - self._remembered(), FORGET_BATCH)

    def _look(self, job: Job, now: int) -> Outcome[Any]:
        try:
            outcome = Outcome(job.work(self._transaction(now)))
        except Exception as error:
            outcome = Outcome(error=error)
        if self.book.mark():
            self.book.undo_to(0)
            return Outcome(error=AssertionError("a reader changed the book"))
        return outcome


@dataclass(slots=True)
class _Decided:
    """What a batch has come to so far: outcomes by the job's number, and the transactions that hold.

    ``line``: what it was before.
    """

    line: tuple[str, ...]
    outcomes: dict[int, Outcome[Any]] = field(default_factory=dict)
    kept: list[Transaction] = field(default_factory=list)


def _all_fail(jobs: Sequence[Job], error: Exception) -> Batch:
    return Batch([Outcome(error=error) for _ in jobs])
