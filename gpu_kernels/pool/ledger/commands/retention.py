"""How long what is over is kept."""

from __future__ import annotations

from gpu_kernels.pool.ledger.transaction import Transaction

PRUNE_BATCH = 5000
MOST_EVENTS = 5_000_000
"""The audit trail is no longer than this, however fast it grows."""


def prune(tx: Transaction, before: int) -> bool:
    """Forget final leases and events from before that time (ms), a batch of each; True if there may be more.

    Accounts are kept. What the book still remembers is kept too.
    """
    remembered = tx.now - tx.timing.remember_ended
    return tx.store.prune(min(before, remembered), MOST_EVENTS, PRUNE_BATCH)
