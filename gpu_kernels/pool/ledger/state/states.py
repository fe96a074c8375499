"""The states of a lease, and what may lead from one to another.

A slice counts against its GPU in the states of ``HOLDING``. ``TABLE`` is the whole of what may happen;
``commands.transitions.move`` is the only function that writes a lease's state, and everything that hangs on
the state is written with it.
"""

from __future__ import annotations

from enum import StrEnum


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
