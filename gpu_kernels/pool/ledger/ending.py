"""Taking slices back: release, expiry, revocation, and the agent's word that frees them.

Ending a lease and freeing its slices are two things. The end is the controller's decision; the slices stay
counted until the lease's agent has confirmed that nothing of the lease lives there. No timer frees a slice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy import select, update
from sqlalchemy.orm import selectinload

from gpu_kernels.pool.ledger import models, snapshot
from gpu_kernels.pool.ledger.models import Lease, Usage
from gpu_kernels.pool.ledger.states import ENDING, IN_FORCE, LIVE, Place, State, Who, move
from gpu_kernels.pool.ledger.transaction import Transaction

REPLACED = "Replaced: the same notebook was given another lease."
NOT_RENEWED = "Expired: it was not renewed in time."
STOPPED_ASKING = "Left the queue: whoever asked stopped waiting."
NOTHING_FREE = "Left the queue: nothing came free in the time it was to wait."
SWEEP_BATCH = 200
"""At most so many leases end in one transaction, so that a mass expiry does not hold up everything else."""


def drain(tx: Transaction, lease: Lease, *, who_asked: str, reason: str | None = None) -> None:
    """End a living lease because its user asked, directly or by asking for something else."""
    if lease.state == State.QUEUED:
        move(tx, lease, State.RELEASED, who=Who.USER, actor=who_asked, reason=reason)
        tx.capacity_changed()
        return
    was = lease.place
    move(tx, lease, State.DRAINING, who=Who.USER, actor=who_asked, reason=reason)
    _await_confirmation(tx, lease, was)


def revoke(tx: Transaction, lease: Lease, *, who: Who, actor: str, reason: str) -> None:
    """Take a living lease back."""
    held, was = lease.state != State.QUEUED, lease.place
    move(tx, lease, State.REVOKED, who=who, actor=actor, reason=reason)
    _quarantine(tx, lease, held, was, actor)


def expire(tx: Transaction, lease: Lease, reason: str) -> None:
    """End a living lease because its time is over."""
    held, was = lease.state != State.QUEUED, lease.place
    move(tx, lease, State.EXPIRED, who=Who.CLOCK, actor="clock", reason=reason)
    _quarantine(tx, lease, held, was, "clock")


def _quarantine(tx: Transaction, lease: Lease, held: bool, was: str | None, actor: str) -> None:
    if not held:
        tx.capacity_changed()
        return
    move(tx, lease, State.QUARANTINED, who=Who.DECISION, actor=actor)
    lease.ended_at = None
    _await_confirmation(tx, lease, was)


def _await_confirmation(tx: Transaction, lease: Lease, was: str | None) -> None:
    agent = tx.session.get_one(models.Agent, lease.agent_name)
    agent.target_seq += 1
    lease.end_seq = agent.target_seq
    tx.agent_changed(agent.name)
    tx.session.flush()  # it leaves its place before another may take it
    if was == Place.CURRENT:
        _restore_replaced(tx, lease)


def _restore_replaced(tx: Transaction, ended: Lease) -> None:
    """The lease that ``ended`` had replaced is its slot's current one again, where it still lives."""
    places = snapshot.in_slot(tx, ended.user, ended.server, ended.path)
    old = places.get(Place.REPLACED)
    if old is None or Place.CURRENT in places:
        return
    key_taken = select(Lease.id).where(Lease.user == old.user, Lease.live_key == old.key)
    if tx.session.execute(key_taken).first() is None:
        old.place = Place.CURRENT
        old.live_key = old.key
        tx.event(ended.user, "restored", old.id, {"after": ended.id})
        tx.session.flush()


def sweep(tx: Transaction) -> int:
    """Expire what is over by the database's clock; how many leases that were."""
    over = (
        select(Lease)
        .where(Lease.state.in_(IN_FORCE), Lease.expires_at <= tx.now)
        .order_by(Lease.expires_at, Lease.id)
        .limit(SWEEP_BATCH)
    )
    ended = 0
    for lease in tx.session.scalars(over).all():
        if lease.state in IN_FORCE:
            expire(tx, lease, REPLACED if lease.place == Place.REPLACED else NOT_RENEWED)
            ended += 1
    for lease in snapshot.waiting(tx):
        if lease.asked_at + tx.timing.queue_ttl <= tx.now:
            expire(tx, lease, STOPPED_ASKING)
            ended += 1
        elif lease.give_up_at <= tx.now:
            expire(tx, lease, NOTHING_FREE)
            ended += 1
    return ended


def confirm(tx: Transaction, agent: models.Agent, done_seq: int, alive: Collection[str]) -> int:
    """Free the ended leases of an agent that has carried out ``done_seq`` and names only ``alive`` as
    living.
    """
    query = (
        select(Lease)
        .where(Lease.agent_name == agent.name, Lease.state.in_(ENDING), Lease.end_seq <= done_seq)
        .options(selectinload(Lease.slices))
    )
    gone = [lease for lease in tx.session.scalars(query).all() if lease.id not in alive]
    for lease in gone:
        _free(tx, lease)
    if gone:
        tx.capacity_changed()
    return len(gone)


def _free(tx: Transaction, lease: Lease) -> None:
    for part in lease.slices:
        gpu = part.gpu
        gpu.used_mib -= part.mib
        gpu.used_thousandths -= part.thousandths
        gpu.adopt_offer()
    closing = update(Usage).where(Usage.lease_id == lease.id, Usage.ended_at.is_(None))
    tx.session.execute(closing.values(ended_at=tx.now))
    to = State.RELEASED if lease.state == State.DRAINING else State.FREED
    move(tx, lease, to, who=Who.AGENT, actor=lease.agent_name or "")


def promote(tx: Transaction) -> None:
    """Give every living lease a whole time to live from now.

    For the start of a controller and for the end of an outage of its ledger: nobody could renew while it
    was away, so nobody may lose a lease for that.
    """
    until = tx.now + tx.timing.lease_ttl
    in_force = update(Lease).where(Lease.state.in_(IN_FORCE), Lease.expires_at < until)
    tx.session.execute(in_force.values(expires_at=until))
    queued = update(Lease).where(Lease.state == State.QUEUED)
    tx.session.execute(queued.values(asked_at=tx.now))


def shift(tx: Transaction, by: int) -> None:
    """Move the times of all that lives by so many milliseconds, as if that time had not passed.

    For a stopped process and for a clock that was set; less than 0 where it was set back.
    """
    living = update(Lease).where(Lease.state.in_(LIVE))
    tx.session.execute(
        living.values(
            expires_at=Lease.expires_at + by,
            asked_at=Lease.asked_at + by,
            give_up_at=Lease.give_up_at + by,
            replaced_at=Lease.replaced_at + by,
        )
    )
    tx.session.execute(update(models.Agent).values(reported_at=models.Agent.reported_at + by))


def end_all(
    tx: Transaction, leases: Iterable[Lease], *, who_asked: str, reason: str | None = None
) -> list[Lease]:
    """Drain those of ``leases`` that still live."""
    ended = []
    for lease in leases:
        if lease.place is not None:
            drain(tx, lease, who_asked=who_asked, reason=reason)
            ended.append(lease)
    return ended
