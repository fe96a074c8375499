"""Readers of the store's history, beside the event loop and beside the desk: no grant waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from gpu_kernels.pool.ledger.stores import Store

T = TypeVar("T")
READERS = 3


class History:
    """Runs what reads the store's history in threads of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="history")

    async def ask(self, work: Callable[[Store], T]) -> T:
        """Run ``work``; it may use the history methods of the store and nothing else of it."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, self._store)

    def close(self) -> None:
        """Let what is under way finish."""
        self._threads.shutdown(wait=True, cancel_futures=True)
