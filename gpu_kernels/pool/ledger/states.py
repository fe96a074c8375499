"""The states of a lease, and the only way from one to another.

A slice counts against its GPU in the states of ``HOLDING``. ``TABLE`` is the whole of what may happen;
``move`` is the only function that writes a lease's state, and everything that hangs on the state is written
with it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from gpu_kernels.pool.ledger.rows import Lease

if TYPE_CHECKING:
    from gpu_kernels.pool.ledger.transaction import Transaction


class State(StrEnum):
    QUEUED = "queued"
    RESERVED = "reserved"
    ACTIVE = "active"
    DRAINING = "draining"
    QUARANTINED = "quarantined"
    RELEASED = "released"
    EXPIRED = "expired"
    REVOKED = "revoked"
    FREED = "freed"


class Who(StrEnum):
    """On whose word a lease changes its state."""

    REQUEST = "request"
    DECISION = "decision"
    USER = "user"
    AGENT = "agent"
    CLOCK = "clock"
    ADMIN = "admin"
    PROOF = "proof"
    """Its agent promised to have killed its workers by now; see docs/design/pool.md."""


class Place(StrEnum):
    """What a living lease is to its slot: at most one of each, by a unique constraint."""

    WAITING = "waiting"
    CURRENT = "current"
    REPLACED = "replaced"


TABLE: dict[tuple[State | None, State], frozenset[Who]] = {
    (None, State.QUEUED): frozenset({Who.REQUEST}),
    (None, State.RESERVED): frozenset({Who.DECISION}),
    (State.QUEUED, State.RESERVED): frozenset({Who.DECISION}),
    (State.QUEUED, State.RELEASED): frozenset({Who.USER}),
    (State.QUEUED, State.EXPIRED): frozenset({Who.CLOCK}),
    (State.QUEUED, State.REVOKED): frozenset({Who.ADMIN}),
    (State.RESERVED, State.ACTIVE): frozenset({Who.AGENT}),
    (State.RESERVED, State.DRAINING): frozenset({Who.USER}),
    (State.ACTIVE, State.DRAINING): frozenset({Who.USER}),
    (State.RESERVED, State.EXPIRED): frozenset({Who.CLOCK}),
    (State.ACTIVE, State.EXPIRED): frozenset({Who.CLOCK}),
    (State.RESERVED, State.REVOKED): frozenset({Who.ADMIN, Who.DECISION}),
    (State.ACTIVE, State.REVOKED): frozenset({Who.ADMIN, Who.DECISION}),
    (State.EXPIRED, State.QUARANTINED): frozenset({Who.DECISION}),
    (State.REVOKED, State.QUARANTINED): frozenset({Who.DECISION}),
    (State.DRAINING, State.RELEASED): frozenset({Who.AGENT, Who.PROOF, Who.ADMIN}),
    (State.QUARANTINED, State.FREED): frozenset({Who.AGENT, Who.PROOF, Who.ADMIN}),
}

IN_FORCE = frozenset({State.RESERVED, State.ACTIVE})
LIVE = IN_FORCE | {State.QUEUED}
ENDING = frozenset({State.DRAINING, State.QUARANTINED})
HOLDING = IN_FORCE | ENDING
FINAL = frozenset({State.RELEASED, State.EXPIRED, State.REVOKED, State.FREED})


class IllegalTransition(AssertionError):
    """A bug: the code asked for a change that the table does not have. The transaction is rolled back."""


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
