"""Leases as the API tells them."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_kernels.pool.ledger.queries.explanation import starts
from gpu_kernels.pool.ledger.queries.rules import idle_for
from gpu_kernels.pool.ledger.queries.times import iso
from gpu_kernels.pool.ledger.state.rows import Lease, Slice
from gpu_kernels.pool.ledger.state.states import FINAL, IN_FORCE, State
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.resources import leases as resources

LIST_LIMIT = 5000


def lease_view(
    tx: Transaction,
    lease: Lease,
    positions: dict[str, int] | None = None,
    parts: Sequence[Slice] | None = None,
) -> resources.Lease:
    """A lease without its secret. ``parts``: the slices of one that has left the
    book.
    """
    position = None
    if lease.state == State.QUEUED:
        position = (positions if positions is not None else queue_positions(tx)).get(lease.id)
    in_force = lease.state in IN_FORCE
    agent = tx.book.agents.get(lease.agent_name or "")
    return resources.Lease(
        id=lease.id,
        state=str(lease.state),
        epoch=lease.epoch,
        user=lease.user,
        course=lease.course,
        size=str(lease.size),
        gpu_class=lease.gpu_class,
        device=lease.device,
        slot=resources.Slot(lease.server, lease.path),
        holder=lease.holder,
        slices=slice_views(tx, lease, parts),
        agent=None if agent is None else resources.LeaseAgent(agent.name, agent.address),
        position=position,
        starts_in=_until(tx, starts(tx).get(lease.id)) if position is not None else None,
        expires_in=max(0, (lease.expires_at or 0) - tx.now) / 1000 if in_force else None,
        ttl=tx.timing.lease_ttl / 1000,
        ends_in=_until(tx, lease.ends_at) if in_force else None,
        preempt_in=_until(tx, lease.preempt_at) if in_force else None,
        class_hour=lease.window.partition(".")[0] if in_force and lease.window else None,
        reason=lease.reason,
        created_at=iso(lease.created_at),
        ended_at=None if lease.ended_at is None else iso(lease.ended_at),
        labels=dict(lease.labels),
        use=resources.Use(
            lease.used_mib,
            lease.peak_mib,
            lease.sessions,
            lease.launches,
            None if (idle := idle_for(tx, lease)) is None else idle / 1000,
        ),
    )


def _until(tx: Transaction, at: int | None) -> float | None:
    return None if at is None else max(0, at - tx.now) / 1000


def slice_views(
    tx: Transaction, lease: Lease, parts: Sequence[Slice] | None = None
) -> tuple[resources.LeaseSlice, ...]:
    """``parts``: the slices of a lease that has left the book, where they are at hand."""
    if parts is None and lease.agent_name is not None and lease.id not in tx.book.leases:
        ended = tx.store.find_lease(lease.id)
        parts = () if ended is None else ended.slices
    views = [
        resources.LeaseSlice(part.gpu_uuid, tx.book.gpus[part.gpu_id].index, part.mib, part.thousandths)
        for part in (tx.book.parts(lease) if parts is None else parts)
    ]
    return tuple(sorted(views, key=lambda part: (part.index, part.gpu)))


def queue_positions(tx: Transaction) -> dict[str, int]:
    """Each waiting request's place in the line, from 1, by its id."""
    return {lease_id: number for number, lease_id in enumerate(tx.line, start=1)}


def leases(
    tx: Transaction, *, user: str | None = None, course: str | None = None, ended: bool = False
) -> list[resources.Lease]:
    """Leases that live or hold slices, newest first; with ``ended``, the ended ones too (``LIST_LIMIT`` at
    most).
    """
    found = [
        lease
        for lease in tx.book.leases.values()
        if (ended or lease.state not in FINAL)
        and user in (None, lease.user)
        and course in (None, lease.course)
    ]
    positions = queue_positions(tx)
    views = [(lease, lease_view(tx, lease, positions)) for lease in found]
    if ended:
        page = tx.store.ended_leases(user=user, course=course, limit=LIST_LIMIT)
        older = (item for item in page.rows if item.lease.id not in tx.book.leases)
        views += [(item.lease, lease_view(tx, item.lease, {}, item.slices)) for item in older]
    views.sort(key=lambda pair: (-pair[0].created_at, pair[0].id))
    return [view for _, view in views[:LIST_LIMIT]]
