"""Time in which nobody could renew is given back: nobody loses what nobody could keep."""

from __future__ import annotations

from dataclasses import replace
from zlib import crc32

from gpu_kernels.pool.ledger.commands.class_hours.preemption import stays_longer
from gpu_kernels.pool.ledger.queries.leases import in_force_of
from gpu_kernels.pool.ledger.state.rows import Lease
from gpu_kernels.pool.ledger.state.states import Place
from gpu_kernels.pool.ledger.transaction import Transaction

SPREAD = 0.1
"""Over how much more of the time to live a promotion spreads the ends."""


def promote(tx: Transaction) -> None:
    """Give every living lease a whole time to live from now.

    For the start of a controller and for the end of an outage of its ledger: nobody could renew while it
    was away, so nobody may lose a lease for that. Nor may one have much more: a time beyond that was told by
    a clock that has been set back since, and nobody watched. The ends are spread over ``SPREAD`` of the time
    to live, by the leases' ids, so that those that nobody wants any more do not all end in one instant.
    """
    for agent in list(tx.book.agents.values()):
        if agent.reported_at > tx.now:
            tx.change(agent, reported_at=tx.now)
    for lease in _in_force(tx):
        until = tx.now + tx.timing.lease_ttl + _spread(lease, tx.timing.lease_ttl)
        if lease.expires_at != until:
            tx.change(lease, expires_at=until)
    for lease in list(tx.book.waiting):
        tx.change(lease, asked_at=tx.now)


def _spread(lease: Lease, lease_ttl: int) -> int:
    """A replaced lease gets nothing more: what a swap may overlap is counted in whole times to live."""
    if lease.place == Place.REPLACED:
        return 0
    return crc32(lease.id.encode()) % max(1, int(lease_ttl * SPREAD))


def shift(tx: Transaction, by: int) -> None:
    """Move the times of all that lives by so many milliseconds, as if that time had not passed.

    For a stopped process and for a clock that was set; less than 0 where it was set back. What hangs on the
    wall clock stays: class hours, and the time at which a server goes away.
    """

    def moved(at: int | None) -> int | None:
        return None if at is None else at + by

    for lease in [*_in_force(tx), *tx.book.waiting]:
        agent = tx.book.agents.get(lease.agent_name or "")
        ends_at = moved(lease.ends_at)
        if ends_at is not None and agent is not None and agent.ends_at is not None:
            ends_at = min(ends_at, max(agent.ends_at, lease.ends_at or 0))
        lease = tx.put(
            replace(
                lease,
                expires_at=moved(lease.expires_at),
                asked_at=lease.asked_at + by,
                give_up_at=lease.give_up_at + by,
                replaced_at=moved(lease.replaced_at),
                busy_at=moved(lease.busy_at),
                ends_at=ends_at,
            )
        )
        stays_longer(tx, lease)
    for agent in list(tx.book.agents.values()):
        tx.change(agent, reported_at=agent.reported_at + by)


def _in_force(tx: Transaction) -> list[Lease]:
    return [lease for name in sorted(tx.book.agents) for lease in in_force_of(tx, tx.book.agents[name])]
