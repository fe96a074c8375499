"""What a course (or the pool) held over time, as the geometry of a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from gpu_kernels.hub_config.pages.wording import plain_number
from gpu_kernels.resources.usage import Steps, Timeline

WIDTH, HEIGHT = 720, 220
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 14, 30
NICE = (1, 2, 2.5, 5, 10)
MOST_ROWS = 28
"""Rows of the table of the same numbers, for who cannot see the picture."""


@dataclass(frozen=True, slots=True)
class Point:
    """Thousandths from ``at`` (seconds since the epoch) on: granted, and of those in use."""

    at: float
    held: float
    used: float


@dataclass(frozen=True, slots=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Row:
    """Of a stretch of time: its begin, the most that was held, and what was used on average."""

    begin: str
    held: int
    used: int


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture of ``WIDTH`` by ``HEIGHT``: ``held`` an outline, ``used`` a line, ``limit`` a height."""

    held: str
    used: str
    limit: float | None
    limit_text: str
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    rows: tuple[Row, ...]
    peak: int


@dataclass(frozen=True, slots=True)
class Picture:
    """A plot of one GPU class; ``span`` is ``day`` or ``week``."""

    gpu_class: str
    span: str
    plot: Plot


def pictures(
    timeline: Timeline, gpu_class: str, span: str, limit: int | None, zone: ZoneInfo
) -> list[Picture]:
    """Of the controller's timeline; of a class that was not used, an empty picture."""
    begin, end = (datetime.fromisoformat(at).timestamp() for at in (timeline.begin, timeline.end))
    if end <= begin:
        return []
    steps = timeline.classes.get(gpu_class, Steps())
    points = [
        Point(begin + number * timeline.step, held, used)
        for number, (held, used) in enumerate(zip(steps.held, steps.used, strict=True))
    ]
    return [Picture(gpu_class, span, plot(points, begin=begin, end=end, limit=limit, zone=zone))]


def plot(points: Sequence[Point], *, begin: float, end: float, limit: int | None, zone: ZoneInfo) -> Plot:
    """``points`` in order of time; each holds until the next one, the last until ``end``."""
    peak = max((max(point.held, point.used) for point in points), default=0)
    top = nice_top(max(peak, limit or 0) / 1000)

    def x(at: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (at - begin) / (end - begin), 1)

    def y(thousandths: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (thousandths / 1000) / top, 1)

    floor = y(0)
    outline = _steps([(point.at, point.held) for point in points], end, x, y)
    closed = f"M{x(points[0].at)},{floor}L{outline}L{x(end)},{floor}Z" if points else ""
    line = _steps([(point.at, point.used) for point in points], end, x, y)
    return Plot(
        held=closed,
        used=f"M{line}" if points else "",
        limit=None if limit is None else y(limit),
        limit_text="" if limit is None else plain_number(limit / 1000),
        across=tuple(Tick(x(at), label) for at, label in _clock(begin, end, zone)),
        up=tuple(Tick(y(value * 1000), plain_number(value)) for value in (0, top / 2, top)),
        rows=tuple(rows(points, begin, end, zone)),
        peak=round(peak),
    )


def nice_top(value: float) -> float:
    """The least number at or above ``value`` that reads well on an axis."""
    scale = 0.01
    while True:
        for step in NICE:
            if step * scale >= value:
                return round(step * scale, 6)
        scale *= 10


def _steps(
    values: Sequence[tuple[float, float]],
    end: float,
    x: Callable[[float], float],
    y: Callable[[float], float],
) -> str:
    """The corners of a line of steps."""
    corners = []
    for number, (at, value) in enumerate(values):
        until = values[number + 1][0] if number + 1 < len(values) else end
        corners += [f"{x(at)},{y(value)}", f"{x(until)},{y(value)}"]
    return "L".join(corners)


def _clock(begin: float, end: float, zone: ZoneInfo) -> list[tuple[float, str]]:
    """Marks at round hours of a day, or at the days of a week."""
    days = (end - begin) > 36 * 3600
    step, form = (timedelta(days=1), "%m-%d") if days else (timedelta(hours=3), "%H:%M")
    at = datetime.fromtimestamp(begin, zone).replace(minute=0, second=0, microsecond=0)
    at = at.replace(hour=0 if days else at.hour - at.hour % 3)
    marks = []
    while at.timestamp() <= end:
        if at.timestamp() >= begin:
            marks.append((at.timestamp(), at.strftime(form)))
        at += step
    return marks


def rows(points: Sequence[Point], begin: float, end: float, zone: ZoneInfo) -> list[Row]:
    """The same in equal stretches of time, few enough to be read out."""
    wanted = 24 if end - begin <= 36 * 3600 else MOST_ROWS
    width = (end - begin) / wanted
    found = []
    for number in range(wanted):
        low, high = begin + number * width, begin + (number + 1) * width
        most, sum_used = 0.0, 0.0
        for index, point in enumerate(points):
            until = points[index + 1].at if index + 1 < len(points) else end
            overlap = min(until, high) - max(point.at, low)
            if overlap > 0:
                most = max(most, point.held)
                sum_used += point.used * overlap
        label = datetime.fromtimestamp(low, zone).strftime("%Y-%m-%d %H:%M")
        found.append(Row(label, round(most), round(sum_used / width)))
    return found
