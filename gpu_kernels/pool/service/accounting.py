"""Sums over the accounts of slices, and their lines in a table. Pure, but for the pages that it is given."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate
from zoneinfo import ZoneInfo

from gpu_kernels.errors import InvalidRequest
from gpu_kernels.pool.ledger.state.rows import Slice
from gpu_kernels.pool.policy.budget import week_of
from gpu_kernels.resources.usage import DIMENSIONS, Steps, UsageSum

HOUR = 3_600_000
DAY = 24 * HOUR
LONGEST_DAYS = 400
COLUMNS = (
    "lease", "user", "course", "gpu_class", "gpu", "mib", "thousandths", "started_at", "active_at",
    "ended_at", "held_seconds", "used_seconds", "gpu_hours",
)  # fmt: skip
FORMULAS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""What a spreadsheet takes for the beginning of a formula."""


@dataclass(frozen=True, slots=True)
class Period:
    """From ``begin`` to before ``end``, in milliseconds since 1970; dates and weeks are those of ``zone``."""

    begin: int
    end: int
    zone: ZoneInfo

    @classmethod
    def read(cls, begin: str | None, end: str | None, zone: str, now: int) -> Period:
        """From a query's texts. Raises ``InvalidRequest`` with the field."""
        try:
            where = ZoneInfo(zone)
        except (KeyError, ValueError, OSError):
            raise InvalidRequest(
                f"'time_zone' in the query must be one such as Europe/Berlin, not {zone!r}.",
                details={"field": "time_zone"},
            ) from None
        until = now if end is None else min(now, _instant("to", end, where))
        since = until - 30 * DAY if begin is None else _instant("from", begin, where)
        if not 0 < until - since <= LONGEST_DAYS * DAY:
            raise InvalidRequest(
                f"'from' must be before 'to' and before now, by at most {LONGEST_DAYS} days.",
                details={"field": "from"},
            )
        return cls(since, until, where)


def instant(name: str, text: str | None, zone: ZoneInfo | None = None) -> int | None:
    """A field's text as milliseconds since 1970, in UTC where it says nothing else. Raises
    ``InvalidRequest``.
    """
    return None if text is None else _instant(name, text, zone or ZoneInfo("UTC"))


def _instant(name: str, text: str, zone: ZoneInfo) -> int:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone)
        at = int(moment.timestamp() * 1000)
        told(at)  # a last hour of the year 9999 may be none in UTC
        return at
    except (ValueError, OverflowError):
        raise InvalidRequest(
            f"'{name}' is no day or time that there is: {text!r}.", details={"field": name}
        ) from None


@dataclass(slots=True)
class Sum:
    """In thousandths (or MiB) times milliseconds: exact."""

    leases: set[str] = field(default_factory=set)
    used: int = 0
    held: int = 0
    memory: int = 0

    def add(self, part: Slice, begin: int, end: int) -> None:
        self.leases.add(part.lease_id)
        used = _overlap(part.active_at, part.ended_at, begin, end)
        self.used += used * part.thousandths
        self.held += _overlap(part.started_at, part.ended_at, begin, end) * part.thousandths
        self.memory += used * part.mib


def _overlap(start: int | None, stop: int | None, begin: int, end: int) -> int:
    """Milliseconds of [start, stop) within [begin, end); None: never began, has not stopped."""
    if start is None:
        return 0
    return max(0, min(end, end if stop is None else stop) - max(begin, start))


def summed(parts: Iterable[Slice], period: Period, by: Sequence[str]) -> tuple[UsageSum, ...]:
    """The sums of a period, by some of ``DIMENSIONS``, largest first."""
    sums: dict[tuple[str | None, ...], Sum] = {}
    for part in parts:
        for week, begin, end in _weeks(part, period) if "week" in by else [(None, period.begin, period.end)]:
            named = {"course": part.course, "user": part.user, "gpu_class": part.gpu_class, "week": week}
            key = tuple(named[name] if name in by else None for name in DIMENSIONS)
            sums.setdefault(key, Sum()).add(part, begin, end)
    ordered = sorted(sums.items(), key=lambda item: (-item[1].used, -item[1].held, str(item[0])))
    return tuple(
        UsageSum(
            **dict(zip(DIMENSIONS, key, strict=True)),
            leases=len(total.leases),
            gpu_hours=round(total.used / 1000 / HOUR, 6),
            held_gpu_hours=round(total.held / 1000 / HOUR, 6),
            gib_hours=round(total.memory / 1024 / HOUR, 6),
        )
        for key, total in ordered
    )


