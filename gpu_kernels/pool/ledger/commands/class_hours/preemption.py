"""Who stands on a seat when a class begins makes way, and is told of it beforehand."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_kernels.pool.ledger.commands.termination import ASK_ANEW, revoke
from gpu_kernels.pool.ledger.queries.agenda import stays
from gpu_kernels.pool.ledger.state.rows import Lease
from gpu_kernels.pool.ledger.state.states import IN_FORCE, Who
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.agenda_model import FOREVER
from gpu_kernels.units import THOUSANDTHS, Slice
from gpu_kernels.vocabulary import calendar

CONTROLLER = "controller"


def make_way(tx: Transaction) -> tuple[int, set[int]]:
    """Take back what was granted until now and stands on seats, the latest granted first; how many leases,
    and the GPUs of those that may stay after all.
    """
    made_way = 0
    asked: set[int] = set()
    windows = [span.id for span in tx.book.agenda.started(tx.now)]
    gpus = {seat.gpu_id for window in windows for seat in tx.book.seats_of.of(window).values()}
    for gpu_id in sorted(gpus):
        leases = _in_force(tx, gpu_id)
        due = [lease for lease in leases if lease.preempt_at is not None and lease.preempt_at <= tx.now]
        for lease in sorted(due, key=lambda lease: (lease.granted_at or 0, lease.epoch), reverse=True):
            if not _too_full(tx, gpu_id):
                asked.add(gpu_id)
                break
            revoke(tx, lease, who=Who.DECISION, actor=CONTROLLER, reason=_makes_way(tx, gpu_id))
            made_way += 1
    return made_way, asked


def _in_force(tx: Transaction, gpu_id: int) -> list[Lease]:
    leases = (tx.book.leases[part.lease_id] for part in tx.book.held.of(gpu_id).values())
    return [lease for lease in leases if lease.state in IN_FORCE]


def _too_full(tx: Transaction, gpu_id: int) -> bool:
    """Whether leases in force stand on seats of the GPU."""
    gpu = tx.book.gpus[gpu_id]
    seats = tx.book.agenda.held_at(gpu_id, tx.now)
    parts = [
        part for part in tx.book.held.of(gpu_id).values() if tx.book.leases[part.lease_id].state in IN_FORCE
    ]
    mib = seats.mib + sum(part.mib for part in parts)
    thousandths = seats.thousandths + sum(part.thousandths for part in parts)
    return mib > gpu.offered_mib or thousandths > THOUSANDTHS


def _makes_way(tx: Transaction, gpu_id: int) -> str:
    """The reason, for its student. It names the class that is on."""
    for span in tx.book.agenda.started(tx.now):
        if any(seating.gpu_id == gpu_id for seating in tx.book.agenda.seats(span.id).values()):
            class_hour = tx.book.class_hours[tx.book.windows[span.id].class_hour]
            since = calendar.clock_text(span.starts_at, class_hour.time_zone)
            return (
                f"Taken back: the class hour of {span.course} began at {since}, and this slice was granted "
                "until then.\n"
                f"{ASK_ANEW}"
            )
    return f"Taken back: a class hour began.\n{ASK_ANEW}"


def retell(tx: Transaction, gpus: Iterable[int]) -> None:
    """Put off, where it may be, when the leases on these GPUs make way: nobody is ever told an earlier time.

    The earliest granted are looked at first.
    """
    told = {lease.id: lease for gpu in gpus for lease in _in_force(tx, gpu) if lease.preempt_at is not None}
    for lease in sorted(told.values(), key=lambda lease: (lease.granted_at or 0, lease.epoch, lease.id)):
        later = makes_way_at(tx, lease)
        if lease.preempt_at is not None and (later is None or later > lease.preempt_at):
            tx.change(lease, preempt_at=later)
            tx.lease_changed(lease.id)


def makes_way_at(tx: Transaction, lease: Lease) -> int | None:
    """When what windows need from now on leaves no room for a lease in force; None: not in its life."""
    until = FOREVER if lease.ends_at is None else lease.ends_at
    first: int | None = None
    for part in tx.book.parts(lease):
        gpu = tx.book.gpus[part.gpu_id]
        own = Slice(part.mib, part.thousandths)
        free = Slice(
            gpu.offered_mib - gpu.used_mib + own.mib,
            THOUSANDTHS - gpu.used_thousandths + own.thousandths,
        )
        others = stays(tx, without=lease.id)
        at = tx.book.agenda.preempt_at(gpu.id, own, free, tx.now, until, others, seated=True)
        if at is not None:
            first = at if first is None else min(first, at)
    return first


def stays_longer(tx: Transaction, lease: Lease) -> Lease:
    """Tell a lease whose longest life has been put off (``outage.shift``) of a class hour that needs its
    slice now that it is to be there for longer: it could have stayed until then at the most anyway.
    """
    if lease.preempt_at is not None or not len(tx.book.agenda):
        return lease
    return tx.change(lease, preempt_at=makes_way_at(tx, lease))
