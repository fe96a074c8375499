"""One decision: a session that writes, the database's time, and what the outside must be told afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from gpu_kernels.pool.ledger.database import now_ms
from gpu_kernels.pool.ledger.models import Event, Lease

Clock = Callable[[Session], int]


NOW = select(now_ms())
NEW_EVENTS = insert(Event.__table__)  # type: ignore[arg-type]
Slot = tuple[str, str, str]


def database_clock(session: Session) -> int:
    return session.connection().execute(NOW).scalar_one()


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


@dataclass(frozen=True, slots=True)
class Caps:
    """What keeps one user from filling the ledger.

    ``living``: a user's leases that live; ``queued``: those of them that wait; ``queue``: all that wait.
    """

    living: int = 100
    queued: int = 20
    queue: int = 1000


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

    def __init__(self, session: Session, now: int, timing: Timing, caps: Caps) -> None:
        self.session = session
        self.now = now
        self.timing = timing
        self.caps = caps
        self.changes = Changes()
        self.queue_may_move = False
        self.slots: dict[Slot, list[Lease]] = {}
        """The leases of the slots looked at so far, see ``snapshot.in_slot``."""
        self._events: list[dict[str, Any]] = []

    def event(self, actor: str, kind: str, subject: str, detail: dict[str, Any]) -> None:
        """Note it in the audit trail; it is written with the rest at the end."""
        self._events.append(
            {"at": self.now, "actor": actor, "kind": kind, "subject": subject, "detail": detail}
        )

    def finish(self) -> None:
        """Write what was noted; before the commit."""
        if self._events:
            self.session.connection().execute(NEW_EVENTS, self._events)
            self._events = []

    def lease_changed(self, lease_id: str) -> None:
        self.changes.leases.add(lease_id)

    def agent_changed(self, name: str) -> None:
        self.changes.agents.add(name)

    def capacity_changed(self) -> None:
        """Something may fit now that did not: the queue is looked at before this transaction ends."""
        self.queue_may_move = True
