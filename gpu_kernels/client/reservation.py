"""A lease for as long as a ``with`` block runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from gpu_kernels.client.answers import Lease
from gpu_kernels.client.holding import Holding, Wish
from gpu_kernels.client.leased import Leased
from gpu_kernels.errors import PoolError

if TYPE_CHECKING:
    from gpu_kernels.client.threads import PoolClient

log = logging.getLogger("gpu_kernels")


class Reservation:
    """Made by ``PoolClient.reserve``. A thread renews the lease while the block runs; for many leases in one
    process, ``gpu_kernels.keeper`` renews all of them in one call.
    """

    def __init__(
        self,
        client: PoolClient,
        wish: Wish,
        on_position: Callable[[Lease], object] | None,
        on_lost: Callable[[str], object] | None,
    ) -> None:
        self._client = client
        self._holding = Holding(wish, on_position, on_lost)
        self._over = threading.Event()
        self._tending = threading.Thread(target=self._tend, name="gpu-lease", daemon=True)

    def __enter__(self) -> Leased:
        try:
            self._client.run(self._holding.get())
            self._tending.start()
        except PoolError:
            if self._holding.lease is not None:
                self._client.run(self._holding.give_back())
            raise
        except BaseException:
            self._client.run(self._holding.give_back())
            raise
        return Leased(self._holding)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        try:
            self._client.run(self._holding.give_back())
        finally:
            self._tending.join()

    def _tend(self) -> None:
        while not self._over.wait(self._holding.wake_in()):
            try:
                if not self._client.run(self._holding.tend()):
                    return
            except Exception:
                log.exception("tending a GPU lease failed; it is tried again")
                if self._over.wait(1.0):
                    return
