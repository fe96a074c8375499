"""``%gpu usage``: one's own GPU-hours by day, and how far the budgets are spent."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from html import escape

from gpu_kernels import offer
from gpu_kernels.client import PoolClient
from gpu_kernels.errors import UnknownCourse
from gpu_kernels.resources.accounts import Spent
from gpu_kernels.resources.lab import Budget

TIMEOUT_S = 10.0
BAR_WIDTH = 40
NEAR = 0.8
"""The part of a budget from which it is coloured."""
LEAST = 0.01
"""GPU-hours that a picture is at least drawn for: less is shown as none."""
PLOT_WIDTH, PLOT_HEIGHT, LEFT, BOTTOM, TOP = 640, 180, 44, 24, 12


class Usage:
    """Text for terminals; HTML, with a picture where one was asked for, for notebooks."""

    def __init__(
        self, days: Sequence[tuple[date, float]], budgets: Sequence[Budget], course: str | None, *, plot: bool
    ) -> None:
        self.days, self.budgets, self.course, self.plot = days, budgets, course, plot

    @property
    def headline(self) -> str:
        total = sum(value for _, value in self.days)
        where = f" in {self.course}" if self.course else ""
        return f"You used {hours(total)} GPU-hours{where} in the last {len(self.days)} days."

    def __repr__(self) -> str:
        lines = [self.headline, *(f"{_bar(budget.part)} {budget.text}" for budget in self.budgets)]
        if not self.budgets:
            lines.append(NO_BUDGET)
        if self.plot:
            most = max(LEAST, *(value for _, value in self.days))
            for day, value in self.days:
                bar = "#" * round(BAR_WIDTH * value / most)
                lines.append(f"{day:%a %d %b} {hours(value):>6} {bar}".rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        budgets = "".join(
            f'<div><meter min="0" max="1" high="{NEAR}" value="{budget.part:.3f}" style="width:12em">'
            f"</meter> {escape(budget.text)}</div>"
            for budget in self.budgets
        )
        picture = self._picture() if self.plot else ""
        return f"<div><strong>{escape(self.headline)}</strong>{budgets or escape(NO_BUDGET)}{picture}</div>"

    def _picture(self) -> str:
        """Bars by day, with the same numbers as a table for who does not see them."""
        most = max(LEAST, *(value for _, value in self.days))
        scale = (PLOT_HEIGHT - TOP - BOTTOM) / most
        width = (PLOT_WIDTH - LEFT) / len(self.days)
        base = PLOT_HEIGHT - BOTTOM
        bars = "".join(
            f'<rect x="{LEFT + i * width + 2:.1f}" y="{base - value * scale:.1f}" width="{width - 4:.1f}" '
            f'height="{value * scale:.1f}" fill="var(--jp-brand-color1, #1976d2)">'
            f"<title>{day:%a %d %b}: {hours(value)} GPU-hours</title></rect>"
            for i, (day, value) in enumerate(self.days)
        )
        every = max(1, len(self.days) // 7)
        dates = "".join(
            f'<text x="{LEFT + (i + 0.5) * width:.1f}" y="{PLOT_HEIGHT - 8}" text-anchor="middle">'
            f"{day:%d %b}</text>"
            for i, (day, _) in enumerate(self.days)
            if i % every == 0
        )
        axis = (
            f'<line x1="{LEFT}" y1="{base}" x2="{PLOT_WIDTH}" y2="{base}" stroke="currentColor"/>'
            f'<text x="{LEFT - 4}" y="{TOP + 8}" text-anchor="end">{hours(most)} h</text>'
            f'<text x="{LEFT - 4}" y="{base}" text-anchor="end">0</text>'
        )
        rows = "".join(f"<tr><td>{day:%a %d %b}</td><td>{hours(value)}</td></tr>" for day, value in self.days)
        return (
            f'<svg role="img" aria-label="GPU-hours by day" viewBox="0 0 {PLOT_WIDTH} {PLOT_HEIGHT}" '
            f'width="{PLOT_WIDTH}" style="max-width:100%;color:inherit" fill="currentColor" '
            f'font-size="11">{axis}{bars}{dates}</svg>'
            f"<details><summary>as a table</summary><table><tr><th>day</th><th>GPU-hours</th></tr>"
            f"{rows}</table></details>"
        )


NO_BUDGET = "No budget limits how much you use."


def gather(days: int, *, plot: bool, now: datetime | None = None) -> Usage:
    """Asks the controller. Raises what it refuses, as a ``GPUKernelsError``."""
    now = now or datetime.now().astimezone()
    first = now.date() - timedelta(days=days - 1)
    named = os.environ.get(offer.COURSE_VARIABLE) or None
    with PoolClient.from_environment(timeout=TIMEOUT_S) as client:
        begin = datetime.combine(first, time(), now.tzinfo)
        lines = client.usage_table(since=begin.isoformat(), course=named, own=True)
        budgets = budgets_of(client, named)
    return Usage(by_day(csv.DictReader(lines.splitlines()), first, now), budgets, named, plot=plot)


def budgets_of(client: PoolClient, named: str | None) -> list[Budget]:
    """Those of the course ``named``, or of all that one is in. Raises what is refused."""
    try:
        courses = [client.course(named)] if named else client.courses()
    except UnknownCourse:
        courses = []
    return [_budget(spent, course.name) for course in courses for spent in course.budgets]


def by_day(rows: Iterable[Mapping[str, str]], first: date, now: datetime) -> list[tuple[date, float]]:
    """Each slice's GPU-hours, spread evenly from its first use to its end, by the days of ``now``'s zone."""
    sums = {first + timedelta(days=i): 0.0 for i in range((now.date() - first).days + 1)}
    opening = datetime.combine(first, time(), now.tzinfo)
    for row in rows:
        begin = max(opening, _instant(row["active_at"] or row["started_at"], now))
        end = min(now, _instant(row["ended_at"], now)) if row["ended_at"] else now
        lasted = (end - begin).total_seconds()
        if lasted <= 0:
            continue
        used = float(row["gpu_hours"])
        while begin < end:
            tomorrow = datetime.combine(begin.date() + timedelta(days=1), time(), now.tzinfo)
            until = min(end, tomorrow)
            if begin.date() in sums:
                sums[begin.date()] += used * (until - begin).total_seconds() / lasted
            begin = until
    return list(sums.items())


def _instant(text: str, now: datetime) -> datetime:
    return datetime.fromisoformat(text).astimezone(now.tzinfo)


def budget(name: str, spent: float, most: float, until: str) -> Budget:
    """What is told of a budget."""
    part = 1.0 if most <= 0 else min(1.0, spent / most)
    text = f"{name}: {hours(spent)} of {hours(most)} GPU-hours spent{until}"
    return Budget(name, spent, most, until, part, text)


def _budget(spent: Spent, course: str) -> Budget:
    whose = f"your share of {course}" if spent.whose == "user" else f"{course}, all together"
    weekly = spent.rule.endswith("per_week")
    until = ""
    if spent.until is not None:
        when = f"{datetime.fromisoformat(spent.until).astimezone():%a %d %b %H:%M}"
        until = f"; resets {when}" if weekly else f"; more comes free from {when}"
    period = "this week" if weekly else "of late"
    return budget(f"{whose}, {period}", spent.spent, spent.most, until)


def _bar(part: float) -> str:
    full = round(20 * part)
    return f"[{'#' * full}{'.' * (20 - full)}]"


def hours(value: float) -> str:
    """``0.02``, ``1.5``, ``40``: as exact as one needs it."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
