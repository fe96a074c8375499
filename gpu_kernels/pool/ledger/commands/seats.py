"""A member's way onto a seat, and the seat's way back.

A seat is ``planned`` until its class starts, then ``held``, ``taken`` while a lease has it, and held again
once that lease's slice is confirmed free. What it gives its lease counts beside the course's quota and its
rules, as long as the window is open: ``Lease.window`` names the window for that time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from gpu_kernels.errors import PoolFull
from gpu_kernels.pool.ledger.queries.agenda import stays
from gpu_kernels.pool.ledger.queries.rules import longest_life
from gpu_kernels.pool.ledger.queries.scene import policy_gpu
from gpu_kernels.pool.ledger.state.capacity import takes_slices
from gpu_kernels.pool.ledger.state.rows import Lease, Seat
from gpu_kernels.pool.ledger.state.states import ENDING, IN_FORCE
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.agenda_model import Seating, Span
from gpu_kernels.pool.policy.model import Gpu, Placement
from gpu_kernels.units import Slice, slice_of

MOST_CLEARED = 2
"""Seats of one user that are being cleared: one restart after another need not wait."""


def seat_for(tx: Transaction, lease: Lease) -> tuple[Lease, Placement] | None:
    """Take a free seat of the course's class for a request, if its class is on and the request is of the
    seats' size; the lease with its window, and where it goes. The caller grants it.

    From the lead time on a member who comes early gets a seat whose slice nobody uses. One student has one
    seat; for a kernel that replaces one on a seat, the two may overlap as any two. Who has left seats that
    are not clear yet waits for one of these, or a script could take a whole class's.
    """
    if not len(tx.book.agenda):
        return None
    for span in windows_for(tx, lease):
        if _being_cleared(tx, lease.user, span) >= MOST_CLEARED:
            continue
        number = tx.book.agenda.free_seat(span.id, partial(_usable, tx, lease, span))
        if number is not None:
            return _take(tx, lease, tx.book.seats[span.id, number])
    return None


def windows_for(tx: Transaction, lease: Lease) -> list[Span]:
    """The windows whose seats the request's user may have now, the one that is over first in front."""
    spans = [span for span in tx.book.agenda.in_lead(tx.now) if span.course == lease.course]
    spans = [span for span in spans if tx.now < span.ends_at and not _sits(tx, lease, span)]
    return sorted(spans, key=lambda span: (span.starts_at > tx.now, span.ends_at, span.rank))


def _sits(tx: Transaction, lease: Lease, span: Span) -> bool:
    """Whether the user has a seat of the window in another slot."""
    slot = (lease.server, lease.path)
    return any(
        other.window == span.id and other.state in IN_FORCE and (other.server, other.path) != slot
        for other in tx.book.living.of(lease.user).values()
    )


def _being_cleared(tx: Transaction, user: str, span: Span) -> int:
    """The seats of the window that ended leases of the user are still on."""
    seats = (seat for seat in tx.book.seats_of.of(span.id).values() if seat.state == "taken")
    leases = (tx.book.leases.get(seat.lease_id or "") for seat in seats)
    return sum(lease is not None and lease.user == user and lease.state in ENDING for lease in leases)


def own_seat_would_do(tx: Transaction, lease: Lease, in_slot: Iterable[Lease]) -> bool:
    """Whether the request can have the seat of a lease in its own slot, once that lease is over."""
    windows = {span.id for span in windows_for(tx, lease)}
    return any(old.window in windows and old.size == lease.size and old.state in IN_FORCE for old in in_slot)


def coming_seats(tx: Transaction, lease: Lease) -> int:
    """How many seats the request's user could have but for what is still on them: leases that are over and
    not confirmed yet, or, before the start, leases that make way then.
    """
    if not len(tx.book.agenda):
        return 0
    spans = windows_for(tx, lease)
    seats = [seating for span in spans for seating in tx.book.agenda.seats(span.id).values()]
    return sum(_matches(tx, lease, seating) for seating in seats)


def not_clear_yet(course: str, seats: int) -> PoolFull:
    """The refusal of a member whose seat is not free yet, and who will not wait for it."""
    return PoolFull(
        f"The class of {course} has {seats} seats for you and others, and they are being cleared: what ran "
        "there before has not stopped yet.\n"
        "Try again in a few seconds.",
        retry_after=5.0,
        details={"course": course, "seats": seats},
    )


def _matches(tx: Transaction, lease: Lease, seating: Seating) -> bool:
    """Whether the seat is of the request's size, on a server that answers."""
    row, size = tx.book.gpus[seating.gpu_id], lease.size
    if not takes_slices(row) or size.gpu_class not in (None, row.gpu_class) or size.count > 1:
        return False
    gpu = policy_gpu(tx, row)
    return gpu.answering and slice_of(size, gpu.allocatable_mib) == seating.part


def _usable(tx: Transaction, lease: Lease, span: Span, seating: Seating) -> bool:
    """Whether the request may have that seat now, and its slice is really free."""
    if not _matches(tx, lease, seating):
        return False
    gpu = policy_gpu(tx, tx.book.gpus[seating.gpu_id])
    if not gpu.holds(seating.part):
        return False
    return span.starts_at <= tx.now or _free_until_the_start(tx, gpu, seating.part, span)


def _free_until_the_start(tx: Transaction, gpu: Gpu, part: Slice, span: Span) -> bool:
    """Whether one who comes early takes nothing from a class that is on until then."""
    agenda, free = tx.book.agenda, _free(gpu)
    held = agenda.held_at(gpu.id, tx.now)
    if part.mib > free.mib - held.mib or part.thousandths > free.thousandths - held.thousandths:
        return False
    at = agenda.preempt_at(gpu.id, part, free, tx.now, span.starts_at, stays(tx), seated=True)
    return at is None or at >= span.starts_at


def _take(tx: Transaction, lease: Lease, seat: Seat) -> tuple[Lease, Placement]:
    tx.change(seat, state="taken", lease_id=lease.id)
    gpu = policy_gpu(tx, tx.book.gpus[seat.gpu_id])
    part = Slice(seat.mib, seat.thousandths)
    until = tx.now + longest_life(tx, lease.course)
    preempt_at = tx.book.agenda.preempt_at(gpu.id, part, _free(gpu), tx.now, until, stays(tx), seated=True)
    tx.event(lease.user, "seated", lease.id, {"window": seat.window, "seat": seat.number})
    return replace(lease, window=seat.window), Placement(gpu.agent, gpu.gpu_class, ((gpu, part),), preempt_at)


def _free(gpu: Gpu) -> Slice:
    return Slice(gpu.free_mib, gpu.free_thousandths)


def give_back(tx: Transaction, lease: Lease) -> None:
    """The lease's slice is confirmed free: its seat, if it has one, is held for a member again.

    Called in the transaction that frees the slice, so that nobody else gets it in between.
    """
    if lease.window is None:
        return
    for seat in list(tx.book.seats_of.of(lease.window).values()):
        if seat.state == "taken" and seat.lease_id == lease.id:
            window = tx.book.windows[lease.window]
            tx.change(seat, state="held" if window.state == "open" else "planned")
