"""What is told of class hours: each with its next meetings and how their seats stand. Nothing here writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from gpu_kernels.pool.ledger.queries.times import iso
from gpu_kernels.pool.ledger.state.rows import ClassHour, Window
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.agenda_model import FOREVER
from gpu_kernels.resources import class_hours as resources
from gpu_kernels.vocabulary import calendar

IN_LIST, ALONE = 3, 400
"""So many of the next meetings are told with a class hour in a list, and of one by itself."""


def class_hour_view(tx: Transaction, class_hour: ClassHour, meetings: int = ALONE) -> resources.ClassHour:
    """A class hour as the API tells it."""
    following = upcoming(tx, class_hour)[:meetings]
    return resources.ClassHour(
        id=class_hour.id,
        course=class_hour.course,
        size=str(class_hour.size),
        seats=class_hour.seats,
        weekdays=tuple(resources.WEEKDAYS[int(digit) - 1] for digit in class_hour.weekdays),
        start=class_hour.start,
        minutes=class_hour.minutes,
        time_zone=class_hour.time_zone,
        first_date=class_hour.first_date,
        last_date=class_hour.last_date,
        except_dates=tuple(class_hour.except_dates),
        lead_minutes=class_hour.lead_minutes,
        late_minutes=class_hour.late_minutes,
        created_by=class_hour.created_by,
        created_at=iso(class_hour.created_at),
        state=_state(tx, class_hour),
        meetings=tuple(_meeting_view(tx, class_hour, window) for window in following),
    )


def _state(tx: Transaction, class_hour: ClassHour) -> str:
    if class_hour.cancelled_at is not None:
        return "cancelled"
    return "confirmed" if is_to_come(tx, class_hour) else "over"


def is_to_come(tx: Transaction, class_hour: ClassHour) -> bool:
    """Whether it meets once more."""
    if class_hour.cancelled_at is not None:
        return False
    if any(window.ends_at > tx.now for window in upcoming(tx, class_hour)):
        return True
    return any(True for _ in calendar.meetings(class_hour, tx.now, FOREVER))


def upcoming(tx: Transaction, class_hour: ClassHour) -> list[Window]:
    """Its windows that are planned or open, the next one first."""
    windows = tx.book.windows_of.of(class_hour.id).values()
    there = [window for window in windows if window.state in ("planned", "open")]
    return sorted(there, key=lambda window: window.starts_at)


def _meeting_view(tx: Transaction, class_hour: ClassHour, window: Window) -> resources.Meeting:
    seats = Counter(seat.state for seat in tx.book.seats_of.of(window.id).values())
    return resources.Meeting(
        date=calendar.wall_text(window.starts_at, class_hour.time_zone)[:10],
        starts_at=iso(window.starts_at),
        ends_at=iso(window.ends_at),
        state=window.state,
        planned=seats["planned"],
        held=seats["held"],
        taken=seats["taken"],
        short=window.short,
    )


def class_hours(
    tx: Transaction,
    visible: Callable[[str], bool],
    *,
    past: bool,
    after: tuple[str, str] | None,
    limit: int,
) -> list[resources.ClassHour]:
    """Class hours of the courses that are ``visible``, by course and id, from after that key.

    ``past``: those that are over or cancelled too.
    """
    found = sorted(
        (row.course, row.id)
        for row in tx.book.class_hours.values()
        if visible(row.course) and (past or is_to_come(tx, row))
    )
    keys = [key for key in found if after is None or key > after][:limit]
    return [class_hour_view(tx, tx.book.class_hours[key[1]], IN_LIST) for key in keys]
