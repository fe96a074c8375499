"""Whoever has or awaits a lease says so again: it lives on, or stays in the queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpu_kernels.pool.ledger.commands.expiry import end_over, is_over
from gpu_kernels.pool.ledger.queries.leases import owned
from gpu_kernels.pool.ledger.state.rows import Lease
from gpu_kernels.pool.ledger.state.states import IN_FORCE, Place, State
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.resources.leases import Lost, Renewal, Renewed


def keep_waiting(tx: Transaction, user: str, lease_id: str) -> Lease:
    """Note that the owner of a queued lease still waits for it; the lease as it is now."""
    lease = owned(tx, user, lease_id)
    return tx.change(lease, asked_at=tx.now) if lease.state == State.QUEUED else lease


def renew(
    tx: Transaction,
    user: str,
    leases: Iterable[tuple[str, int]],
    is_for: Callable[[Lease], bool] = lambda lease: True,
) -> Renewal:
    """Give leases in force a whole time to live from now. One that is over stays over, swept already or
    not. ``is_for``: whether the asker's token is for the lease; one that it is not for is not known.
    """
    renewed: list[Renewed] = []
    lost: list[Lost] = []
    for lease_id, epoch in sorted(dict(leases).items()):
        lease = tx.book.leases.get(lease_id)
        if lease is None or lease.user != user or lease.epoch != epoch or not is_for(lease):
            lost.append(Lost(lease_id, "unknown", "There is no such lease of this epoch."))
            continue
        if is_over(tx, lease):
            lease = end_over(tx, lease)
        if lease.state not in IN_FORCE:
            lost.append(Lost(lease_id, lease.state, lease.reason or ""))
            continue
        until = tx.now + tx.timing.lease_ttl
        if lease.place == Place.REPLACED:
            last = (lease.replaced_at or tx.now) + tx.timing.lease_ttl
            until = max(lease.expires_at or 0, min(until, last))
        tx.change(lease, expires_at=until)
        renewed.append(Renewed(lease_id, (until - tx.now) / 1000))
    return Renewal(tuple(renewed), tuple(lost))
