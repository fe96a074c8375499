"""Threads for what asks the controller or a GPU server: the event loop never waits for either."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from gpu_kernels.errors import PoolUnavailable
from gpu_kernels.provisioner.attachment import Attachment
from gpu_kernels.provisioner.snapshot import look
from gpu_kernels.resources.lab import KernelSlice

T = TypeVar("T")
THREADS = 8
MOST_AT_ONCE = 64
"""Questions that run or wait for a thread; who comes then is told so at once."""
BUSY = (
    f"This Jupyter server asks the pool {MOST_AT_ONCE} questions already, and it does not answer.\n"
    "Your kernels go on. Try again in a minute."
)


class Busy(PoolUnavailable):
    """Too much is being asked at once."""

    code = "busy"


class Asker:
    """To be used from the event loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="gpu-lab")
        self._places = threading.BoundedSemaphore(MOST_AT_ONCE)
        self._looks: dict[Attachment, asyncio.Task[KernelSlice]] = {}

    async def ask(self, question: Callable[..., T], *arguments: object) -> T:
        """What ``question`` returns, asked in a thread; it is asked to the end even if nobody waits for it.

        Raises ``Busy``.
        """
        if not self._places.acquire(blocking=False):
            raise Busy(BUSY, retry_after=60)
        try:
            asked = self._threads.submit(question, *arguments)
        except BaseException:
            self._places.release()
            raise
        asked.add_done_callback(lambda _: self._places.release())
        return await asyncio.wrap_future(asked)

    async def look(self, attachment: Attachment) -> KernelSlice:
        """The attachment with its use now. Those who ask while it is asked for get the same answer."""
        if attachment not in self._looks:
            looking = asyncio.ensure_future(self.ask(look, attachment))
            self._looks[attachment] = looking
            looking.add_done_callback(lambda _: self._looks.pop(attachment))
        return await asyncio.shield(self._looks[attachment])

    def close(self) -> None:
        """What runs is left to its end, and nothing more is begun."""
        self._threads.shutdown(wait=False, cancel_futures=True)
