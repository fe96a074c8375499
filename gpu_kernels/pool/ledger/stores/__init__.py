"""Where a book is kept: the protocol between the ledger and its stores.

A store keeps the rows of ``rows.TABLES`` and knows no rule of the pool. One thread uses it for everything
between ``open`` and ``close``, but for the *history*: those methods may be called from any thread, at any
time, and read what is committed. Every method raises ``LedgerUnavailable`` where the store cannot be read
or written (``commit`` raises its subclass ``OutcomeUnknown``, see there); ``NewerDatabase`` and other
errors of a start are the store's own.

The life of a store: ``open``, ``lead``, then ``begin``, ``load``, ``commit``; from then on one transaction
for each batch: ``begin``, ``write`` (not where nothing changed), ``commit`` or ``rollback``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gpu_kernels.errors import NotActive
from gpu_kernels.pool.ledger.state.rows import Change, Event, Lease, Row, Slice

MOST_ROWS = 5000
"""The longest page of history."""


class Deposed(NotActive):
    """Another controller has taken the term, or holds it; this one must not decide.

    ``details["address"]``: where the active controller is, where that is known.
    """


@dataclass(frozen=True, slots=True)
class Leading:
    """The term under which this controller decides. ``incarnation`` is random, and new with every term:
    agents count by it.
    """

    term: int
    incarnation: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a book begins with. ``rows``: every table but events; of leases and slices see ``load``.
    ``last_event``: the highest ``Event.id`` ever given, 0 for none.
    """

    rows: Iterable[Row]
    last_event: int


@dataclass(frozen=True, slots=True)
class EndedLease:
    lease: Lease
    slices: tuple[Slice, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows of history, newest first; ``cursor`` asks for the next ones, None after the last."""

    rows: tuple[Any, ...]
    cursor: str | None


class Store(Protocol):
    """A store of one ledger. It gives out no row that it still changes: rows are frozen."""

    def open(self) -> None:
        """Connect, and bring the schema up to this code's. Harmless when repeated."""

    def lead(self, holder: str, address: str, *, alone: bool = False) -> Leading:
        """Take the next term. Raises ``Deposed`` while another controller's term is not over.

        ``alone``: whoever held the last term is known to be dead (the caller holds the lock of the state
        folder, say), so its term is over.
        """

    def begin(self, *, writes: bool = True) -> int:
        """Begin a transaction, and tell its time: milliseconds since 1970 by the store's clock. Raises
        ``Deposed`` where the term is not this controller's any more.

        ``writes``: as the one writer, and the term is renewed where that is due; otherwise nothing is written
        in it, and it waits for no writer.
        """

    def load(self, ended_since: int) -> Loaded:
        """All rows that a book needs, within a transaction: everything but final leases that ended before
        ``ended_since``, the closed slices of leases that are not returned, and events.
        """

    def write(self, changes: Sequence[Change]) -> None:
        """Write rows within a transaction, each row at most once.

        ``changes`` are in an order in which every constraint holds row by row if they are written in that
        order. ``before`` is what the store has, so only what differs from it need be written. A broken
        constraint is a bug and not a refusal: it raises what the database raises.
        """

    def commit(self) -> None:
        """End the transaction; what was written is safe from a power cut. Raises ``OutcomeUnknown`` where
        it cannot be known whether it is; any other error means that nothing was written.
        """

    def rollback(self) -> None:
        """End the transaction as if it had not been. Never raises, also where none is under way."""

    def renew_term(self) -> None:
        """Renew the term within a transaction, for times in which nothing is written."""

    def close(self) -> None:
        """Give the term up, so that a standby need not wait for its end, and disconnect."""

    def prune(self, before: int, most_events: int, batch: int) -> bool:
        """Forget, within a transaction, at most ``batch`` final leases that ended before that time with
        nothing of their slices (these are accounts, and stay), and at most ``batch`` events: those from
        before that time, and the oldest beyond ``most_events``, but never the newest, whose number must not
        be given again. True where there may be more.
        """

    # History: from any thread.

    def find_lease(self, lease_id: str) -> EndedLease | None:
        """A lease by its id, ended or not."""

    def ended_leases(
        self,
        *,
        user: str | None = None,
        course: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page:
        """Final leases (``EndedLease``), by ``created_at`` and id."""

    def usage(
        self,
        *,
        since: int,
        until: int,
        user: str | None = None,
        course: str | None = None,
        cursor: str | None = None,
        limit: int = 1000,
    ) -> Page:
        """The accounts (``Slice``) that were open at any time in [since, until), by ``started_at``, lease and
        GPU.
        """

    def events(
        self,
        *,
        subject: str | None = None,
        kind: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page:
        """The audit trail (``Event``), by id."""

    def events_after(self, last: int, limit: int = 1000) -> Sequence[Event]:
        """Events with a higher id than ``last``, oldest first."""

    def held(self) -> Mapping[int, tuple[int, int]]:
        """MiB and thousandths of the open slices by GPU id, summed by the store itself; for the audit."""
