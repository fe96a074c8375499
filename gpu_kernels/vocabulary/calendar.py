"""When a class meets: a weekly pattern on the wall clock of a time zone, as instants.

A meeting *starts* by the wall clock: ten o'clock is ten o'clock in summer and in winter. Twice a year some
wall-clock times are not what they seem, and then this holds (it is what calendars do, RFC 5545 3.3.5):

- A start in the gap, when clocks are set forward, is read by the offset from before it: 02:30 on a night
  that jumps from 02:00 to 03:00 is the instant at which the wall shows 03:30.
- A start that comes twice, when clocks are set back, is the first of the two.

A meeting *lasts* exactly its minutes, whatever the wall clock does meanwhile, so none is ever empty or an
hour longer than was planned for. Instants are milliseconds since 1970, UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Protocol
from zoneinfo import ZoneInfo

from gpu_kernels.errors import InvalidRequest
from gpu_kernels.units import Size

MINUTE = 60_000
DAY_MINUTES = 24 * 60
MOST_SEATS = 2000
MOST_DAYS = 371
"""A class hour is for one school year at the most: 53 weeks."""
MOST_EXCEPT_DATES = 200
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_CLOCK = re.compile(r"([0-9]{2}):([0-9]{2})")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ZONE = re.compile(r"(?!right/|posix)[A-Z][A-Za-z0-9_+-]{1,31}(/[A-Za-z0-9_+-]{1,32}){0,2}")
"""What a zone may be called; the database's variants with leap seconds are none."""


class Weekly(Protocol):
    """What is expanded: the part of a class hour that says when."""

    @property
    def weekdays(self) -> str: ...
    @property
    def start(self) -> str: ...
    @property
    def minutes(self) -> int: ...
    @property
    def time_zone(self) -> str: ...
    @property
    def first_date(self) -> str: ...
    @property
    def last_date(self) -> str: ...
    @property
    def except_dates(self) -> tuple[str, ...]: ...
    @property
    def lead_minutes(self) -> int: ...
    @property
    def late_minutes(self) -> int: ...


@dataclass(frozen=True, slots=True, order=True)
class Meeting:
    """One meeting: it is on ``date`` by the wall clock, and from ``starts_at`` to before ``ends_at``.

    From ``lead_at`` on nothing new is placed on its seats; seats untaken at ``late_at`` return to the pool.
    """

    starts_at: int
    ends_at: int
    lead_at: int
    late_at: int
    date: str


def meetings(weekly: Weekly, since: int, until: int) -> Iterator[Meeting]:
    """The meetings that start before ``until`` and end after ``since``, in their order.

    ``weekly`` is one that ``check`` has let through. Where its zone has left the machine's database since,
    nobody knows when it meets: there are none.
    """
    zone = zone_if_known(weekly.time_zone)
    if zone is None:
        return
    day = max(date.fromisoformat(weekly.first_date), _day(since) - timedelta(days=2))
    last = min(date.fromisoformat(weekly.last_date), _day(until) + timedelta(days=1))
    while day <= last:
        if str(day.isoweekday()) in weekly.weekdays and day.isoformat() not in weekly.except_dates:
            meeting = _meeting(weekly, zone, day)
            if meeting.starts_at < until and since < meeting.ends_at:
                yield meeting
        day += timedelta(days=1)


def dates(weekly: Weekly) -> Iterator[date]:
    """The days on which it meets."""
    day, last = date.fromisoformat(weekly.first_date), date.fromisoformat(weekly.last_date)
    while day <= last:
        if str(day.isoweekday()) in weekly.weekdays and day.isoformat() not in weekly.except_dates:
            yield day
        day += timedelta(days=1)


def _meeting(weekly: Weekly, zone: ZoneInfo, day: date) -> Meeting:
    starts_at = instant(day, _clock(weekly.start), zone)
    ends_at = starts_at + weekly.minutes * MINUTE
    lead_at = starts_at - weekly.lead_minutes * MINUTE
    late_at = min(starts_at + weekly.late_minutes * MINUTE, ends_at)
    return Meeting(starts_at, ends_at, lead_at, late_at, day.isoformat())


