"""A lease is given its slices."""

from __future__ import annotations

from gpu_kernels.pool.ledger.commands.shares import settle
from gpu_kernels.pool.ledger.commands.swap import take_the_slot
from gpu_kernels.pool.ledger.commands.transitions import move
from gpu_kernels.pool.ledger.queries.scene import life_of
from gpu_kernels.pool.ledger.state.capacity import adopted
from gpu_kernels.pool.ledger.state.rows import Lease, Slice
from gpu_kernels.pool.ledger.state.states import Place, State, Who
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.model import Placement


def grant(tx: Transaction, lease: Lease, placement: Placement) -> tuple[Lease, bool]:
    """Give the lease its slices: they count from here on, and its epoch is the newest of its agent.

    The lease as it is now, and whether it overlaps the lease that it replaces.
    """
    overlaps = take_the_slot(tx, lease)
    agent = tx.book.agents[placement.agent]
    agent = tx.change(agent, epoch=agent.epoch + 1, target_seq=agent.target_seq + 1)
    first = tx.book.gpus[placement.parts[0][0].id]
    lease = move(
        tx,
        lease,
        State.RESERVED,
        who=Who.DECISION,
        actor=lease.user,
        place=str(Place.CURRENT),
        agent_name=agent.name,
        epoch=agent.epoch,
        start_seq=agent.target_seq,
        gpu_class=placement.gpu_class,
        device=first.device,
        thousandths=placement.thousandths,
        granted_at=tx.now,
        expires_at=tx.now + tx.timing.lease_ttl,
        ends_at=tx.now + life_of(tx, lease),
        preempt_at=placement.preempt_at,
        promised_at=None,
    )
    settle(tx, lease, placement.gpu_class, placement.thousandths)
    for gpu, part in placement.parts:
        row = tx.book.gpus[gpu.id]
        tx.put(
            adopted(
                row,
                used_mib=row.used_mib + part.mib,
                used_thousandths=row.used_thousandths + part.thousandths,
            )
        )
        tx.put(
            Slice(
                lease_id=lease.id,
                gpu_id=row.id,
                gpu_uuid=row.uuid,
                gpu_class=placement.gpu_class,
                user=lease.user,
                course=lease.course,
                mib=part.mib,
                thousandths=part.thousandths,
                started_at=tx.now,
            )
        )
    tx.agent_changed(agent.name)
    return lease, overlaps
