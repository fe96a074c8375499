"""How long what is over is kept."""

from __future__ import annotations

from sqlalchemy import delete, select

from gpu_kernels.pool.ledger.models import Event, Lease
from gpu_kernels.pool.ledger.states import FINAL
from gpu_kernels.pool.ledger.transaction import Transaction

PRUNE_BATCH = 5000


def prune(tx: Transaction, before: int) -> None:
    """Forget final leases and events from before that time (ms); accounts are kept."""
    old = (
        select(Lease.id).where(Lease.state.in_(FINAL), Lease.ended_at < before).limit(PRUNE_BATCH).subquery()
    )
    tx.session.execute(delete(Lease).where(Lease.id.in_(select(old.c.id))))
    events = select(Event.id).where(Event.at < before).order_by(Event.id).limit(PRUNE_BATCH).subquery()
    tx.session.execute(delete(Event).where(Event.id.in_(select(events.c.id))))
