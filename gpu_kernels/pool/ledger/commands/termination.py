"""Taking slices back: release, expiry, revocation, and the word or proof that frees them.

Ending a lease and freeing its slices are two things. The end is the controller's decision; the slices stay
counted until the lease's agent has confirmed that nothing of the lease lives there, or has promised to have
killed it by now, or an admin says that the server is gone. No timer of ours frees a slice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from gpu_kernels.pool.ledger.commands.seats import give_back
from gpu_kernels.pool.ledger.commands.shares import settle
from gpu_kernels.pool.ledger.commands.transitions import move
from gpu_kernels.pool.ledger.queries.leases import ended_of
from gpu_kernels.pool.ledger.state.capacity import adopted
from gpu_kernels.pool.ledger.state.rows import Agent, Lease
from gpu_kernels.pool.ledger.state.states import LIVE, Place, State, Who
from gpu_kernels.pool.ledger.transaction import Transaction

REPLACED = "Replaced: the same notebook was given another lease."
ASK_ANEW = (
    "What was in GPU memory is gone; variables and files stay. The next CUDA call of a notebook asks for "
    "a new slice."
)
"""What whoever lost a slice reads after the reason, which is a line."""
NOT_RENEWED = "Expired: it was not renewed in time."
STOPPED_ASKING = "Left the queue: its client stopped waiting."
NOTHING_FREE = "Left the queue: nothing came free in the time it was to wait."


def drain(tx: Transaction, lease: Lease, *, who_asked: str, reason: str | None = None) -> Lease:
    """End a living lease because its user asked, directly or by asking for something else."""
    if lease.state == State.QUEUED:
        tx.capacity_changed()
        return move(tx, lease, State.RELEASED, who=Who.USER, actor=who_asked, reason=reason)
    ended = move(
        tx,
        lease,
        State.DRAINING,
        who=Who.USER,
        actor=who_asked,
        reason=reason,
        end_seq=_next_seq(tx, lease),
    )
    _restore_replaced(tx, lease)
    return ended


def revoke(tx: Transaction, lease: Lease, *, who: Who, actor: str, reason: str) -> Lease:
    """Take a living lease back."""
    return _quarantine(tx, lease, move(tx, lease, State.REVOKED, who=who, actor=actor, reason=reason), actor)


def expire(tx: Transaction, lease: Lease, reason: str) -> Lease:
    """End a living lease because its time is over."""
    ended = move(tx, lease, State.EXPIRED, who=Who.CLOCK, actor="clock", reason=reason)
    return _quarantine(tx, lease, ended, "clock")


def _quarantine(tx: Transaction, was: Lease, ended: Lease, actor: str) -> Lease:
    if was.state == State.QUEUED:
        tx.capacity_changed()
        return ended
    ended = move(
        tx,
        ended,
        State.QUARANTINED,
        who=Who.DECISION,
        actor=actor,
        ended_at=None,
        end_seq=_next_seq(tx, was),
    )
    _restore_replaced(tx, was)
    return ended


def _next_seq(tx: Transaction, lease: Lease) -> int:
    """The number by which the lease's agent is told that it is gone."""
    agent = tx.book.agents[lease.agent_name or ""]
    tx.agent_changed(agent.name)
    return tx.change(agent, target_seq=agent.target_seq + 1).target_seq


def _restore_replaced(tx: Transaction, ended: Lease) -> None:
    """The lease that ``ended`` had replaced is its slot's current one again, where it still lives."""
    if ended.place != Place.CURRENT:
        return
    places = tx.book.in_slot(ended.user, ended.server, ended.path)
    old = places.get(Place.REPLACED)
    if old is None or Place.CURRENT in places:
        return
    if tx.book.by_live_key.get((old.user, old.key)) is None:
        tx.change(old, place=str(Place.CURRENT), live_key=old.key)
        tx.event(ended.user, "restored", old.id, {"after": ended.id})


def confirm(tx: Transaction, agent: Agent, done_seq: int, alive: Collection[str]) -> int:
    """Free the ended leases of an agent that has carried out ``done_seq`` and names only ``alive`` as
    living.
    """
    gone = [
        lease
        for lease in ended_of(tx, agent)
        if lease.end_seq is not None and lease.end_seq <= done_seq and lease.id not in alive
    ]
    return free_all(tx, gone, who=Who.AGENT, actor=agent.name)


def free_all(tx: Transaction, leases: Sequence[Lease], *, who: Who, actor: str) -> int:
    """Take the slices of ended leases off their GPUs, and close their accounts; how many leases."""
    for lease in leases:
        settle(tx, lease, lease.gpu_class or "")
        for part in tx.book.parts(lease):
            tx.change(part, ended_at=tx.now, active_at=lease.active_at)
            gpu = tx.book.gpus[part.gpu_id]
            tx.put(
                adopted(
                    gpu,
                    used_mib=gpu.used_mib - part.mib,
                    used_thousandths=gpu.used_thousandths - part.thousandths,
                )
            )
        to = State.RELEASED if lease.state == State.DRAINING else State.FREED
        give_back(tx, move(tx, lease, to, who=who, actor=actor))
    if leases:
        tx.capacity_changed()
    return len(leases)


def end_all(
    tx: Transaction, leases: Iterable[Lease], *, who_asked: str, reason: str | None = None
) -> list[Lease]:
    """Drain those of ``leases`` that still live; as they are then."""
    ended = []
    for lease in leases:
        now = tx.book.leases[lease.id]
        if now.state in LIVE:
            ended.append(drain(tx, now, who_asked=who_asked, reason=reason))
    return ended
