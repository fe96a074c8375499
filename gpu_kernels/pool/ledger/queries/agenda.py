"""What the agenda is asked with: what windows want, and the leases and GPUs that are there."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_kernels.pool.ledger.state.capacity import takes_slices
from gpu_kernels.pool.ledger.state.indexes.agenda import span_of
from gpu_kernels.pool.ledger.state.rows import Gpu, Lease, Seat, Window
from gpu_kernels.pool.ledger.state.states import ENDING
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.agenda_model import FOREVER, Bench, Demand, Stay, Stays
from gpu_kernels.units import Slice

LOST_AFTER = 120_000
"""Seats leave a server that has been silent for so long. Shorter silences are restarts and hiccups; a member
who comes in one gets another seat."""


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
    return Demand(span_of(window, class_hour), class_hour.size, wanted, taken - lost)


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
