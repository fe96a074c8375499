"""The clock's part of class hours: windows come into sight, open, and are over; seats move, and return to
the pool.

``advance`` does what is due by the store's time, and nothing twice: each step asks what is, not what was
done last. So it is right after a controller was away over a start, or over a whole class.

    planned --start--> open --end--> over        cancelled: by a person, at any time before

From a window's lead time on nothing new is placed on its seats (the agenda says so by the time alone). At
its start its seats are held, and pre-emptible leases that stand on them make way. What an ended lease still
has of a seat's GPU then is not taken from under it: that seat is free for a member as soon as the lease's
server has confirmed its end.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from gpu_kernels.pool.ledger.commands.class_hours.preemption import CONTROLLER, make_way, retell
from gpu_kernels.pool.ledger.queries.agenda import benches, demand_of, lost_seats, stays
from gpu_kernels.pool.ledger.state.rows import ClassHour, Seat, Window
from gpu_kernels.pool.ledger.state.states import IN_FORCE
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.agenda_model import FOREVER, Demand, Seating
from gpu_kernels.pool.policy.seating import replan
from gpu_kernels.units import Slice
from gpu_kernels.vocabulary import calendar

log = logging.getLogger("gpu_kernels.pool")
DAY = 86_400_000
HORIZON = 26 * 7 * DAY
"""How far ahead meetings have windows with seats: longer than any term."""
ROLL_EVERY = 3_600_000
RETRY_EVERY = 60_000
"""How often a window that is short, and starts within a day, is looked at for what has come free."""
PLAN_BATCH = 2000
"""So many seats are planned anew in one sweep."""
REMEMBER = 30 * DAY
"""Windows that are over stay in the ledger for so long."""


def advance(tx: Transaction) -> int:
    """Do what is due; how many leases made way. Called by every sweep."""
    if tx.now - tx.book.agenda.rolled_at >= ROLL_EVERY:
        _roll(tx)
    if not len(tx.book.agenda):
        return 0
    freed = _close(tx)
    _replan(tx)
    _open(tx)
    freed |= _flow_back(tx)
    made_way, asked = make_way(tx)
    retell(tx, freed | asked)
    return made_way


# Windows come into sight, and leave it


def _roll(tx: Transaction) -> None:
    _forget(tx)
    for class_hour in list(tx.book.class_hours.values()):
        if class_hour.cancelled_at is None and class_hour.course not in tx.book.accounts:
            give_up(tx, class_hour, actor=CONTROLLER)
        elif class_hour.cancelled_at is None and calendar.zone_if_known(class_hour.time_zone) is None:
            log.error(
                "class hour %s gets no new meetings: this machine knows no time zone %s",
                class_hour.id, class_hour.time_zone,
            )  # fmt: skip
        elif class_hour.cancelled_at is None and not _is_past(tx, class_hour):
            new = missing(tx, class_hour)
            plan(tx, [demand_of(tx, window) for window in new])
    agenda, now = tx.book.agenda, tx.now
    tx.when_committed(lambda: setattr(agenda, "rolled_at", now))


def _is_past(tx: Transaction, class_hour: ClassHour) -> bool:
    return not any(True for _ in calendar.meetings(class_hour, tx.now, FOREVER))


def missing(tx: Transaction, class_hour: ClassHour) -> list[Window]:
    """Put the windows of the class hour's meetings up to the horizon that are not there yet."""
    known = tx.book.windows_of.of(class_hour.id)
    new = []
    for meeting in calendar.meetings(class_hour, tx.now, tx.now + HORIZON):
        window = window_id(class_hour, meeting.date)
        if window not in known and tx.now < meeting.late_at:
            row = Window(
                id=window,
                class_hour=class_hour.id,
                course=class_hour.course,
                starts_at=meeting.starts_at,
                ends_at=meeting.ends_at,
                lead_at=meeting.lead_at,
                late_at=meeting.late_at,
            )
            new.append(tx.put(row))
    return new


