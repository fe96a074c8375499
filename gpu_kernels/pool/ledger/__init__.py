"""The ledger of who holds what: a book in memory over a store. Imports ``policy``; knows nothing of HTTP."""

from __future__ import annotations

from gpu_kernels.pool.ledger.clock_guard import ClockGuard
from gpu_kernels.pool.ledger.ledger import Batch, Job, Ledger, Outcome
from gpu_kernels.pool.ledger.transaction import Caps, Changes, Timing, Transaction

__all__ = ["Batch", "Caps", "Changes", "ClockGuard", "Job", "Ledger", "Outcome", "Timing", "Transaction"]
