"""The ledger for an event loop: one thread does everything with it, in batches of what has queued up, and
what changed rings the bells.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from gpu_kernels.errors import LedgerUnavailable, PoolUnavailable
from gpu_kernels.pool.ledger import Changes, Job, Ledger, Outcome, Transaction
from gpu_kernels.pool.service.waiting import Bells, agent_topic, lease_topic

T = TypeVar("T")

MOST_WAITING = 2000
MOST_A_BATCH = 200
"""Jobs that share one commit: all of them wait for the last."""


def stopping() -> PoolUnavailable:
    """What is told to those who ask, or wait, while the controller stops."""
    return PoolUnavailable(
        "The GPU pool is being stopped or restarted; nothing was changed.\nTry again in a moment.",
        retry_after=2.0,
    )


@dataclass(slots=True)
class _Asked:
    job: Job
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]


class Desk:
    """Runs jobs beside the event loop, so that it never waits for a disk.

    A job is carried through, and rings, even when whoever asked has gone. Those that come while a commit is
    under way share the next one.
    """

    def __init__(self, ledger: Ledger, bells: Bells) -> None:
        self.ledger = ledger
        self._bells = bells
        self._queue: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._waiting = 0
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

    async def _ask(self, job: Job) -> Any:
        if self._waiting >= MOST_WAITING:
            raise LedgerUnavailable(
                "The GPU pool has more requests than it can handle now.\nTry again in a moment.",
                log_message=f"{self._waiting} transactions are waiting",
                retry_after=2.0,
            )
        if self._closed:
            raise stopping()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._waiting += 1
        self._queue.put(_Asked(job, loop, answer))
        return await answer

    def _work(self) -> None:
        """The thread: until ``close``."""
        while (first := self._queue.get()) is not None:
            batch, stop = [first], False
            while len(batch) < MOST_A_BATCH and not stop:
                try:
                    asked = self._queue.get_nowait()
                except queue.Empty:
                    break
                if asked is None:
                    stop = True
                else:
                    batch.append(asked)
            done = self.ledger.run([asked.job for asked in batch])
            first.loop.call_soon_threadsafe(self._answer, batch, done.outcomes, done.changes)
            if stop:
                return

    def _answer(self, batch: list[_Asked], outcomes: list[Outcome[Any]], changes: Changes) -> None:
        """In the event loop: bells first, so that nobody is answered about a change that has not rung."""
        self._waiting -= len(batch)
        self._bells.ring(lease_topic(lease_id) for lease_id in changes.leases)
        self._bells.ring(agent_topic(name) for name in changes.agents)
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