def window_id(class_hour: ClassHour, date: str) -> str:
    return f"{class_hour.id}.{date}"


def _forget(tx: Transaction) -> None:
    """Drop what has been over for long: windows, then class hours that were cancelled."""
    for window in list(tx.book.windows.values()):
        if window.state in ("over", "cancelled") and window.ends_at < tx.now - REMEMBER:
            tx.drop(window)
    for class_hour in list(tx.book.class_hours.values()):
        cancelled = class_hour.cancelled_at is not None and class_hour.cancelled_at < tx.now - DAY
        if cancelled and not tx.book.windows_of.of(class_hour.id):
            tx.drop(class_hour)


# Seats are planned


def plan(tx: Transaction, demands: Collection[Demand]) -> set[int]:
    """Plan the seats of these windows anew, and put what came out; the GPUs of seats that changed."""
    if not demands:
        return set()
    waiting = stays(tx, ending=tx.now)
    found = replan(tx.book.agenda, demands, benches(tx), waiting, now=tx.now)
    changed: set[int] = set()
    for demand in demands:
        changed |= put_seats(tx, demand, found[demand.span.id])
    return changed


def put_seats(tx: Transaction, demand: Demand, wanted: Mapping[int, Seating]) -> set[int]:
    """Let the window have these seats beside those that are taken; the GPUs of seats that changed."""
    window = tx.book.windows[demand.span.id]
    changed: set[int] = set()
    for number, seat in list(tx.book.seats_of.of(window.id).items()):
        if number not in demand.taken and wanted.get(number) != _seating(seat):
            tx.drop(seat)
            changed.add(seat.gpu_id)
    for number, seating in wanted.items():
        if (window.id, number) not in tx.book.seats:
            tx.put(
                Seat(
                    window=window.id,
                    number=number,
                    gpu_id=seating.gpu_id,
                    mib=seating.part.mib,
                    thousandths=seating.part.thousandths,
                    state="held" if window.state == "open" else "planned",
                )
            )
            changed.add(seating.gpu_id)
    short = max(0, demand.seats - len(wanted) - len(demand.taken))
    if short != window.short:
        tx.change(window, short=short)
        tx.event(CONTROLLER, "class_hour_short", window.id, {"from": window.short, "to": short})
    return changed


def _seating(seat: Seat) -> Seating:
    return Seating(seat.gpu_id, Slice(seat.mib, seat.thousandths))


def _replan(tx: Transaction) -> None:
    """Move seats when GPUs have come or gone, and look for those that a window lacks.

    After a change of GPUs it goes through the windows by their starts, some at a time, so that nobody waits
    long for it: the next ones are ready first.
    """
    agenda, now, here = tx.book.agenda, tx.now, benches(tx)
    progress = agenda.planned if agenda.planned.here == here else agenda.planned.begun_anew(here)
    if progress.next_start is not None:
        windows, following = _some(tx, progress.next_start)
        steady = {bench.id for bench in progress.steady}
        if any(window.short or _is_elsewhere(tx, window, steady) for window in windows):
            retell(tx, plan(tx, [demand_of(tx, window) for window in windows]))
        done = progress.gone_on(following)
        tx.when_committed(lambda: setattr(agenda, "planned", done))
    elif now - agenda.retried_at >= RETRY_EVERY:
        soon = [tx.book.windows[span.id] for span in agenda.spans(now, now + DAY)]
        plan(tx, [demand_of(tx, window) for window in soon if window.short or lost_seats(tx, window)])
        tx.when_committed(lambda: setattr(agenda, "retried_at", now))


