"""All rows that are in force, in memory, with undo.

The book is changed by ``put`` and ``drop`` alone. It remembers what was there before, so that a job, or a
whole batch, can be undone as if it had never been, and tells its indexes and whoever else follows a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, TypeVar

from gpu_kernels.pool.ledger.state.indexes import entitlements, fair_shares
from gpu_kernels.pool.ledger.state.indexes.agenda import BookAgenda, FollowSeats, FollowWindows
from gpu_kernels.pool.ledger.state.indexes.entitlements import Entitlements
from gpu_kernels.pool.ledger.state.indexes.fair_shares import FairShares
from gpu_kernels.pool.ledger.state.indexes.forecasts import Forecasts
from gpu_kernels.pool.ledger.state.indexes.generic import Due, Follower, Groups, Ordered, Unique
from gpu_kernels.pool.ledger.state.indexes.holdings import Holdings
from gpu_kernels.pool.ledger.state.indexes.memo import Memo
from gpu_kernels.pool.ledger.state.indexes.placement import Places
from gpu_kernels.pool.ledger.state.indexes.requests import Asks
from gpu_kernels.pool.ledger.state.rows import (
    TABLES,
    Account,
    Agent,
    AgentToken,
    Change,
    ClassHour,
    Event,
    Gpu,
    GroupProperty,
    Lease,
    Quota,
    Row,
    Seat,
    Share,
    Slice,
    TaughtRules,
    Window,
)
from gpu_kernels.pool.ledger.state.site_policy import SitePolicy
from gpu_kernels.pool.ledger.state.states import ENDING, FINAL, IN_FORCE, Place, State
from gpu_kernels.pool.policy.quota import KINDS

R = TypeVar("R", bound=Row)
F = TypeVar("F", bound=Follower[Any])
Key = Any
"""A row's key in its table: one value for a key of one column, else a tuple."""

KEYS: Mapping[Any, Callable[[Any], Key]] = {kind: attrgetter(*kind.KEY) for kind in TABLES}

WRITTEN = {place: number for number, place in enumerate((None, Place.REPLACED, Place.CURRENT, Place.WAITING))}
"""In which order leases are written: who leaves a place or a key of its slot before who takes it."""


