"""Class hours as people make, change and cancel them: seats that are really there when a class starts.

A class hour is confirmed as a whole: either every meeting within the horizon has all of its seats on named
GPUs, or it is refused with how many would fit, who is there, and when there would be room. What is
confirmed is only ever lost with a GPU.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpu_kernels.errors import (
    Conflict,
    InvalidRequest,
    TooMany,
    UnknownClassHour,
    UnknownCourse,
)
from gpu_kernels.pool.ledger.commands.class_hours.cap import check_booked
from gpu_kernels.pool.ledger.commands.class_hours.preemption import retell
from gpu_kernels.pool.ledger.commands.class_hours.refusals import LOOK_AROUND, Trial, full
from gpu_kernels.pool.ledger.commands.class_hours.windows import HORIZON, close, give_up, put_seats, window_id
from gpu_kernels.pool.ledger.queries.agenda import benches, demand_of, stays
from gpu_kernels.pool.ledger.queries.courses import CourseNames
from gpu_kernels.pool.ledger.state.indexes.agenda import span_of
from gpu_kernels.pool.ledger.state.rows import ClassHour, Window
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy import refusals
from gpu_kernels.pool.policy.agenda import Agenda
from gpu_kernels.pool.policy.agenda_model import FOREVER, Demand, Plan, Seating
from gpu_kernels.pool.policy.seating import make_room, settle
from gpu_kernels.units import parse_size
from gpu_kernels.vocabulary import calendar
from gpu_kernels.vocabulary.roles import graded_course

MOST_IN_COURSE = 50
"""Class hours that are not over, of one course."""
MOST_PLANNED = 30_000
"""A class hour's seats in all meetings within the horizon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A class hour as a person writes it, its size a text; see ``rows.ClassHour``."""

    course: str
    size: str
    seats: int
    weekdays: str
    start: str
    minutes: int
    time_zone: str
    first_date: str
    last_date: str
    except_dates: tuple[str, ...] = ()
    lead_minutes: int = 10
    late_minutes: int = 15


def create(tx: Transaction, pattern: Pattern, *, actor: str) -> ClassHour:
    """Confirm a new class hour. Raises ``UnknownCourse``, ``InvalidRequest``, ``TooMany``,
    ``ClassHourFull``; a refusal changes nothing.
    """
    if pattern.course not in CourseNames(tx.book.accounts):
        raise UnknownCourse(
            f"There is no course {pattern.course[:100]} in the GPU pool.",
            details={"course": pattern.course[:255]},
        )
    if (taught := graded_course(pattern.course)) is not None:
        raise InvalidRequest(
            f"{pattern.course} is a grading account and has no class hours. Book them for {taught}.",
            details={"field": "course"},
        )
    _check_number(tx, pattern.course)
    row = ClassHour(
        id=secrets.token_hex(8), created_by=actor, created_at=tx.now,
        **_read({name: getattr(pattern, name) for name in Pattern.__slots__}),
    )  # fmt: skip
    row = _checked(tx, row)
    check_booked(tx, row)
    _confirm(tx, row, [])
    tx.event(actor, "class_hour_made", row.id, _said(row))
    return row


