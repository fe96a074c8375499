"""Fair shares written up to now, before slices open or close: see ``state.indexes.fair_shares``."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_kernels.pool.ledger.state.rows import Lease, Share
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.fairness import Use


def settle(tx: Transaction, lease: Lease, gpu_class: str, granted: int = 0) -> None:
    """Write what the lease's user and accounts have had up to now; before slices of it open or close.

    ``granted``: thousandths that open now.
    """
    _put(tx, tx.book.fair.shares.settle(lease.course, lease.user, gpu_class, tx.now, granted))


def _put(tx: Transaction, uses: Iterable[Use]) -> None:
    for use in uses:
        tx.put(
            Share(
                account=use.account,
                user=use.user,
                gpu_class=use.gpu_class,
                usage=float(use.usage),
                at=use.at,
            )
        )
