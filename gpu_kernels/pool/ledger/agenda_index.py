"""The agenda of a book: its windows and seats as ``policy.agenda`` sees them, and its leases and GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_kernels.pool.ledger.capacity import takes_slices
from gpu_kernels.pool.ledger.rows import ClassHour, Gpu, Lease, Seat, Window
from gpu_kernels.pool.ledger.states import ENDING
from gpu_kernels.pool.policy.agenda import Agenda
from gpu_kernels.pool.policy.agenda_model import FOREVER, Bench, Demand, Span, Stay, Stays
from gpu_kernels.units import Slice, parse_size

if TYPE_CHECKING:
    from gpu_kernels.pool.ledger.transaction import Transaction

LOST_AFTER = 120_000
"""Seats leave a server that has been silent for so long. Shorter silences are restarts and hiccups; a member
who comes in one gets another seat."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far windows are planned for the GPUs that are ``here``: those that start before ``next_start``, all
    of them for None. ``steady``: GPUs that have been the same since all windows were last planned.
    """

    here: tuple[Bench, ...] | None = None
    next_start: int | None = 0
    steady: frozenset[Bench] = frozenset()

    def begun_anew(self, here: tuple[Bench, ...]) -> Progress:
        return Progress(here, 0, self.steady & set(here))

    def gone_on(self, next_start: int | None) -> Progress:
        steady = frozenset(self.here or ()) if next_start is None else self.steady
        return Progress(self.here, next_start, steady)


class BookAgenda(Agenda):
    """Follows a book's windows and seats. A seat counts while it is planned or held; once taken, its lease
    counts instead.

    ``rolled_at`` and ``retried_at`` say when that was last done, ``planned`` for which GPUs the windows are
    planned. A new controller does it all once more.
    """

    def __init__(self, class_hours: Mapping[str, ClassHour]) -> None:
        super().__init__()
        self._class_hours = class_hours
        self.rolled_at = 0
        self.retried_at = 0
        self.planned = Progress()

    def window_changed(self, _: Window | None, after: Window | None, window: str) -> None:
        if after is not None and after.state in ("planned", "open"):
            self.put_window(span_of(after, self._class_hours[after.class_hour]))
        else:
            self.drop_window(window)

    def seat_changed(self, _: Seat | None, after: Seat | None, window: str, number: int) -> None:
        if after is not None and after.state in ("planned", "held"):
            self.put_seat(window, number, after.gpu_id, Slice(after.mib, after.thousandths))
        else:
            self.drop_seat(window, number)


class FollowWindows:
    """A follower of the windows' table."""

    def __init__(self, agenda: BookAgenda) -> None:
        self._agenda = agenda

    def change(self, before: Window | None, after: Window | None) -> None:
        row = after or before
        assert row is not None
        self._agenda.window_changed(before, after, row.id)


class FollowSeats:
    """A follower of the seats' table."""

    def __init__(self, agenda: BookAgenda) -> None:
        self._agenda = agenda

    def change(self, before: Seat | None, after: Seat | None) -> None:
        row = after or before
        assert row is not None
        self._agenda.seat_changed(before, after, row.window, row.number)


def span_of(window: Window, class_hour: ClassHour) -> Span:
    return Span(
        window.id,
        window.course,
        window.starts_at,
        window.ends_at,
        window.lead_at,
        (class_hour.created_at, window.id),
    )


def demand_of(tx: Transaction, window: Window) -> Demand:
    """What the window wants of the seats that it does not have. Once its late time is over, it wants no more
    than it has left.

    A seat whose lease is over on a server that is lost is wanted anew: nobody knows when it is free.
    """
    class_hour = tx.book.class_hours[window.class_hour]
    seats = tx.book.seats_of.of(window.id)
    taken = frozenset(number for number, seat in seats.items() if seat.state == "taken")
    wanted = len(seats) if window.state == "open" and window.late_at <= tx.now else class_hour.seats
    lost = lost_seats(tx, window)
    return Demand(span_of(window, class_hour), parse_size(class_hour.size), wanted, taken - lost)


def lost_seats(tx: Transaction, window: Window) -> frozenset[int]:
    """The numbers of the window's taken seats that nobody can sit on any more."""
    seats = tx.book.seats_of.of(window.id)
    return frozenset(n for n, seat in seats.items() if seat.state == "taken" and _lost(tx, seat))


def _lost(tx: Transaction, seat: Seat) -> bool:
    lease = tx.book.leases.get(seat.lease_id or "")
    over = lease is None or lease.state in ENDING
    return over and not bears_seats(tx, tx.book.gpus[seat.gpu_id])


def bears_seats(tx: Transaction, gpu: Gpu) -> bool:
    """Whether seats may be planned on the GPU: its server is there, and takes what is new."""
    agent = tx.book.agents[gpu.agent_name]
    heard = max(agent.reported_at, tx.watched_since)
    return takes_slices(gpu) and agent.standing == "open" and tx.now < heard + LOST_AFTER


def benches(tx: Transaction) -> tuple[Bench, ...]:
    """The GPUs that seats may be planned on, by id."""
    return tuple(
        Bench(gpu.id, gpu.gpu_class, gpu.offered_mib, until=_or_never(agent.ends_at))
        for _, gpu in sorted(tx.book.gpus.items())
        if bears_seats(tx, gpu) and (agent := tx.book.agents[gpu.agent_name])
    )


def stays(tx: Transaction, *, without: str | None = None, ending: int = FOREVER) -> Stays:
    """The leases on each GPU as the agenda sees them, but for ``without``; as they are when first asked for.

    ``ending``: until when what has ended and is not confirmed may be there; nobody knows that, so a
    decision of now waits for it, and a plan for later does not.
    """

    known: dict[int, tuple[Stay, ...]] = {}

    def on(gpu_id: int) -> tuple[Stay, ...]:
        found = known.get(gpu_id)
        if found is None:
            found = known[gpu_id] = tuple(_stays(tx, gpu_id, without, ending))
        return found

    return on


def _stays(tx: Transaction, gpu_id: int, without: str | None, ending: int) -> Iterator[Stay]:
    for part in tx.book.held.of(gpu_id).values():
        lease = tx.book.leases[part.lease_id]
        if lease.id != without:
            until = ending if lease.state in ENDING else leaves_at(lease)
            yield Stay(Slice(part.mib, part.thousandths), until)


def leaves_at(lease: Lease) -> int:
    """When the lease is off its GPU at the latest, as it was told."""
    return min(_or_never(lease.ends_at), _or_never(lease.preempt_at))


def _or_never(at: int | None) -> int:
    return FOREVER if at is None else at