def _some(tx: Transaction, since: int) -> tuple[list[Window], int | None]:
    """The windows that start from ``since`` on, some ``PLAN_BATCH`` seats, up to a time when none is open;
    and where to go on, None where these are the last.
    """
    windows: list[Window] = []
    seats = last_end = 0
    for span in tx.book.agenda.spans(tx.now):
        if span.starts_at < since:
            continue
        if seats >= PLAN_BATCH and span.starts_at >= last_end:
            return windows, span.starts_at
        window = tx.book.windows[span.id]
        windows.append(window)
        seats += tx.book.class_hours[window.class_hour].seats
        last_end = max(last_end, span.ends_at)
    return windows, None


def _is_elsewhere(tx: Transaction, window: Window, gpus: Collection[int]) -> bool:
    return any(seat.gpu_id not in gpus for seat in tx.book.seats_of.of(window.id).values())


# A window opens, and is over


def _open(tx: Transaction) -> None:
    for span in tx.book.agenda.started(tx.now):
        window = tx.book.windows[span.id]
        if window.state != "planned":
            continue
        tx.change(window, state="open")
        seats = list(tx.book.seats_of.of(window.id).values())
        for seat in seats:
            if seat.state == "planned":
                tx.change(seat, state="held")
        tx.event(CONTROLLER, "class_hour_open", window.id, {"seats": len(seats), "short": window.short})
        tx.capacity_changed()


def _close(tx: Transaction) -> set[int]:
    """End the windows whose time is over; the GPUs that their seats were on."""
    freed: set[int] = set()
    for span in tx.book.agenda.started(tx.now):
        if span.ends_at <= tx.now:
            freed |= close(tx, tx.book.windows[span.id], "over")
    return freed


def close(tx: Transaction, window: Window, state: str) -> set[int]:
    """Give up a window: what its members have is theirs as any lease is, the rest returns to the pool."""
    seats = list(tx.book.seats_of.of(window.id).values())
    taken = 0
    for seat in seats:
        lease = tx.book.leases.get(seat.lease_id or "")
        if seat.state == "taken" and lease is not None:
            taken += 1
            if lease.state in IN_FORCE:
                tx.change(lease, window=None)
                tx.lease_changed(lease.id)
        tx.drop(seat)
    tx.change(window, state=state)
    tx.event(CONTROLLER, f"class_hour_{state}", window.id, {"seats": len(seats), "taken": taken})
    tx.capacity_changed()
    return {seat.gpu_id for seat in seats}


def give_up(tx: Transaction, class_hour: ClassHour, *, actor: str) -> ClassHour:
    """Cancel a class hour, and give all of its seats back."""
    class_hour = tx.change(class_hour, cancelled_at=tx.now)
    freed: set[int] = set()
    for window in list(tx.book.windows_of.of(class_hour.id).values()):
        if window.state in ("planned", "open"):
            freed |= close(tx, window, "cancelled")
    retell(tx, freed)
    tx.event(actor, "class_hour_cancelled", class_hour.id, {"course": class_hour.course})
    return class_hour


def _flow_back(tx: Transaction) -> set[int]:
    """Return the seats that nobody came for, and that nobody has come back to, in time."""
    freed: set[int] = set()
    for span in tx.book.agenda.started(tx.now):
        window = tx.book.windows[span.id]
        if window.late_at > tx.now:
            continue
        late = [
            seat
            for seat in tx.book.seats_of.of(window.id).values()
            if seat.state == "held" and _held_until(tx, window, seat) <= tx.now
        ]
        for seat in late:
            tx.drop(seat)
        if late:
            freed |= {seat.gpu_id for seat in late}
            tx.event(CONTROLLER, "class_hour_returned", window.id, {"seats": len(late)})
            tx.capacity_changed()
    return freed


def _held_until(tx: Transaction, window: Window, seat: Seat) -> int:
    """A seat whose lease is over is held for as long again as it was at the start: its student may be
    between two notebooks.
    """
    last = tx.book.leases.get(seat.lease_id or "")
    if last is None or last.ended_at is None:
        return window.late_at
    return max(window.late_at, last.ended_at + window.late_at - window.starts_at)
