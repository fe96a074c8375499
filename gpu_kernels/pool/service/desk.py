"""The ledger for an event loop: one thread does everything with it, in batches of what has queued up, and
what changed rings the bells.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from gpu_kernels.errors import LedgerUnavailable, PoolUnavailable, TooMany
from gpu_kernels.pool.ledger import Batch, Changes, Job, Ledger, Outcome, Transaction
from gpu_kernels.pool.ledger.stores import Deposed
from gpu_kernels.pool.service.feed import Feed, Told, concerning
from gpu_kernels.pool.service.waiting import EVENTS, Bells, agent_topic, lease_topic

T = TypeVar("T")
log = logging.getLogger("gpu_kernels.pool")

MOST_WAITING = 2000
MOST_EACH = 100
"""Jobs of one user that may be under way: the others' are never refused for them."""
WHO: ContextVar[str | None] = ContextVar("whose_request", default=None)
"""Whose request is being answered; None for what the service does itself."""
MOST_A_BATCH = 200
"""Jobs that share one commit: all of them wait for the last."""


def stopping() -> PoolUnavailable:
    """What is told to those who ask, or wait, while the controller stops."""
    return PoolUnavailable(
        "The GPU pool is being stopped or restarted; nothing was changed.\nTry again in a moment.",
        retry_after=2.0,
    )


def _too_many(who: str) -> TooMany:
    return TooMany(
        f"{who} has {MOST_EACH} requests at the GPU pool not answered yet, the limit for each user.\n"
        "This one was not carried out. Try again in a few seconds.",
        retry_after=2.0,
        details={"limit": MOST_EACH},
    )


@dataclass(slots=True)
class _Asked:
    """A job of a batch, or ``apart``: work that needs the ledger's thread and is no job."""

    job: Job | None
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]
    who: str | None
    apart: Callable[[], Any] | None = None


class Desk:
    """Runs jobs beside the event loop, so that it never waits for a disk.

    A job is carried through, and rings, even when whoever asked has gone. Those that come while a commit is
    under way share the next one.
    """

    def __init__(self, ledger: Ledger, bells: Bells) -> None:
        self.ledger = ledger
        self._bells = bells
        self.feed = Feed()
        self._queue: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._waiting = 0
        self._each: Counter[str] = Counter()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="ledger", daemon=True)
        self._thread.start()

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Run one decision."""
        result: T = await self._ask(Job(work))
        return result

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Look at what is committed."""
        result: T = await self._ask(Job(work, reads=True))
        return result

    async def lead(self, courses: Mapping[str, Mapping[str, int]], *, alone: bool) -> None:
        """Take the term, see ``Ledger.start``."""
        await self._ask(None, partial(self.ledger.start, courses, alone=alone))

    @property
    def deposed(self) -> Deposed | None:
        """Why nothing is decided here: another controller leads."""
        return self.ledger.deposed

    async def _ask(self, job: Job | None, apart: Callable[[], Any] | None = None) -> Any:
        if self._waiting >= MOST_WAITING:
            raise LedgerUnavailable(
                "The GPU pool has more requests than it can handle now. This one was not carried out.\n"
                "Try again in a few seconds.",
                log_message=f"{self._waiting} transactions are waiting",
                retry_after=2.0,
            )
        if self._closed:
            raise stopping()
        if (who := WHO.get()) is not None:
            if self._each[who] >= MOST_EACH:
                raise _too_many(who)
            self._each[who] += 1
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._waiting += 1
        self._queue.put(_Asked(job, loop, answer, who, apart))
        return await answer

    def _work(self) -> None:
        """The thread: until ``close``."""
        following: _Asked | None = None
        while (first := following or self._queue.get()) is not None:
            following = None
            if first.apart is not None:
                self._do(first, first.apart)
                continue
            batch, stop = [first], False
            while len(batch) < MOST_A_BATCH and not stop and following is None:
                try:
                    asked = self._queue.get_nowait()
                except queue.Empty:
                    break
                if asked is None:
                    stop = True
                elif asked.apart is not None:
                    following = asked
                else:
                    batch.append(asked)
            self._run(batch)
            if stop:
                return

    def _run(self, batch: list[_Asked]) -> None:
        """One batch; whatever happens, all who asked are answered, and the thread goes on."""
        told: Sequence[Told] = ()
        try:
            done = self.ledger.run([asked.job for asked in batch if asked.job is not None])
            told = concerning(self.ledger.book, done.changes.events)
        except Exception as error:
            log.exception("a batch failed")
            done = Batch([Outcome(error=error) for _ in batch])
        batch[0].loop.call_soon_threadsafe(self._answer, batch, done.outcomes, done.changes, told)

    def _do(self, asked: _Asked, work: Callable[[], Any]) -> None:
        try:
            outcome: Outcome[Any] = Outcome(work())
        except Exception as error:
            outcome = Outcome(error=error)
        asked.loop.call_soon_threadsafe(self._answer, [asked], [outcome], Changes())

    def _answer(
        self,
        batch: list[_Asked],
        outcomes: list[Outcome[Any]],
        changes: Changes,
        told: Sequence[Told] = (),
    ) -> None:
        """In the event loop: bells first, so that nobody is answered about a change that has not rung."""
        self._waiting -= len(batch)
        self._each -= Counter(asked.who for asked in batch if asked.who is not None)
        self._bells.ring(lease_topic(lease_id) for lease_id in changes.leases)
        self._bells.ring(agent_topic(name) for name in changes.agents)
        if told:
            self.feed.add(told)
            self._bells.ring([EVENTS])
        for asked, outcome in zip(batch, outcomes, strict=True):
            if asked.answer.done():
                continue
            if outcome.error is not None:
                asked.answer.set_exception(outcome.error)
            else:
                asked.answer.set_result(outcome.result)

    def close(self) -> None:
        """Let what was asked for finish, and close the store. What still asks is told so."""
        self._closed = True
        self._queue.put(None)
        self._thread.join()
        self.ledger.close()
