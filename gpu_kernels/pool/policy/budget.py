"""What was spent of budgets: GPU-hours in a calendar week, or in the last N hours.

Spending is the area under what a course (or a user in it) has in use: thousandths of GPUs times
milliseconds, both integers, so that sums are exact in whatever order leases come and go. A window is a pair
of instants; what was spent in it is the difference of two running sums.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from gpu_kernels.vocabulary.rules import HOUR, LONGEST_WINDOW, Rules, Spent

WEEK = 7 * 24 * HOUR


def week_of(now: int, zone: ZoneInfo) -> tuple[int, int]:
    """The ISO week around an instant: from one Monday 00:00 of the zone's wall clock to the next.

    Weeks tile time, and have an hour more or less where the clocks change. A midnight that the clocks skip
    is the instant at which they do; of two midnights the first counts.
    """
    day = datetime.fromtimestamp(now / 1000, zone).date()
    monday = day - timedelta(days=day.weekday())
    start, end = (_midnight(monday + timedelta(weeks=weeks), zone) for weeks in (0, 1))
    if now >= end:  # clocks set back over midnight show the old week's last hour again, in the new one
        start, end = end, _midnight(monday + timedelta(weeks=2), zone)
    return start, end


def _midnight(day: date, zone: ZoneInfo) -> int:
    moment = datetime.combine(day, time.min, tzinfo=zone)
    return int(moment.astimezone(UTC).timestamp()) * 1000


@dataclass(slots=True)
class _Sum:
    """The running sum up to ``at``: of the first ``seen`` changes, with the rate that they left."""

    at: int
    seen: int = 0
    area: int = 0
    rate: int = 0


class Spending:
    """What one course, or one user in it, has in use over time.

    Instants are milliseconds of the store's clock. Changes may be told in any order; questions about later
    instants than before are cheap.
    """

    def __init__(self) -> None:
        self._times: list[int] = []
        self._deltas: list[int] = []
        self._base = _Sum(-(2**62))
        self._sums: dict[str, _Sum] = {}

    def change(self, at: int, thousandths: int) -> None:
        """From ``at`` on so much more (or less) is in use."""
        counted = 0
        if at > self._base.at:
            first, index = bisect_left(self._times, at), bisect_right(self._times, at)
            taken_back = next((i for i in range(first, index) if self._deltas[i] == -thousandths), None)
            if taken_back is not None:
                counted = -1
                del self._times[taken_back], self._deltas[taken_back]
            else:
                counted = 1
                self._times.insert(index, at)
                self._deltas.insert(index, thousandths)
        for running in (self._base, *self._sums.values()):
            if running.at >= at:
                running.seen += counted
                running.area += thousandths * (running.at - at)
                running.rate += thousandths

    def spent(self, since: int, until: int, window: str = "") -> int:
        """Thousandth-milliseconds from ``since`` to ``until``. ``window`` names the question: each name has
        its own running sum.
        """
        return self._area(until, "now") - self._area(since, f"since {window}")

    def free_at(self, most: int, length: int, now: int) -> int:
        """When the last ``length`` milliseconds will hold less than ``most``, should nothing more be used;
        ``now`` if they do already.
        """
        surplus = self._area(now, "now") - most
        running = self._moved(self._from_base(), max(now - length, self._base.at))
        while running.area <= surplus and running.at < now:
            following = self._times[running.seen] if running.seen < len(self._times) else now
            gained = running.rate * (min(following, now) - running.at)
            if running.area + gained > surplus:
                return running.at + (surplus - running.area) // running.rate + 1 + length
            self._moved(running, min(following, now))
        return max(now, running.at + length)

    def forget(self, before: int) -> None:
        """Drop the changes before an instant; no question may then be about an earlier one."""
        if before <= self._base.at:
            return
        self._sums = {name: running for name, running in self._sums.items() if running.at >= before}
        dropped = bisect_right(self._times, before)
        self._base = self._moved(self._from_base(), before)
        self._base.seen = 0
        del self._times[:dropped], self._deltas[:dropped]
        for running in self._sums.values():
            running.seen -= dropped

    @property
    def idle(self) -> bool:
        """Whether nothing is in use and nothing is remembered."""
        return not self._times and self._base.rate == 0

    def _area(self, at: int, name: str) -> int:
        running = self._sums.get(name)
        if running is None or running.at > at:
            running = self._sums[name] = self._from_base()
        return self._moved(running, max(at, self._base.at)).area

    def _from_base(self) -> _Sum:
        return _Sum(self._base.at, 0, self._base.area, self._base.rate)

    def _moved(self, running: _Sum, at: int) -> _Sum:
        """Move a running sum forward; changes at the instant itself are seen."""
        while running.seen < len(self._times) and self._times[running.seen] <= at:
            index = running.seen
            running.area += running.rate * (self._times[index] - running.at)
            running.at = self._times[index]
            running.rate += self._deltas[index]
            running.seen += 1
        running.area += running.rate * (at - running.at)
        running.at = at
        return running


class Budgets:
    """What each course and each user in it has spent, as far back as a window may reach.

    The ledger tells every slice that is paid for, from when it first ran to when it ended (None while it
    runs), and takes back what it told before a change: ``remove`` and ``add`` undo each other.
    """

    def __init__(self, zone: ZoneInfo) -> None:
        self.zone = zone
        self._forgotten_at = 0
        self._spending: dict[tuple[str, str], Spending] = {}
        self._week = (0, 0)

    def add(self, course: str, user: str, thousandths: int, since: int, until: int | None = None) -> None:
        for key in ((course, ""), (course, user)):
            spending = self._spending.setdefault(key, Spending())
            spending.change(since, thousandths)
            if until is not None:
                spending.change(until, -thousandths)

    def remove(self, course: str, user: str, thousandths: int, since: int, until: int | None = None) -> None:
        self.add(course, user, -thousandths, since, until)

    def forget(self, now: int) -> None:
        """Drop what no window reaches back to any more."""
        self._forgotten_at = now
        for spending in self._spending.values():
            spending.forget(now - LONGEST_WINDOW * HOUR)
        self._spending = {key: spending for key, spending in self._spending.items() if not spending.idle}

    def week(self, now: int) -> tuple[int, int]:
        """The calendar week around an instant, in the institution's time zone."""
        if not self._week[0] <= now < self._week[1]:
            self._week = week_of(now, self.zone)
        return self._week

    def spent(self, course: str, user: str, rules: Rules, now: int) -> tuple[Spent, ...]:
        """Each budget that the rules set, with what is spent of it and when it has something again."""
        if now - self._forgotten_at > HOUR:
            self.forget(now)
        found = []
        start, end = self.week(now)
        for rule, whose, most in (
            ("hours_per_week", "course", rules.hours_per_week),
            ("user_hours_per_week", "user", rules.user_hours_per_week),
        ):
            if most is not None:
                spending = self._of(course, user, whose)
                found.append(Spent(rule, whose, spending.spent(start, now, "week"), most, end))
        for rule, whose, rolling in (
            ("hours_rolling", "course", rules.hours_rolling),
            ("user_hours_rolling", "user", rules.user_hours_rolling),
        ):
            if rolling is not None:
                spending = self._of(course, user, whose)
                length = rolling.window * HOUR
                amount = spending.spent(now - length, now, "rolling")
                until = spending.free_at(rolling.most, length, now) if amount >= rolling.most else None
                found.append(Spent(rule, whose, amount, rolling.most, until, rolling.window))
        return tuple(found)

    def _of(self, course: str, user: str, whose: str) -> Spending:
        return self._spending.get((course, user if whose == "user" else "")) or Spending()
