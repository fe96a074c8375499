"""The clock's part: what is over ends; and the clock's limits: nobody loses what nobody could renew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from zlib import crc32

from gpu_kernels.pool.ledger.ending import (
    ASK_ANEW,
    NOT_RENEWED,
    NOTHING_FREE,
    REPLACED,
    STOPPED_ASKING,
    ended_of,
    expire,
    free_all,
    revoke,
)
from gpu_kernels.pool.ledger.reclaiming import reclaim
from gpu_kernels.pool.ledger.rows import Agent, Lease
from gpu_kernels.pool.ledger.states import IN_FORCE, Place, Who
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.ledger.windows import advance, stays_longer

LIFE_OVER = f"Taken back: it had reached the longest life that a slice may have.\n{ASK_ANEW}"
SERVER_LEAVES = f"Taken back: its GPU server is being taken out of service.\n{ASK_ANEW}"
SWEEP_BATCH = 200
"""At most so many leases end in one transaction, so that a mass expiry does not hold up everything else."""
SPREAD = 0.1
"""Over how much more of the time to live a promotion spreads the ends."""
SLOW_CLOCK = 1.1
"""An agent's clock may go slower than the store's by a tenth."""
FENCE_MARGIN_MS = 10_000


def sweep(tx: Transaction) -> int:
    """End what is over by the store's clock; how many leases that were."""
    ended = 0
    for lease_id in tx.book.over.by(tx.now, SWEEP_BATCH):
        lease = tx.book.leases[lease_id]
        if lease.state in IN_FORCE:
            end_over(tx, lease)
            ended += 1
    ended += _leave_the_queue(tx)
    ended += _empty_servers(tx, SWEEP_BATCH - ended)
    _free_fenced(tx)
    ended += reclaim(tx, SWEEP_BATCH - ended)
    if len(tx.book.waiting):
        tx.capacity_changed()  # time alone moves the queue: promises are given to who has waited long
    return ended + advance(tx)


def is_over(tx: Transaction, lease: Lease) -> bool:
    """Whether a lease in force is over by the clock, swept already or not."""
    return lease.state in IN_FORCE and (
        (lease.expires_at or 0) <= tx.now or (lease.ends_at is not None and lease.ends_at <= tx.now)
    )


def end_over(tx: Transaction, lease: Lease) -> Lease:
    """End a lease in force that is over by the clock, for the reason that holds."""
    if (lease.expires_at or 0) <= tx.now:
        return expire(tx, lease, REPLACED if lease.place == Place.REPLACED else NOT_RENEWED)
    return revoke(tx, lease, who=Who.DECISION, actor="clock", reason=LIFE_OVER)


def _leave_the_queue(tx: Transaction) -> int:
    ended = 0
    for lease in list(tx.book.waiting):
        if lease.asked_at + tx.timing.queue_ttl <= tx.now:
            expire(tx, lease, STOPPED_ASKING)
            ended += 1
        elif lease.give_up_at <= tx.now:
            expire(tx, lease, NOTHING_FREE)
            ended += 1
    return ended


def _empty_servers(tx: Transaction, most: int) -> int:
    """Take back what is on servers whose time has come; ``most`` leases."""
    ended = 0
    for agent in leaving(tx):
        for lease in in_force_of(tx, agent):
            if ended >= most:
                return ended
            revoke(tx, lease, who=Who.DECISION, actor="clock", reason=SERVER_LEAVES)
            ended += 1
    return ended


def leaving(tx: Transaction) -> Iterator[Agent]:
    """The servers that must be empty by now."""
    for agent in list(tx.book.agents.values()):
        drained = agent.standing == "draining" and agent.drain_by is not None and agent.drain_by <= tx.now
        if drained or (agent.ends_at is not None and agent.ends_at <= tx.now):
            yield agent


def in_force_of(tx: Transaction, agent: Agent) -> list[Lease]:
    return sorted(tx.book.in_force.of(agent.name).values(), key=lambda lease: (lease.epoch, lease.id))


def _free_fenced(tx: Transaction) -> None:
    """Free what ended on servers that have been silent for longer than their agents let workers live.

    The silence counts from when this controller began to watch: what a clock did before that is unknown.
    """
    for agent in list(tx.book.agents.values()):
        if not agent.fences_after or not tx.book.ending.of(agent.name):
            continue
        silent_since = max(agent.reported_at, tx.watched_since)
        if tx.now >= silent_since + agent.fences_after * SLOW_CLOCK + FENCE_MARGIN_MS:
            leases = ended_of(tx, agent)
            free_all(tx, leases, who=Who.PROOF, actor=agent.name)
            tx.event("clock", "fenced", agent.name, {"leases": len(leases)})


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