def _read(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A pattern's fields as those of a row. Raises ``InvalidSize``."""
    return {**fields, "size": parse_size(fields["size"])} if "size" in fields else dict(fields)


def _check_not_on(tx: Transaction, row: ClassHour) -> None:
    """Refuse to change the size of seats on which students sit."""
    for window in tx.book.windows_of.of(row.id).values():
        if window.state in ("planned", "open") and window.lead_at <= tx.now:
            until = calendar.clock_text(window.ends_at, row.time_zone)
            raise Conflict(
                f"The class is on until {until}; the size of its seats can be changed after that.",
                details={"window": window.id},
            )


CHANGEABLE = frozenset(Pattern.__slots__) - {"course"}


def change(tx: Transaction, class_hour: str, fields: Mapping[str, Any], *, actor: str) -> ClassHour:
    """Confirm a class hour anew with other ``fields`` (of ``CHANGEABLE``).

    Meetings whose lead time has come stay as they are, but for one that is left out: it is cancelled.
    Meetings that stay when they are keep their seats. Raises as ``create`` does, and then all stays as it
    was.
    """
    assert fields.keys() <= CHANGEABLE
    old = existing(tx, class_hour)
    row = _checked(tx, replace(old, **_read(fields)))
    if row.size != old.size:
        _check_not_on(tx, old)
    check_booked(tx, row, old)
    kept = [w for w in tx.book.windows_of.of(row.id).values() if w.state in ("planned", "open")]
    _confirm(tx, row, kept)
    tx.event(actor, "class_hour_changed", row.id, {"from": _said(old), "to": _said(row)})
    return row


def cancel(tx: Transaction, class_hour: str, *, actor: str) -> ClassHour:
    """Give all of its seats back. Who sits on one keeps it as an ordinary lease. Harmless when repeated."""
    row = tx.book.class_hours.get(class_hour)
    if row is None:
        raise _unknown(class_hour)
    return row if row.cancelled_at is not None else give_up(tx, row, actor=actor)


def existing(tx: Transaction, class_hour: str) -> ClassHour:
    """The class hour, unless it is cancelled. Raises ``UnknownClassHour``."""
    row = tx.book.class_hours.get(class_hour)
    if row is None or row.cancelled_at is not None:
        raise _unknown(class_hour)
    return row


def _unknown(class_hour: str) -> UnknownClassHour:
    return UnknownClassHour(f"There is no class hour {class_hour[:40]!r}.")


def _said(row: ClassHour) -> dict[str, Any]:
    """What the audit trail keeps of it."""
    said = {name: getattr(row, name) for name in Pattern.__slots__}
    return {**said, "size": str(row.size), "except_dates": list(row.except_dates)}


def _check_number(tx: Transaction, course: str) -> None:
    own = [c for c in tx.book.class_hours.values() if c.course == course and c.cancelled_at is None]
    own = [c for c in own if any(True for _ in calendar.meetings(c, tx.now, FOREVER))]
    if len(own) >= MOST_IN_COURSE:
        raise TooMany(
            f"{course} has {len(own)} class hours already, and no course may have more than "
            f"{MOST_IN_COURSE}.\nCancel one that is not needed.",
            details={"held": len(own), "limit": MOST_IN_COURSE},
        )


def _checked(tx: Transaction, row: ClassHour) -> ClassHour:
    """The class hour, the dates that it leaves out in order. Raises ``InvalidRequest``, ``NoSuchClass``."""
    calendar.check(row, size=row.size, seats=row.seats)
    if not any(True for _ in calendar.meetings(row, tx.now, FOREVER)):
        raise InvalidRequest(
            f"All meetings of this class hour would be over: the last date is {row.last_date}.",
            details={"field": "last_date"},
        )
    gpus = tx.book.places.index.gpus()
    gpu_class = row.size.gpu_class
    if gpus and gpu_class is not None and all(gpu.gpu_class != gpu_class for gpu in gpus):
        raise refusals.no_such_class(gpu_class, gpus)
    return replace(row, except_dates=tuple(sorted(set(row.except_dates))))


# Confirming: all of it or nothing


def _confirm(tx: Transaction, row: ClassHour, kept: Iterable[Window]) -> None:
    """Put the class hour and all that follows from it, or raise ``ClassHourFull``.

    ``kept``: its windows so far that are planned or open.
    """
    meetings = {window_id(row, m.date): m for m in calendar.meetings(row, tx.now, tx.now + HORIZON)}
    _check_seats(row, len(meetings))
    near = [(m.starts_at - LOOK_AROUND, m.ends_at + LOOK_AROUND) for m in meetings.values()]
    near += [(window.starts_at, window.ends_at) for window in kept]
    # Windows near by may move, and must find room beside all that is open at the same time as they are.
    near += [(s.starts_at, s.ends_at) for times in list(near) for s in tx.book.agenda.spans(*times)]
    around = tx.book.agenda.copy(*near) if near else Agenda()
    trial = Trial(around, benches(tx), stays(tx, ending=tx.now), tx.now, {}, {})
    days = {window_id(row, day.isoformat()) for day in calendar.dates(row)}
    running = {w.id for w in kept if w.lead_at <= tx.now and w.id in days}
    moved = [w for w in kept if w.id not in running and not _same(w, meetings.get(w.id))]
    for window in moved:
        trial.agenda.drop_window(window.id)
        for number in tx.book.seats_of.of(window.id):
            trial.agenda.drop_seat(window.id, number)
    wanted = [
        Window(
            id=window, class_hour=row.id, course=row.course, starts_at=m.starts_at, ends_at=m.ends_at,
            lead_at=m.lead_at, late_at=m.late_at,
        )
        for window, m in meetings.items()
        if window not in running and tx.now < m.late_at
    ]  # fmt: skip
    demands = [Demand(span_of(window, row), row.size, row.seats) for window in wanted]
    lacking = _seat_all(tx, trial, demands)
    if lacking:
        raise full(row, trial, demands, lacking)
    _put(tx, row, trial, wanted, moved)


def _check_seats(row: ClassHour, meetings: int) -> None:
    """Refuse more seats in all than one decision should take."""
    if row.seats * meetings > MOST_PLANNED:
        raise InvalidRequest(
            f"{row.seats} seats at {meetings} meetings within half a year are {row.seats * meetings} in all, "
            f"and one class hour may have {MOST_PLANNED}.\nEnd it earlier, and make another for the rest.",
            details={"field": "last_date"},
        )


def _same(window: Window, meeting: calendar.Meeting | None) -> bool:
    return meeting is not None and (window.starts_at, window.ends_at) == (meeting.starts_at, meeting.ends_at)


def _seat_all(tx: Transaction, trial: Trial, demands: Sequence[Demand]) -> dict[str, Plan]:
    """Seat the windows on the trial, moving others' seats where that helps; plans of those that lack any."""
    lacking: dict[str, Plan] = {}
    for demand in demands:
        trial.agenda.put_window(demand.span)
        settle(trial.agenda, [demand], trial.here, trial.there, now=trial.now)
        trial.seats[demand.span.id] = dict(trial.agenda.seats(demand.span.id))
        trial.demands[demand.span.id] = demand
        plan = trial.agenda.plan(demand, trial.here, trial.there, now=trial.now)
        if plan.short and not _move_others(tx, trial, demand):
            lacking[demand.span.id] = plan
    return lacking


def _move_others(tx: Transaction, trial: Trial, demand: Demand) -> bool:
    """Whether all of the window's seats fit after seats of others have moved; then they have."""
    others = [
        trial.demands.get(span.id) or demand_of(tx, tx.book.windows[span.id])
        for span in trial.agenda.spans(demand.span.starts_at, demand.span.ends_at)
        if span.id != demand.span.id and span.lead_at > trial.now
    ]
    whole = [other for other in others if len(trial.agenda.seats(other.span.id)) == other.seats]
    found = make_room(trial.agenda, [demand], whole, trial.here, trial.there, now=trial.now)
    if found is None:
        return False
    for each in [demand, *whole]:
        if each.span.id in found:
            _try_seats(trial, each, found[each.span.id])
    return True


def _try_seats(trial: Trial, demand: Demand, seats: Mapping[int, Seating]) -> None:
    window = demand.span.id
    for number in list(trial.agenda.seats(window)):
        trial.agenda.drop_seat(window, number)
    for number, seating in seats.items():
        trial.agenda.put_seat(window, number, seating.gpu_id, seating.part)
    trial.seats[window], trial.demands[window] = seats, demand


def _put(
    tx: Transaction, row: ClassHour, trial: Trial, wanted: Iterable[Window], moved: Iterable[Window]
) -> None:
    """Let the book be as the trial."""
    tx.put(row)
    changed: set[int] = set()
    coming = {window.id for window in wanted}
    for window in moved:
        if window.id not in coming:
            changed |= close(tx, window, "cancelled")
            continue
        for seat in list(tx.book.seats_of.of(window.id).values()):
            tx.drop(seat)
            changed.add(seat.gpu_id)
    for window in wanted:
        old = tx.book.windows.get(window.id)
        tx.put(replace(window, short=0 if old is None or old.state != "planned" else old.short))
    for window_name, seats in trial.seats.items():
        changed |= put_seats(tx, trial.demands[window_name], seats)
    retell(tx, changed)
    tx.capacity_changed()
