"""Readers of the store's history, beside the event loop and beside the desk: no grant waits for them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from gpu_kernels.errors import LedgerUnavailable, TooMany
from gpu_kernels.pool.ledger.stores import Store
from gpu_kernels.pool.service.desk import WHO

T = TypeVar("T")
READERS = 3
MOST_WAITING = 200
"""Questions that are not answered yet; each may hold a page of rows in memory when it is."""
MOST_EACH = 12
"""Of one user: the others' are never refused for them. A page of the lab asks for a few at once."""


class History:
    """Runs what reads the store's history in threads of its own. For the event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="history")
        self._waiting = 0
        self._each: Counter[str] = Counter()

    async def ask(self, work: Callable[[Store], T]) -> T:
        """Run ``work``; it may use the history methods of the store and nothing else of it. Raises
        ``TooMany`` where its user has too many under way, ``LedgerUnavailable`` where all have.
        """
        who = WHO.get()
        self._check_room(who)
        asked = asyncio.get_running_loop().run_in_executor(self._threads, work, self._store)
        self._waiting += 1
        if who is not None:
            self._each[who] += 1

        def over(_: asyncio.Future[T]) -> None:
            """Once the thread is done with it, whether anybody still waits or not."""
            self._waiting -= 1
            if who is not None:
                self._each[who] -= 1
                self._each += Counter()  # forgets who has none

        asked.add_done_callback(over)
        # A reader that goes away does not stop the thread: what it asked for counts until it is done.
        return await asyncio.shield(asked)

    def _check_room(self, who: str | None) -> None:
        if who is not None and self._each[who] >= MOST_EACH:
            raise TooMany(
                f"{who} has {MOST_EACH} requests for the pool's history under way, the limit for each user.\n"
                "This one was not carried out. Try again in a few seconds.",
                retry_after=5.0,
                details={"limit": MOST_EACH},
            )
        if self._waiting >= MOST_WAITING:
            raise LedgerUnavailable(
                "The GPU pool has more requests for its history than it can handle now. This one was not "
                "carried out.\nTry again in a few seconds.",
                log_message=f"{self._waiting} readers of the history are waiting",
                retry_after=5.0,
            )

    def close(self) -> None:
        """Let what is under way finish."""
        self._threads.shutdown(wait=True, cancel_futures=True)