def instant(day: date, clock: time, zone: ZoneInfo) -> int:
    """The instant at which the wall clock of ``zone`` shows that; see above for what happens twice or
    never.
    """
    # ``fold`` 0 reads a time in the gap by the offset from before it, and one that comes twice as the first.
    moment = datetime.combine(day, clock.replace(fold=0), tzinfo=zone)
    return int((moment.astimezone(UTC) - datetime.fromtimestamp(0, UTC)) / timedelta(milliseconds=1))


def wall_text(at: int, zone_name: str) -> str:
    """``2027-03-15 10:00`` by the wall clock of the zone, for texts; by UTC where the zone is gone."""
    return datetime.fromtimestamp(at / 1000, zone_if_known(zone_name) or UTC).strftime("%Y-%m-%d %H:%M")


def clock_text(at: int, zone_name: str) -> str:
    """``10:00`` by the wall clock of the zone."""
    return wall_text(at, zone_name)[-5:]


def weekdays_text(weekdays: str) -> str:
    """``"135"`` -> ``Monday, Wednesday, Friday``."""
    return ", ".join(WEEKDAYS[int(digit) - 1] for digit in weekdays)


def _day(at: int) -> date:
    """The day in UTC, or the nearest that a calendar has with some to spare."""
    return date(1970, 1, 1) + timedelta(days=min(max(at // 86_400_000, -700_000), 2_900_000))


# Reading what a person wrote


def parse_weekdays(text: str) -> str:
    """``"135"``, ``"mon wed fri"`` or ``"Monday,Friday"`` -> digits in order, Monday is 1.

    Raises ``InvalidRequest``, as all of these do; the text says what was read and what is allowed.
    """
    words = list(text) if text.isdigit() else text.replace(",", " ").split()
    found = {number for word in words for number in _weekday(word)}
    if not found:
        raise _invalid("weekdays", f"The weekdays {_shown(text)} cannot be read.")
    return "".join(map(str, sorted(found)))


def _weekday(word: str) -> Sequence[int]:
    if word.isascii() and word.isdigit():
        numbers = [int(word)] if word in "1234567" else []
    else:
        known = enumerate(WEEKDAYS, 1)
        numbers = [n for n, name in known if len(word) >= 2 and name.casefold().startswith(word.casefold())]
    if not numbers:
        raise _invalid(
            "weekdays", f"{_shown(word)} is not a weekday; write mon, tue, wed, thu, fri, sat or sun."
        )
    return numbers


def parse_clock(text: str, field: str = "start") -> str:
    """``9:05`` or ``09:05`` -> ``09:05``."""
    match = _CLOCK.fullmatch(text.rjust(5, "0") if len(text) == 4 else text)
    if match is None:
        raise _invalid(field, f"The time {_shown(text)} cannot be read; a time is written 09:30.")
    if int(match[1]) > 23 or int(match[2]) > 59:
        raise _invalid(field, f"There is no {_shown(text)} on a clock; times go from 00:00 to 23:59.")
    return match[0]


def parse_date(text: str, field: str) -> str:
    """An ISO date that there is."""
    if _DATE.fullmatch(text):
        try:
            day = date.fromisoformat(text)
        except ValueError:
            pass
        else:
            if 1971 <= day.year <= 2999:
                return text
    raise _invalid(field, f"There is no date {_shown(text)}; a date is written 2027-03-15.")


def minutes_between(start: str, end: str) -> int:
    """The length of a meeting from its first and last times on the clock of one day.

    ``24:00`` is the end of the day. An end at or before the start is refused: a class that goes on after
    midnight is said by its length.
    """
    first = _minute_of_day(parse_clock(start))
    last = DAY_MINUTES if end == "24:00" else _minute_of_day(parse_clock(end, "end"))
    if last <= first:
        raise _invalid(
            "end",
            f"The end, {_shown(end)}, is not after the start, {_shown(start)}.",
            "A class that goes on after midnight is given by its length in minutes instead of its end.",
        )
    return last - first


@lru_cache(maxsize=64)
def time_zone(name: str) -> ZoneInfo:
    """The IANA time zone. Raises ``InvalidRequest`` where there is none of that name."""
    try:
        if not _ZONE.fullmatch(name):
            raise ValueError(name)
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise _invalid(
            "time_zone",
            f"There is no time zone {_shown(name)}.",
            "Time zones are named as the IANA database does, such as Europe/Berlin or America/New_York.",
        ) from None


def zone_if_known(name: str) -> ZoneInfo | None:
    """The same for a class hour that was confirmed: None where the zone is gone since. Such a row must not
    stop what the clock does for all others.
    """
    try:
        return time_zone(name)
    except InvalidRequest:
        return None


def check(weekly: Weekly, *, size: Size, seats: int) -> None:
    """Refuse what is no class hour. Raises ``InvalidRequest`` with the field in ``details``."""
    time_zone(weekly.time_zone)
    if parse_weekdays(weekly.weekdays) != weekly.weekdays:
        raise _invalid("weekdays", f"The weekdays {_shown(weekly.weekdays)} are not in order.")
    if parse_clock(weekly.start) != weekly.start:
        raise _invalid("start", f"The time {_shown(weekly.start)} is written {parse_clock(weekly.start)}.")
    _between("minutes", weekly.minutes, 1, DAY_MINUTES, "A meeting lasts 1 to 1440 minutes (24 hours)")
    _between("lead_minutes", weekly.lead_minutes, 0, DAY_MINUTES, "The lead is 0 to 1440 minutes")
    _between("late_minutes", weekly.late_minutes, 1, DAY_MINUTES, "Coming late is 1 to 1440 minutes")
    _between("seats", seats, 1, MOST_SEATS, f"A class has 1 to {MOST_SEATS} seats")
    _check_dates(weekly)
    if size.count > 1:
        raise _invalid(
            "size",
            f"A seat is of one GPU at the most, and {size} is of {size.count}.",
            "Choose a smaller size for a seat.",
        )


def _check_dates(weekly: Weekly) -> None:
    first = date.fromisoformat(parse_date(weekly.first_date, "first_date"))
    last = date.fromisoformat(parse_date(weekly.last_date, "last_date"))
    if last < first:
        raise _invalid("last_date", f"The last date, {last}, is before the first, {first}.")
    if (last - first).days >= MOST_DAYS:
        raise _invalid(
            "last_date",
            f"From {first} to {last} is {(last - first).days + 1} days; a class hour is for {MOST_DAYS} at "
            "most.",
            "Make a new one for each school year.",
        )
    if len(weekly.except_dates) > MOST_EXCEPT_DATES:
        raise _invalid("except_dates", f"There may be {MOST_EXCEPT_DATES} dates left out at most.")
    for text in weekly.except_dates:
        parse_date(text, "except_dates")
    if not any(True for _ in dates(weekly)):
        raise _invalid(
            "weekdays",
            f"It never meets: no {weekdays_text(weekly.weekdays)} from {first} to {last} is left.",
        )


def _between(field: str, value: int, least: int, most: int, rule: str) -> None:
    if not least <= value <= most:
        raise _invalid(field, f"{rule}, not {str(value)[:30]}.")


def _clock(text: str) -> time:
    return time(int(text[:2]), int(text[3:]))


def _minute_of_day(text: str) -> int:
    return int(text[:2]) * 60 + int(text[3:])


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 40 else text[:40] + "...")


def _invalid(field: str, what: str, advice: str = "") -> InvalidRequest:
    return InvalidRequest(f"{what}\n{advice}".rstrip(), details={"field": field})
