"""The only way of a lease from one state to another."""

from __future__ import annotations

from typing import Any

from gpu_kernels.pool.ledger.state.rows import Lease
from gpu_kernels.pool.ledger.state.states import FINAL, LIVE, TABLE, IllegalTransition, State, Who
from gpu_kernels.pool.ledger.transaction import Transaction


def move(
    tx: Transaction,
    lease: Lease,
    to: State,
    *,
    who: Who,
    actor: str,
    reason: str | None = None,
    **fields: Any,
) -> Lease:
    """Change a lease's state and all that hangs on it: its place, its key, its end, its event.

    ``fields`` change with it. The lease as it is now; a lease without a state yet is new.
    """
    before = State(lease.state) if lease.state else None
    if who not in TABLE.get((before, to), frozenset()):
        raise IllegalTransition(f"lease {lease.id}: {before} to {to} by {who}")
    if reason is not None:
        fields["reason"] = reason[:500]
    if to not in LIVE:
        fields |= {"place": None, "live_key": None}
    if to in FINAL:
        fields["ended_at"] = tx.now
    lease = tx.change(lease, state=str(to), **fields)
    tx.event(actor, str(to), lease.id, {"from": before, "reason": reason} if reason else {"from": before})
    tx.lease_changed(lease.id)
    return lease
