"""A lease for as long as a ``with`` block runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from gpu_kernels.client.keeper import KEEPER, KeptLease, given_back
from gpu_kernels.client.lease_holder import Changes, LeaseHolder
from gpu_kernels.client.lease_request import LeaseRequest
from gpu_kernels.client.leased import Leased
from gpu_kernels.resources.leases import Lease

if TYPE_CHECKING:
    from gpu_kernels.client.threads import PoolClient


def each_position(tell: Callable[[Lease], object] | None) -> Changes:
    """Calls back with the queued lease each time its position has changed."""

    def told(holder: LeaseHolder) -> None:
        if tell is not None and holder.lease is not None:
            tell(holder.lease)

    return Changes(lambda holder: holder.position, told)


class Reservation:
    """Made by ``PoolClient.reserve``. This process's keeper renews the lease while the block runs."""

    def __init__(
        self,
        client: PoolClient,
        request: LeaseRequest,
        on_position: Callable[[Lease], object] | None,
        on_lost: Callable[[str], object] | None,
    ) -> None:
        self._client = client
        self._on_lost = on_lost
        self._holder = LeaseHolder(
            request, by_trust=True, on_moved=each_position(on_position), on_lost=self._lost
        )
        self._kept: KeptLease | None = None

    def __enter__(self) -> Leased:
        try:
            self._client.run(self._holder.acquire())
            self._kept = KeptLease(self._client, self._holder)
            self._kept.keep()
        except BaseException:
            KEEPER.forget(self._holder)
            given_back(self._client, self._holder)
            raise
        return Leased(self._holder)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._kept is not None
        self._kept.release()

    def _lost(self, holder: LeaseHolder) -> None:
        """The keeper's thread has others to renew: whoever is told may take his time in one of his own."""
        if self._on_lost is not None and holder.loss is not None:
            threading.Thread(
                target=self._on_lost, args=(holder.loss.text,), name="gpu-lease-lost", daemon=True
            ).start()
