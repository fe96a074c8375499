"""How much a course's class hours may book: a rule of who stands above it, so that no instructor can take the
pool away from all others by booking it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta

from gpu_kernels.errors import TooMany
from gpu_kernels.pool.ledger.state.rows import ClassHour
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.units import THOUSANDTHS
from gpu_kernels.vocabulary import calendar
from gpu_kernels.vocabulary.rules import GPU_HOUR, hours_text

BY_DEFAULT = 4
"""Where no rule says how much, one part in so many of what the pool has of the GPU class in a week."""
WEEK = 7 * 24 * 3_600_000
MINUTE = 60_000


def check_booked(tx: Transaction, row: ClassHour, before: ClassHour | None = None) -> None:
    """Refuse a class hour with which its course would have booked too much of some week. One that is changed
    and takes no more than ``before`` is not refused. Raises ``TooMany``.
    """
    most, of_what = _most(tx, row)
    asked = a_week(tx, row)
    if most is None or (before is not None and _no_more(asked, row, a_week(tx, before), before)):
        return
    others = _others(tx, row, all_classes=of_what == "")
    held = _fullest(tx, row, others)
    if held + asked <= most:
        return
    fits = max(0, (most - held) * row.seats // max(1, asked))
    whose = f"a quarter of what the pool has of {of_what}" if of_what else "by its rule class_hours_per_week"
    raise TooMany(
        f"{row.course} would book {_hours(held + asked)} GPU-hours a week for class hours, and may book "
        f"{_hours(most)}: {whose}.\nOthers of its class hours have {_hours(held)} of that. "
        + (f"Ask for {fits} seats, for" if fits else "Ask for")
        + " a smaller size, or for fewer or shorter meetings; the pool's administrator may allow more.",
        details={
            "wanted": row.seats,
            "fits": fits,
            "booked": held / GPU_HOUR,
            "asked": asked / GPU_HOUR,
            "most": most / GPU_HOUR,
        },
    )


def a_week(tx: Transaction, row: ClassHour) -> int:
    """Thousandth-milliseconds that the seats of a class hour take in a week."""
    shares = tx.book.places.index.demands(row.size).values()
    share = max(shares, default=0 if row.size.gpus is None else int(row.size.gpus * THOUSANDTHS))
    return share * row.seats * row.minutes * MINUTE * _meetings(row)


def _meetings(row: ClassHour) -> int:
    """In a week, at the most."""
    days = (date.fromisoformat(row.last_date) - date.fromisoformat(row.first_date)).days
    return len(row.weekdays) if days >= 6 else sum(1 for _ in calendar.dates(row))


def _most(tx: Transaction, row: ClassHour) -> tuple[int | None, str]:
    """What the course may book in a week, and of which GPU class that is a part, if no rule says it."""
    rule = tx.book.entitlements.rules(row.course).class_hours_per_week
    if rule is not None:
        return rule, ""
    gpu_class = row.size.gpu_class
    gpus = [gpu for gpu in tx.book.places.index.gpus() if gpu_class in (None, gpu.gpu_class)]
    if not gpus:
        return None, ""  # it is refused for that, or comes to have seats when there are some
    return len(gpus) * THOUSANDTHS * WEEK // BY_DEFAULT, gpu_class or "all its GPUs"


def _others(tx: Transaction, row: ClassHour, *, all_classes: bool) -> list[ClassHour]:
    gpu_class = row.size.gpu_class
    return [
        other
        for other in tx.book.class_hours.values()
        if other.course == row.course
        and other.id != row.id
        and other.cancelled_at is None
        and _weeks(other)[0] <= _weeks(row)[1]
        and _weeks(row)[0] <= _weeks(other)[1]
        and (all_classes or gpu_class is None or other.size.gpu_class in (None, gpu_class))
    ]


def _fullest(tx: Transaction, row: ClassHour, others: Iterable[ClassHour]) -> int:
    """What others take of a week at the most while ``row`` goes on: that only rises where one begins."""
    weeks = [(*_weeks(other), a_week(tx, other)) for other in others]
    own = _weeks(row)[0]
    begins = {own, *(first for first, _, _ in weeks if first >= own)}
    return max(sum(taken for first, last, taken in weeks if first <= day <= last) for day in begins)


def _weeks(row: ClassHour) -> tuple[date, date]:
    """The Mondays of its first and its last week: what shares a week counts together, on whatever days."""
    first, last = date.fromisoformat(row.first_date), date.fromisoformat(row.last_date)
    return first - timedelta(days=first.weekday()), last - timedelta(days=last.weekday())


def _no_more(asked: int, row: ClassHour, had: int, before: ClassHour) -> bool:
    within = before.first_date <= row.first_date and row.last_date <= before.last_date
    return within and asked <= had and row.size.gpu_class == before.size.gpu_class


def _hours(amount: int) -> str:
    return hours_text(amount / GPU_HOUR)