def _weeks(part: Slice, period: Period) -> Iterator[tuple[str, int, int]]:
    """The weeks that an account touches: name, and the part of the week that is in the period."""
    at = max(part.started_at, period.begin)
    stop = min(period.end, period.end if part.ended_at is None else part.ended_at)
    while at < stop:
        _, following = week_of(at, period.zone)
        year, number, _ = datetime.fromtimestamp(at / 1000, period.zone).isocalendar()
        yield f"{year}-W{number:02d}", at, min(following, period.end)
        at = following


class _Line:
    """Thousandths over the steps of a period. A slice costs the same however many steps it touches: what it
    has in the first and the last of them is added there, and where whole steps begin and end is marked.
    """

    def __init__(self, period: Period, step: int) -> None:
        self.period, self.step = period, step
        self.number = -(-(period.end - period.begin) // step)
        self._parts = [0] * self.number
        self._whole = [0] * (self.number + 1)

    def add(self, since: int | None, part: Slice) -> None:
        if since is None:
            return
        begin = max(since, self.period.begin)
        end = self.period.end if part.ended_at is None else min(part.ended_at, self.period.end)
        if end <= begin:
            return
        first, last = (begin - self.period.begin) // self.step, (end - 1 - self.period.begin) // self.step
        for place in {first, last}:
            at = self.period.begin + place * self.step
            self._parts[place] += (min(end, at + self.step) - max(begin, at)) * part.thousandths
        if last > first + 1:
            self._whole[first + 1] += part.thousandths
            self._whole[last] -= part.thousandths

    def averages(self) -> tuple[int, ...]:
        whole = accumulate(self._whole[: self.number])
        widths = (
            min(self.step, self.period.end - self.period.begin - place * self.step)
            for place in range(self.number)
        )
        return tuple(
            running + total // width for running, total, width in zip(whole, self._parts, widths, strict=True)
        )


def timeline(parts: Iterable[Slice], period: Period, step: int) -> dict[str, Steps]:
    """By GPU class, the average thousandths that were held and used in each step of ``step`` milliseconds;
    the last step may be shorter.
    """
    lines: dict[str, tuple[_Line, _Line]] = {}
    for part in parts:
        if part.gpu_class not in lines:
            lines[part.gpu_class] = _Line(period, step), _Line(period, step)
        held, used = lines[part.gpu_class]
        held.add(part.started_at, part)
        used.add(part.active_at, part)
    return {name: Steps(held.averages(), used.averages()) for name, (held, used) in sorted(lines.items())}


def table(parts: Iterable[Slice], period: Period, *, heading: bool) -> bytes:
    """Lines of comma-separated values, one an account; seconds and hours are those within the period."""
    text = io.StringIO()
    lines = csv.writer(text)
    if heading:
        lines.writerow(COLUMNS)
    for part in parts:
        held = _overlap(part.started_at, part.ended_at, period.begin, period.end)
        used = _overlap(part.active_at, part.ended_at, period.begin, period.end)
        lines.writerow(
            [
                *(
                    harmless(name)
                    for name in (part.lease_id, part.user, part.course, part.gpu_class, part.gpu_uuid)
                ),
                part.mib,
                part.thousandths,
                *(told(at) for at in (part.started_at, part.active_at, part.ended_at)),
                held / 1000,
                used / 1000,
                round(used * part.thousandths / 1000 / HOUR, 6),
            ]
        )
    return text.getvalue().encode()


def harmless(text: str) -> str:
    """The text so that no spreadsheet takes it for a formula: then with an apostrophe before it."""
    return f"'{text}" if text.lstrip(" ").startswith(FORMULAS) else text


def told(at: int | None) -> str:
    """An instant in ISO 8601, empty for none."""
    return "" if at is None else datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")
