"""A lease for as long as an ``async with`` block runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from gpu_kernels.client.lease_holder import LeaseHolder
from gpu_kernels.client.lease_request import LeaseRequest
from gpu_kernels.client.leased import Leased
from gpu_kernels.client.reservation import each_position
from gpu_kernels.errors import PoolError
from gpu_kernels.resources.leases import Lease

if TYPE_CHECKING:
    from gpu_kernels.client.aio import AsyncPoolClient

log = logging.getLogger("gpu_kernels")


class AsyncReservation:
    """Made by ``AsyncPoolClient.reserve``. A task of the same loop renews the lease while the block runs."""

    def __init__(
        self,
        client: AsyncPoolClient,
        request: LeaseRequest,
        on_position: Callable[[Lease], object] | None,
        on_lost: Callable[[str], object] | None,
    ) -> None:
        self._client = client
        self._on_lost = on_lost or self._interrupt
        self._holder = LeaseHolder(
            request, by_trust=True, on_moved=each_position(on_position), on_lost=self._lost
        )
        self._body: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._interrupted = False
        self._tending: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Leased:
        try:
            await self._client.run(self._holder.acquire())
        except BaseException:
            await self._give_back()
            raise
        self._body = asyncio.current_task()
        assert self._body is not None
        self._cancelling = self._body.cancelling()
        self._tending = asyncio.create_task(self._tend())
        return Leased(self._holder)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._body is not None
        assert self._tending is not None
        self._tending.cancel()
        await self._give_back()
        if not self._interrupted:
            return
        # As asyncio.timeout does: only a cancellation that is ours alone becomes another error.
        ours_alone = self._body.uncancel() <= self._cancelling
        if ours_alone and (kind is None or issubclass(kind, asyncio.CancelledError)):
            raise self._holder.lost_error() from error

    async def _give_back(self) -> None:
        """Also where this task is cancelled meanwhile: the release goes on, and the cancellation after it."""
        giving = asyncio.ensure_future(self._given_back())
        cancelled: asyncio.CancelledError | None = None
        while not giving.done():
            try:
                await asyncio.shield(giving)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    async def _given_back(self) -> None:
        with contextlib.suppress(PoolError):  # then it expires, since it is renewed no longer
            await self._client.run(self._holder.release())

    def _lost(self, holder: LeaseHolder) -> None:
        assert holder.loss is not None
        self._on_lost(holder.loss.text)

    def _interrupt(self, reason: str) -> None:
        """End the block, which runs: a lease is lost only after it was held."""
        if self._body is not None:
            self._interrupted = True
            self._body.cancel()

    async def _tend(self) -> None:
        while True:
            await asyncio.sleep(self._holder.due_in)
            try:
                if not await self._client.run(self._holder.tend()):
                    return
            except Exception:
                log.exception("tending a GPU lease failed; it is tried again")
                await asyncio.sleep(1.0)