class Book:
    """The rows by table and key, and the indexes of what is asked often."""

    def __init__(self, site: SitePolicy | None = None) -> None:
        self.agents: dict[str, Agent] = {}
        self.agent_tokens: dict[str, AgentToken] = {}
        """By SHA-256."""
        self.gpus: dict[int, Gpu] = {}
        self.accounts: dict[str, Account] = {}
        self.taught_rules: dict[str, TaughtRules] = {}
        self.quotas: dict[tuple[str, str], Quota] = {}
        self.shares: dict[tuple[str, str, str], Share] = {}
        self.group_properties: dict[tuple[str, str], GroupProperty] = {}
        self.class_hours: dict[str, ClassHour] = {}
        self.windows: dict[str, Window] = {}
        self.seats: dict[tuple[str, int], Seat] = {}
        self.leases: dict[str, Lease] = {}
        self.slices: dict[tuple[str, int], Slice] = {}
        self.events: dict[int, Event] = {}
        """Those of the batch under way; older ones are in the store alone."""
        self.last_event = 0
        self.torn = False
        """Whether an index failed halfway through a change: only loading the book anew undoes that."""
        self._tables: dict[Any, dict[Any, Any]] = {kind: getattr(self, kind.TABLE) for kind in TABLES}
        self._journal: list[tuple[Any, Key, Any]] = []
        self._followers: dict[Any, list[Follower[Any]]] = {kind: [] for kind in TABLES}
        self._make_indexes()
        self._follow_for_policy(site or SitePolicy())

    def _make_indexes(self) -> None:
        lease, follow = KEYS[Lease], self.follow
        self.by_live_key = follow(Lease, Unique[Lease](_live_key))
        """By (user, key); living leases only."""
        self.by_place = follow(Lease, Unique[Lease](_place))
        """By (user, server, path, place); living leases only."""
        self.living = follow(Lease, Groups[Lease](lambda row: row.user if row.place else None, lease))
        """By user: what the user's leases are counted by."""
        self.of_server = follow(Lease, Groups[Lease](_server, lease))
        """By (user, server); living leases only."""
        self.swapped = follow(Lease, Groups[Lease](lambda row: row.user if row.replaced_at else None, lease))
        """By user: leases that were replaced once."""
        self.in_force = follow(Lease, Groups[Lease](_agent_in(IN_FORCE), lease))
        """By agent."""
        self.ending = follow(Lease, Groups[Lease](_agent_in(ENDING), lease))
        """By agent: ended, and not confirmed yet."""
        self.waiting = follow(Lease, Ordered[Lease](_turn))
        self.over = follow(Lease, Due[Lease](_over_at, lease))
        """When leases in force are over: not renewed, or at the end of their longest lives."""
        self.forgettable = follow(Lease, Due[Lease](_ended_at, lease))
        self.holdings = follow(Lease, Holdings())
        self.slices_of = follow(Slice, Groups[Slice](attrgetter("lease_id"), KEYS[Slice]))
        self.held = follow(Slice, Groups[Slice](_open_gpu, KEYS[Slice]))
        """By GPU id: what is counted now."""
        self.gpus_of = follow(Gpu, Groups[Gpu](attrgetter("agent_name"), attrgetter("uuid")))
        """By agent, then by UUID."""
        self.claims = follow(Gpu, Groups[Gpu](_claimed, KEYS[Gpu]))
        """By UUID: the GPUs of this UUID that agents offer, or on which leases of theirs may still live."""
        self.quotas_of = follow(Quota, Groups[Quota](attrgetter("account"), attrgetter("gpu_class")))
        self.seats_of = follow(Seat, Groups[Seat](attrgetter("window"), attrgetter("number")))
        self.windows_of = follow(Window, Groups[Window](attrgetter("class_hour"), KEYS[Window]))

    def _follow_for_policy(self, site: SitePolicy) -> None:
        """What the policy works with is kept up like any index: see ``queries.scene``."""
        self.entitlements = Entitlements(self.holdings, site.zone)
        for kind in entitlements.FOLLOWS:
            self.follow(kind, self.entitlements)
        self.fair = FairShares(
            site.settings.fairness, lambda: self.entitlements.tree, self.accounts, self.shares, self.slices
        )
        for kind in fair_shares.FOLLOWS:
            self.follow(kind, self.fair)
        self.places = Places(site.settings)
        self.follow(Gpu, self.places)
        self.follow(Agent, self.places)
        self.asks = self.follow(Lease, Asks())
        self.memo = self.follow(Lease, Memo())
        self.forecasts = Forecasts()
        self.agenda = BookAgenda(self.class_hours)
        """What windows hold on which GPU, and when."""
        self.follow(Window, FollowWindows(self.agenda))
        self.follow(Seat, FollowSeats(self.agenda))

    def follow(self, kind: type[R], follower: F) -> F:
        """Tell ``follower`` of all rows of the table, and of every change from now on."""
        for row in self._tables[kind].values():
            follower.change(None, row)
        self._followers[kind].append(follower)
        return follower

    def put(self, row: R) -> R:
        """The row is in its table from now on, in place of the one with its key."""
        kind = type(row)
        key = KEYS[kind](row)
        before = self._tables[kind].get(key)
        self._journal.append((kind, key, before))
        self._set(kind, key, before, row)
        return row

    def drop(self, row: Row) -> None:
        """There is no row of this key any more. Raises ``KeyError`` where there was none."""
        kind = type(row)
        key = KEYS[kind](row)
        before = self._tables[kind][key]
        self._journal.append((kind, key, before))
        self._set(kind, key, before, None)

    def _set(self, kind: Any, key: Key, before: Row | None, after: Row | None) -> None:
        if after is None:
            del self._tables[kind][key]
        else:
            self._tables[kind][key] = after
        try:
            for follower in self._followers[kind]:
                follower.change(before, after)
        except BaseException:
            self.torn = True
            raise

    def load(self, loaded: Iterable[Row], last_event: int) -> None:
        """Take in rows as a store has them; there is nothing to undo, and nothing to write."""
        for row in loaded:
            kind = type(row)
            self._set(kind, KEYS[kind](row), None, row)
        self.last_event = last_event

    def add_event(self, at: int, actor: str, kind: str, subject: str, detail: Mapping[str, Any]) -> None:
        self.last_event += 1
        self.put(Event(id=self.last_event, at=at, actor=actor, kind=kind, subject=subject, detail=detail))

    def mark(self) -> int:
        """Where the book is now, for ``undo_to``."""
        return len(self._journal)

    def undo_to(self, mark: int) -> None:
        """Be as at the mark."""
        journal = self._journal
        while len(journal) > mark:
            kind, key, before = journal.pop()
            now = self._tables[kind].get(key)
            if kind is Event:
                self.last_event = key - 1
            if now is not None or before is not None:
                self._set(kind, key, now, before)

    def changes(self) -> list[Change]:
        """What the batch changed, each row once, in an order in which it may be written row by row."""
        first: dict[tuple[type[Row], Key], Row | None] = {}
        for kind, key, before in self._journal:
            first.setdefault((kind, key), before)
        found = [
            Change(before, after)
            for (kind, key), before in first.items()
            if (after := self._tables[kind].get(key)) is not before and after != before
        ]
        return sorted(found, key=_written)

    def settle(self) -> None:
        """The batch is over, and what it changed is in the store: nothing of it can be undone any more."""
        self._journal.clear()
        self.events.clear()

    def forget(self, before: int, most: int) -> int:
        """Leave final leases that ended before that time, and their slices, to the store; how many."""
        leases = [self.leases[key] for key in self.forgettable.by(before, most)]
        for lease in leases:
            for key, part in list(self.slices_of.of(lease.id).items()):
                self._set(Slice, key, part, None)
            self._set(Lease, lease.id, lease, None)
        return len(leases)

    def in_slot(self, user: str, server: str, path: str) -> dict[Place, Lease]:
        """The living leases of a slot, by their place."""
        found = ((place, self.by_place.get((user, server, path, place))) for place in Place)
        return {place: lease for place, lease in found if lease is not None}

    def parts(self, lease: Lease) -> list[Slice]:
        """The lease's slices, by GPU id; of a forgotten lease none."""
        return sorted(self.slices_of.of(lease.id).values(), key=attrgetter("gpu_id"))


