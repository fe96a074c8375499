"""A week of class hours: when each meets by the institution's clock, and as the geometry of a picture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from gpu_kernels.hub_config.pages.views.servers import colour
from gpu_kernels.resources.class_hours import WEEKDAYS, ClassHour

WIDTH, DAY_WIDTH, LEFT, TOP, HOUR_HEIGHT = 760, 100, 56, 26, 34
FIRST_HOUR, LAST_HOUR = 8, 18
"""What is shown at least."""
FIRST_YEAR, LAST_YEAR = 1970, 9998


@dataclass(frozen=True, slots=True)
class Meeting:
    """A meeting that begins within the week, or goes on into it."""

    id: str
    course: str
    size: str
    seats: int
    day: int
    begins: datetime
    ends: datetime


@dataclass(frozen=True, slots=True)
class Block:
    """A meeting's part of one day. ``lane`` of ``lanes``: those at the same time stand side by side."""

    meeting: Meeting
    day: int
    x: float
    y: float
    width: float
    height: float
    colour: int
    hours: str


@dataclass(frozen=True, slots=True)
class Week:
    """A week from Monday on."""

    monday: date
    name: str
    before: str
    after: str
    days: tuple[date, ...]
    meetings: tuple[Meeting, ...]
    blocks: tuple[Block, ...]
    hours: tuple[tuple[float, str], ...]
    height: float


def monday_of(text: str, today: date) -> date:
    """The Monday of a week such as ``2026-W47``; of this one where the text is none."""
    try:
        monday = datetime.strptime(f"{text}-1", "%G-W%V-%u").date()
    except ValueError:
        monday = date.min
    # Around a week there are others, and clocks that are ahead or behind.
    if FIRST_YEAR <= monday.year <= LAST_YEAR:
        return monday
    return today - timedelta(days=today.weekday())


def week_name(monday: date) -> str:
    return monday.strftime("%G-W%V")


def week(hours: Iterable[ClassHour], monday: date, zone: ZoneInfo) -> Week:
    """``hours``: class hours as the controller tells them; those that are cancelled are left out."""
    meetings = sorted(
        (m for hour in hours if hour.state != "cancelled" for m in _meetings(hour, monday, zone)),
        key=lambda m: (m.begins, m.course, m.id),
    )
    first = min([FIRST_HOUR, *(_hour(m.begins) for m in meetings)])
    last = max([LAST_HOUR, *(_last_hour(m) for m in meetings)])
    days = tuple(monday + timedelta(days=number) for number in range(7))
    return Week(
        monday,
        week_name(monday),
        week_name(monday - timedelta(days=7)),
        week_name(monday + timedelta(days=7)),
        days,
        tuple(meetings),
        tuple(block for day in range(7) for block in _blocks(meetings, day, days[day], first, zone)),
        tuple((TOP + (h - first) * HOUR_HEIGHT, f"{h:02d}:00") for h in range(first, last + 1)),
        TOP + (last - first) * HOUR_HEIGHT + 8,
    )


def end_of(hour: ClassHour | None) -> str:
    """When a class hour ends, by the clock; empty where there is none."""
    if hour is None:
        return ""
    start = time.fromisoformat(hour.start)
    minutes = (start.hour * 60 + start.minute + hour.minutes) % (24 * 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def _meetings(hour: ClassHour, monday: date, zone: ZoneInfo) -> Iterable[Meeting]:
    """Those of its meetings that touch the week, by the institution's clock."""
    own_zone = ZoneInfo(hour.time_zone)
    wanted = {WEEKDAYS.index(name) for name in hour.weekdays}
    start = time.fromisoformat(hour.start)
    # A day more on both sides: another clock, or a class past midnight, may reach into the week.
    for number in range(-2, 8):
        day = monday + timedelta(days=number)
        text = day.isoformat()
        if day.weekday() not in wanted or text in hour.except_dates:
            continue
        if not hour.first_date <= text <= hour.last_date:
            continue
        begins = datetime.combine(day, start, own_zone)
        ends = datetime.fromtimestamp(begins.timestamp() + hour.minutes * 60, zone)
        begins = begins.astimezone(zone)
        if begins.date() < monday + timedelta(days=7) and ends.date() >= monday:
            yield Meeting(
                hour.id,
                hour.course,
                hour.size,
                hour.seats,
                (begins.date() - monday).days,
                begins,
                ends,
            )


def _hour(at: datetime) -> int:
    return at.hour


def _last_hour(meeting: Meeting) -> int:
    if meeting.ends.date() > meeting.begins.date():
        return 24
    return meeting.ends.hour + (1 if meeting.ends.minute else 0)


def _blocks(
    meetings: Iterable[Meeting], day: int, date_of: date, first: int, zone: ZoneInfo
) -> Iterable[Block]:
    midnight = datetime.combine(date_of, time(), zone)
    until = datetime.combine(date_of + timedelta(days=1), time(), zone)
    here = [m for m in meetings if m.begins < until and m.ends > midnight]
    for number, meeting in enumerate(here):
        beside = [m for m in here if m.begins < meeting.ends and m.ends > meeting.begins]
        lane = sum(other in here[:number] for other in beside)
        begin, end = max(meeting.begins, midnight), min(meeting.ends, until)
        top = TOP + (_hours_of(begin, date_of) - first) * HOUR_HEIGHT
        width = (DAY_WIDTH - 4) / len(beside)
        yield Block(
            meeting,
            day,
            round(LEFT + day * DAY_WIDTH + 2 + lane * width, 1),
            round(max(TOP, top), 1),
            round(width - 1, 1),
            round(max(14, (_hours_of(end, date_of) - _hours_of(begin, date_of)) * HOUR_HEIGHT - 1), 1),
            colour(meeting.course),
            f"{meeting.begins:%H:%M}\N{EN DASH}{meeting.ends:%H:%M}",
        )


def _hours_of(at: datetime, day: date) -> float:
    """The clock's hours since the day's midnight; 24 at its end."""
    return (at.date() - day).days * 24 + at.hour + at.minute / 60
