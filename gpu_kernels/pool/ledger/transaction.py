"""One decision: changes of the book, the store's time, and what the outside must be told afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gpu_kernels.pool.ledger.state.book import Book
from gpu_kernels.pool.ledger.state.rows import Event, Row, changed
from gpu_kernels.pool.ledger.state.site_policy import SitePolicy
from gpu_kernels.pool.ledger.stores import Store

R = TypeVar("R", bound=Row)


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things live, in milliseconds.

    ``lease_ttl``: a lease that is not renewed. ``agent_ttl``: the silence after which nothing new is placed
    on an agent. ``queue_ttl``: a queued request whose owner stopped asking. ``swap_rest``: the time in
    which a user may overlap two leases of a slot once (see docs/design/pool.md). ``longest_life``: a lease,
    however it is renewed. ``remember_ended``: ended leases in the book; at least ``swap_rest``, which looks
    at them.
    """

    lease_ttl: int = 60_000
    agent_ttl: int = 30_000
    queue_ttl: int = 45_000
    swap_rest: int = 600_000
    longest_life: int = 12 * 3_600_000
    remember_ended: int = 3_600_000


@dataclass(frozen=True, slots=True)
class Caps:
    """What keeps one user from filling the ledger.

    ``living``: a user's leases that live; ``queued``: those of them that wait; ``queue``: all that wait.
    """

    living: int = 100
    queued: int = 20
    queue: int = 1000


@dataclass(frozen=True, slots=True)
class RefusedRegistration:
    """The last registration of a name that was refused, how many were, and when the trail last told of it."""

    at: int
    address: str
    why: str
    times: int = 1
    told_at: int = 0


@dataclass(slots=True)
class Setting:
    """What all transactions of a ledger share.

    ``counts_by``: its incarnation, to which agents' sequence numbers belong. ``watched_since``: since when
    it has seen the store's clock go on without a gap.
    """

    timing: Timing
    caps: Caps
    site: SitePolicy
    counts_by: str = ""
    watched_since: int = 0
    alarms: dict[str, dict[str, int]] = field(default_factory=dict)
    """By agent and GPU: how much memory outside all leases has been told of."""
    refused: dict[str, RefusedRegistration] = field(default_factory=dict)
    """By agent: who tried to register under its name, and was refused."""
    strangers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By agent: what lives there, by its last report, and holds no slice of it."""
    line: tuple[str, ...] = ()
    """Those who wait, the next first, as of the last decision."""


@dataclass(slots=True)
class Changes:
    """What a committed batch changed, for those who wait on it."""

    leases: set[str] = field(default_factory=set)
    agents: set[str] = field(default_factory=set)
    events: list[Event] = field(default_factory=list)

    def merge(self, other: Changes) -> None:
        self.leases |= other.leases
        self.agents |= other.agents
        self.events += other.events


class Transaction:
    """A job under way on the book. ``now`` is the store's, and one for the whole batch.

    ``store`` is for what the book does not hold: its history.
    """

    def __init__(self, book: Book, store: Store, setting: Setting, now: int) -> None:
        self.book = book
        self.store = store
        self.now = now
        self.timing = setting.timing
        self.caps = setting.caps
        self.site = setting.site
        self.patterns = setting.site.patterns
        self.line = setting.line
        self.counts_by = setting.counts_by
        self.watched_since = setting.watched_since
        self.alarms = setting.alarms
        self.refused = setting.refused
        self.strangers = setting.strangers
        self.afterwards: list[Callable[[], None]] = []
        self.changes = Changes()
        self.queue_may_move = False

    def put(self, row: R) -> R:
        return self.book.put(row)

    def change(self, row: R, **fields: Any) -> R:
        """Put the row with these fields; the row as it is now."""
        return self.book.put(changed(row, **fields))

    def drop(self, row: Row) -> None:
        self.book.drop(row)

    def event(self, actor: str, kind: str, subject: str, detail: Mapping[str, Any]) -> None:
        """Note it in the audit trail."""
        self.book.add_event(self.now, actor[:255], kind, subject[:255], detail)

    def when_committed(self, work: Callable[[], None]) -> None:
        """Do that once the batch is in the store, and not at all where it does not get there."""
        self.afterwards.append(work)

    def lease_changed(self, lease_id: str) -> None:
        self.changes.leases.add(lease_id)

    def agent_changed(self, name: str) -> None:
        self.changes.agents.add(name)

    def capacity_changed(self) -> None:
        """Something may fit now that did not: the queue is looked at before the batch ends."""
        self.queue_may_move = True
