"""One decision: a session that writes, the database's time, and what the outside must be told afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from gpu_kernels.pool.ledger.database import now_ms
from gpu_kernels.pool.ledger.models import Event

Clock = Callable[[Session], int]


def database_clock(session: Session) -> int:
    return session.scalars(select(now_ms())).one()


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things live, in milliseconds.

    ``lease_ttl``: a lease that is not renewed. ``agent_ttl``: the silence after which nothing new is placed
    on an agent. ``queue_ttl``: a queued request whose owner stopped asking. ``swap_rest``: the time in
    which a user may overlap two leases of a slot once (see docs/design/pool.md).
    """

    lease_ttl: int = 60_000
    agent_ttl: int = 30_000
    queue_ttl: int = 45_000
    swap_rest: int = 600_000


@dataclass(slots=True)
class Changes:
    """What a committed transaction changed, for those who wait on it."""

    leases: set[str] = field(default_factory=set)
    agents: set[str] = field(default_factory=set)

    def merge(self, other: Changes) -> None:
        self.leases |= other.leases
        self.agents |= other.agents


class Transaction:
    """A write transaction under way. ``now`` is read once, so that one decision has one time."""

    def __init__(self, session: Session, now: int, timing: Timing) -> None:
        self.session = session
        self.now = now
        self.timing = timing
        self.changes = Changes()
        self.queue_may_move = False

    def event(self, actor: str, kind: str, subject: str, detail: dict[str, Any]) -> None:
        self.session.add(Event(at=self.now, actor=actor, kind=kind, subject=subject, detail=detail))

    def lease_changed(self, lease_id: str) -> None:
        self.changes.leases.add(lease_id)

    def agent_changed(self, name: str) -> None:
        self.changes.agents.add(name)

    def capacity_changed(self) -> None:
        """Something may fit now that did not: the queue is looked at before this transaction ends."""
        self.queue_may_move = True
