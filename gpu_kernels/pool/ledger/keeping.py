"""How long what is over is kept."""

from __future__ import annotations

from sqlalchemy import delete, func, select

from gpu_kernels.pool.ledger.models import Event, Lease
from gpu_kernels.pool.ledger.states import FINAL
from gpu_kernels.pool.ledger.transaction import Transaction

PRUNE_BATCH = 5000
MOST_EVENTS = 5_000_000
"""The audit trail is no longer than this, however fast it grows."""


def prune(tx: Transaction, before: int) -> bool:
    """Forget final leases and events from before that time (ms), a batch of each; True if there may be more.

    Accounts are kept.
    """
    old = (
        select(Lease.id).where(Lease.state.in_(FINAL), Lease.ended_at < before).limit(PRUNE_BATCH).subquery()
    )
    leases = tx.session.connection().execute(delete(Lease).where(Lease.id.in_(select(old.c.id))))
    last_id = tx.session.scalars(select(func.coalesce(func.max(Event.id), 0))).one()
    events = (
        select(Event.id)
        .where((Event.at < before) | (Event.id <= last_id - MOST_EVENTS))
        .order_by(Event.id)
        .limit(PRUNE_BATCH)
        .subquery()
    )
    forgotten = tx.session.connection().execute(delete(Event).where(Event.id.in_(select(events.c.id))))
    return PRUNE_BATCH in (leases.rowcount, forgotten.rowcount)
