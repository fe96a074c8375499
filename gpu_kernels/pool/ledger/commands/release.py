"""A user gives a lease back, or all that a Jupyter server has."""

from __future__ import annotations

from gpu_kernels.pool.ledger.commands.termination import drain, end_all
from gpu_kernels.pool.ledger.queries.leases import owned
from gpu_kernels.pool.ledger.state.rows import Lease
from gpu_kernels.pool.ledger.state.states import LIVE, Place
from gpu_kernels.pool.ledger.transaction import Transaction


def release(tx: Transaction, user: str, lease_id: str, holder: str) -> Lease:
    """End the lease if ``holder`` still is its holder; otherwise nothing changes. Repeating it is
    harmless.
    """
    lease = owned(tx, user, lease_id)
    if lease.holder == holder and lease.state in LIVE:
        return drain(tx, lease, who_asked=user)
    return lease


def release_server(tx: Transaction, user: str, server: str, who_asked: str) -> list[Lease]:
    """End everything that the user's Jupyter server holds or waits for."""
    # The current one last: ending it first would restore the lease that it had replaced.
    leases = sorted(
        tx.book.of_server.of((user, server)).values(),
        key=lambda lease: (lease.place == Place.CURRENT, lease.id),
    )
    return end_all(tx, leases, who_asked=who_asked, reason="The Jupyter server stopped.")
