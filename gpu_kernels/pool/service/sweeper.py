"""The clock's part: what is over ends, once a second or so, by the database's time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from gpu_kernels.errors import LedgerUnavailable, NotActive
from gpu_kernels.pool.ledger.commands.retention import prune
from gpu_kernels.pool.ledger.commands.sweep import sweep
from gpu_kernels.pool.ledger.queries import audit
from gpu_kernels.pool.service.desk import Desk
from gpu_kernels.pool.service.metrics import Metrics

log = logging.getLogger("gpu_kernels.pool")

PRUNE_EVERY = 3600.0
AUDIT_EVERY = 86_400.0


class Sweeper:
    """Ends leases that are over. Each sweep is a write, by which the ``ClockGuard`` sees time pass."""

    def __init__(
        self,
        desk: Desk,
        metrics: Metrics,
        interval: float,
        keep_days: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._desk = desk
        self._metrics = metrics
        self._interval = interval
        self._keep_ms = int(keep_days * 86_400_000)
        self._monotonic = monotonic
        self._pruned_at = self._audited_at = monotonic()

    async def run(self) -> None:
        """Until cancelled."""
        failing = False
        while True:
            await asyncio.sleep(self._interval)
            try:
                await self.once()
                failing = False
            except NotActive:
                pass  # on standby
            except LedgerUnavailable as error:
                self._metrics.sweeps_failed.inc()
                if not failing:
                    log.error("no lease can expire: %s", error.log_message)
                failing = True
            except Exception:
                self._metrics.sweeps_failed.inc()
                log.exception("a sweep failed")

    async def once(self) -> int:
        """One sweep; how many leases ended."""
        ended = await self._desk.write(sweep)
        if ended:
            log.info("%d lease(s) or requests are over", ended)
        if self._monotonic() - self._pruned_at >= PRUNE_EVERY:
            self._pruned_at = self._monotonic()
            while await self._desk.write(lambda tx: prune(tx, tx.now - self._keep_ms)):
                pass  # a batch a transaction, so that others get their turn in between
        if self._monotonic() - self._audited_at >= AUDIT_EVERY:
            self._audited_at = self._monotonic()
            for difference in await self._desk.read(audit.differences):
                log.error("the audit found a difference: %s", difference)
        return ended