def _live_key(lease: Lease) -> tuple[str, str] | None:
    return None if lease.live_key is None else (lease.user, lease.live_key)


def _place(lease: Lease) -> tuple[str, str, str, str] | None:
    return None if lease.place is None else (lease.user, lease.server, lease.path, lease.place)


def _server(lease: Lease) -> tuple[str, str] | None:
    return None if lease.place is None else (lease.user, lease.server)


def _agent_in(states: frozenset[State]) -> Callable[[Lease], str | None]:
    return lambda lease: lease.agent_name if lease.state in states else None


def _turn(lease: Lease) -> tuple[int, str] | None:
    return (lease.turn, lease.id) if lease.state == State.QUEUED else None


def _over_at(lease: Lease) -> int | None:
    if lease.state not in IN_FORCE or lease.expires_at is None:
        return None
    return lease.expires_at if lease.ends_at is None else min(lease.expires_at, lease.ends_at)


def _ended_at(lease: Lease) -> int | None:
    return lease.ended_at if lease.state in FINAL else None


def _claimed(gpu: Gpu) -> str | None:
    return gpu.uuid if gpu.offered or gpu.used_mib else None


def _open_gpu(part: Slice) -> int | None:
    return part.gpu_id if part.ended_at is None else None


def _written(change: Change) -> tuple[bool, int, int]:
    """Drops first, from the last table to the first; then puts, from the first to the last."""
    row = change.after or change.before
    assert row is not None
    table = TABLES.index(type(row))
    if isinstance(row, Account):
        below = KINDS.index(row.kind)
        return change.after is not None, table if change.after else -table, below if change.after else -below
    if change.after is None:
        return False, -table, 0
    if not isinstance(change.after, Lease):
        return True, table, 0
    return True, table, WRITTEN[None if change.after.place is None else Place(change.after.place)]
