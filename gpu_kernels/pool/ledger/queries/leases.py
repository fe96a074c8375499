"""Which leases there are: by id, of a user, on a server."""

from __future__ import annotations

from gpu_kernels.errors import UnknownLease
from gpu_kernels.pool.ledger.state.rows import Agent, Lease
from gpu_kernels.pool.ledger.transaction import Transaction


def ended_of(tx: Transaction, agent: Agent) -> list[Lease]:
    """The agent's leases that are over and still hold slices, in the order of their epochs."""
    return sorted(tx.book.ending.of(agent.name).values(), key=lambda lease: (lease.epoch, lease.id))


def find(tx: Transaction, lease_id: str) -> Lease | None:
    """A lease by its id, from the store where it has left the book."""
    lease = tx.book.leases.get(lease_id)
    if lease is None:
        ended = tx.store.find_lease(lease_id)
        return None if ended is None else ended.lease
    return lease


def owned(tx: Transaction, user: str, lease_id: str) -> Lease:
    """The user's lease; another user's is as unknown as one that does not exist."""
    lease = find(tx, lease_id)
    if lease is None or lease.user != user:
        raise unknown(lease_id)
    return lease


def unknown(lease_id: str) -> UnknownLease:
    """What who does not own a lease reads, whether or not there is one."""
    return UnknownLease(
        f"There is no lease {lease_id[:40]!r} of yours.\n"
        "It ended long ago, or belongs to someone else. 'jupyter gpu status' lists yours."
    )


def in_force_of(tx: Transaction, agent: Agent) -> list[Lease]:
    return sorted(tx.book.in_force.of(agent.name).values(), key=lambda lease: (lease.epoch, lease.id))
