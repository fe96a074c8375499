"""The ledger for an event loop: one thread writes, a few read, and what changed rings the bells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from gpu_kernels.errors import LedgerUnavailable, PoolUnavailable
from gpu_kernels.pool.ledger import Changes, Ledger, Transaction
from gpu_kernels.pool.service.waiting import Bells, agent_topic, lease_topic

T = TypeVar("T")

READERS = 4
MOST_WAITING = 2000


def stopping() -> PoolUnavailable:
    """What is told to those who ask, or wait, while the controller stops."""
    return PoolUnavailable(
        "The GPU pool is being stopped or restarted; nothing was changed.\nTry again in a moment.",
        retry_after=2.0,
    )


class Desk:
    """Runs transactions beside the event loop, so that no request waits for another's disk."""

    def __init__(self, ledger: Ledger, bells: Bells) -> None:
        self.ledger = ledger
        self._bells = bells
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="ledger-writer")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="ledger-reader")
        self._waiting = 0
        self._closed = False

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Run one decision. It is carried through, and rings, even when whoever asked has gone."""
        if self._waiting >= MOST_WAITING:
            raise LedgerUnavailable(
                "The GPU pool has more requests than it can handle now.\nTry again in a moment.",
                log_message=f"{self._waiting} transactions are waiting",
                retry_after=2.0,
            )
        if self._closed:
            raise stopping()
        loop = asyncio.get_running_loop()
        self._waiting += 1
        future = self._writer.submit(self.ledger.write, work)
        future.add_done_callback(lambda done: loop.call_soon_threadsafe(self._written, done))
        result, _ = await asyncio.wrap_future(future)
        return result

    def _written(self, done: Future[tuple[T, Changes]]) -> None:
        self._waiting -= 1
        if done.cancelled() or done.exception() is not None:
            return
        changes = done.result()[1]
        self._bells.ring(lease_topic(lease_id) for lease_id in changes.leases)
        self._bells.ring(agent_topic(name) for name in changes.agents)

    async def read(self, work: Callable[[Transaction], T]) -> T:
        if self._closed:
            raise stopping()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self.ledger.read, work)

    def close(self) -> None:
        """Let what is under way finish, and close the database. What still asks is told so."""
        self._closed = True
        self._writer.shutdown(wait=True)
        self._readers.shutdown(wait=True)
        self.ledger.close()
