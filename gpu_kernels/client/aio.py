"""The pool client for asyncio."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from gpu_kernels.client.async_reservation import AsyncReservation
from gpu_kernels.client.connection import Connection
from gpu_kernels.client.event_stream import Event, EventStream
from gpu_kernels.client.exchange import Reply, exchange
from gpu_kernels.client.lease_request import LeaseRequest
from gpu_kernels.client.requests import Pause, Request, Script
from gpu_kernels.errors import PoolError
from gpu_kernels.resources.leases import Lease, Slot

T = TypeVar("T")


class AsyncPoolClient(Connection):
    """The calls of ``PoolClient`` as coroutines. One instance may be used from several event loops, one after
    another; arguments and errors are those of ``PoolClient``.
    """

    def __init__(self, url: str, token: str, timeout: float = 10.0, *, verify: bool | str = True) -> None:
        super().__init__(url, token, timeout, verify=verify)
        self._by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient]
        self._by_loop = weakref.WeakKeyDictionary()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections that the running loop has."""
        http = self._by_loop.pop(asyncio.get_running_loop(), None)
        if http is not None:
            await http.aclose()

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        http = self._by_loop.get(loop)
        if http is None:
            http = self._by_loop[loop] = httpx.AsyncClient(**self._client_arguments())
        return http

    async def send(self, request: Request[T]) -> T:
        """Send one request, and read its answer; see ``exchange``."""
        steps = exchange(request, self._controllers, self.timeout)
        reply: Reply = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                reply = None
                continue
            try:
                reply = await self._client().request(**step.arguments(request))
            except httpx.TransportError as error:
                reply = error

    async def run(self, script: Script[T]) -> T:
        """Carry a script out; what the controller refuses is raised in it."""
        answer: Any = None
        failure: PoolError | None = None
        while True:
            try:
                step = script.send(answer) if failure is None else script.throw(failure)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            answer = failure = None
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                continue
            try:
                answer = await self.send(step)
            except PoolError as error:
                failure = error

    async def follow(self, *topics: str, after: int | None = None) -> AsyncIterator[Event]:
        """See ``PoolClient.follow``."""
        following = EventStream(self._controllers, topics or ("leases",), after, self.timeout)
        while True:
            failure: Exception | None = None
            try:
                async with self._client().stream(**following.arguments()) as response:
                    body = b"" if response.is_success else await response.aread()
                    following.began(response.status_code, body)
                    async for line in response.aiter_lines():
                        if (event := following.line(line)) is not None:
                            yield event
            except (httpx.TransportError, PoolError) as error:
                failure = error
            await asyncio.sleep(following.interrupted(failure))

    def reserve(
        self,
        size: str,
        *,
        wait: float = 0.0,
        course: str | None = None,
        slot: Slot | None = None,
        labels: Mapping[str, str] | None = None,
        on_position: Callable[[Lease], object] | None = None,
        on_lost: Callable[[str], object] | None = None,
    ) -> AsyncReservation:
        """A lease for as long as an ``async with`` block runs; see ``PoolClient.reserve``.

        When the lease is lost, ``on_lost`` is called in the event loop. Without it the block is cancelled,
        and ``LeaseLost`` raised where it ends.
        """
        request = LeaseRequest.of_its_own("reserve", size, wait, course, slot, labels)
        return AsyncReservation(self, request, on_position, on_lost)
