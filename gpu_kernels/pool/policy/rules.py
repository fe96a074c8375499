"""Rules for each user and budgets: what an account of the quota tree says of the leases below it.

An account holds its own rules as JSON (``Account.rules``); ``RULES`` lists all there are. A rule that an
account does not name comes from its parent; one that is null holds no longer. So a budget named by a faculty
is a budget of each of its courses, not one that they share. ``Rules`` is what is in force for a course.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from gpu_kernels.errors import BudgetSpent, InvalidRequest, Refused, SizeLimit, TooMany
from gpu_kernels.pool.policy.model import RuleBinds
from gpu_kernels.pool.policy.quota import EVERY_CLASS
from gpu_kernels.pool.policy.refusals import WITHOUT_GPU
from gpu_kernels.units import ANY_CLASS, THOUSANDTHS, Size, thousandths_text, valid_class

HOUR = 3_600_000
GPU_HOUR = THOUSANDTHS * HOUR
"""One GPU-hour in thousandth-milliseconds, which spending is counted in."""
LONGEST_WINDOW = 14 * 24
"""Hours that a rolling window may have: what was spent is remembered for so long."""
LONGEST_LIFE = 31 * 24 * 3600
MOST_LEASES = 10_000
MOST_HOURS = 10_000_000
MOST_CLASSES = 64
MOST_THOUSANDTHS = 100_000 * THOUSANDTHS
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True)
class Rolling:
    """A budget of ``most`` thousandth-milliseconds in the last ``window`` hours."""

    most: int
    window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is in force for a course; None is "no such rule". Budgets are thousandth-milliseconds, times are
    milliseconds.
    """

    max_leases: int | None = None
    max_size: Mapping[str, int] | None = None
    hours_per_week: int | None = None
    user_hours_per_week: int | None = None
    hours_rolling: Rolling | None = None
    user_hours_rolling: Rolling | None = None
    longest_life: int | None = None
    idle: int | None = None
    course_limit: Mapping[str, int] = field(default_factory=dict)

    def largest(self, gpu_class: str) -> int | None:
        """The largest slice of a class that one lease may have."""
        return of_class(self.max_size, gpu_class)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. ``read`` takes its JSON and gives what ``Rules`` holds, or raises ``ValueError`` with what
    it must be.
    """

    name: str
    says: str
    must_be: str
    read: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Spent:
    """How far a budget is spent; amounts are thousandth-milliseconds. ``until``: when it has something again
    if it is used up (an instant in milliseconds). ``window``: its hours, None for the calendar week.
    """

    rule: str
    whose: str
    amount: int
    most: int
    until: int | None
    window: int | None = None


def _whole(most: int, scale: int = 1) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise ValueError
        return value * scale

    return read


def _hours(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_HOURS:
        raise ValueError
    return round(value * THOUSANDTHS) * HOUR


def _rolling(value: Any) -> Rolling:
    if not isinstance(value, Mapping) or value.keys() != {"hours", "window"}:
        raise ValueError
    window = _whole(LONGEST_WINDOW)(value["window"])
    if window == 0:
        raise ValueError
    return Rolling(_hours(value["hours"]), window)


def _by_class(value: Any) -> dict[str, int]:
    if not isinstance(value, Mapping) or len(value) > MOST_CLASSES:
        raise ValueError
    read = _whole(MOST_THOUSANDTHS)
    if not all(isinstance(name, str) and (name == EVERY_CLASS or valid_class(name)) for name in value):
        raise ValueError
    return {name: read(amount) for name, amount in value.items()}


HOURS = f"a number of GPU-hours from 0 to {MOST_HOURS}"
ROLLING = f'{{"hours": {HOURS}, "window": hours from 1 to {LONGEST_WINDOW}}}'
BY_CLASS = 'thousandths of a GPU by GPU class, such as {"V100": 500}, "" standing for every other class'

RULES: Mapping[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule(
            "max_leases",
            "leases that one user may have in a course at once",
            f"a whole number from 0 to {MOST_LEASES}",
            _whole(MOST_LEASES),
        ),
        Rule("max_size", "the largest slice that one lease may have", BY_CLASS, _by_class),
        Rule("hours_per_week", "budget of a course in a calendar week", HOURS, _hours),
        Rule("user_hours_per_week", "budget of each user of a course in a calendar week", HOURS, _hours),
        Rule("hours_rolling", "budget of a course in the last hours", ROLLING, _rolling),
        Rule("user_hours_rolling", "budget of each user of a course in the last hours", ROLLING, _rolling),
        Rule(
            "longest_life",
            "seconds after which a lease ends, however much it is used",
            f"a whole number of seconds from 1 to {LONGEST_LIFE}",
            lambda value: _whole(LONGEST_LIFE, 1000)(value if value != 0 else None),
        ),
        Rule(
            "idle",
            "seconds without a launch after which a lease may be taken back when others wait",
            f"a whole number of seconds from 1 to {LONGEST_LIFE}",
            lambda value: _whole(LONGEST_LIFE, 1000)(value if value != 0 else None),
        ),
        Rule(
            "course_limit",
            "the hard limit of a course below that has no quota of its own of the class",
            BY_CLASS,
            _by_class,
        ),
    )
}
"""Every rule by its name; the reference documents each."""


def read_rules(raw: object) -> dict[str, Any]:
    """An account's own rules as ``Rules`` holds them, by name. Raises ``InvalidRequest``, which names the
    rule and what it must be.
    """
    if not isinstance(raw, Mapping):
        raise InvalidRequest("'rules' must be an object.")
    read: dict[str, Any] = {}
    for name, value in raw.items():
        rule = RULES.get(name)
        if rule is None:
            known = ", ".join(RULES)
            raise InvalidRequest(f"There is no rule {str(name)[:50]!r}. The rules are: {known}.")
        try:
            read[name] = None if value is None else rule.read(value)
        except ValueError:
            raise InvalidRequest(
                f"The rule {name!r} must be {rule.must_be}, or null; not {str(value)[:50]!r}.",
                details={"rule": name},
            ) from None
    return read


def resolve(own: Iterable[Mapping[str, Any]]) -> Rules:
    """The rules in force where these raw rules stand from the root to a course."""
    merged: dict[str, Any] = {}
    for raw in own:
        merged.update(read_rules(raw))
    if merged.get("course_limit") is None:
        merged.pop("course_limit", None)
    return Rules(**merged)


def looser(raw: Mapping[str, Any], inherited: Rules, in_force: Rules) -> list[str]:
    """The rules by which an account would allow more than it does, or than stands above it: who teaches a
    course may only tighten, also what an admin has said of the course itself.

    ``inherited``: what is in force above the account; ``in_force``: for the account, with its own so far.
    """
    own, found = read_rules(raw), []
    for name in {**own, **RULES}:
        value = own.get(name, getattr(inherited, name))
        bounds = (getattr(inherited, name), getattr(in_force, name))
        more = any(most is not None and _allows_more(value, most) for most in bounds)
        if more or (name == "course_limit" and name in own):
            found.append(name)
    return found


def _allows_more(value: Any, above: Any) -> bool:
    if value is None:
        return True
    if isinstance(above, Rolling):
        return bool(value.window < above.window or value.most > above.most)
    if isinstance(above, Mapping):
        limits = [(of_class(value, c), of_class(above, c)) for c in {*value, *above, EVERY_CLASS}]
        return any(up is not None and (mine is None or mine > up) for mine, up in limits)
    return bool(value > above)


def of_class(amounts: Mapping[str, int] | None, gpu_class: str) -> int | None:
    """What a map by class says of one."""
    if amounts is None:
        return None
    return amounts.get(gpu_class, amounts.get(EVERY_CLASS))


def check(
    course: str, demands: Mapping[str, int], rules: Rules, held: int, spent: Sequence[Spent]
) -> RuleBinds | None:
    """The rule that stands against one more lease, if any.

    ``demands``: thousandths that it would take, by class, of all that it might use: none may be too large.
    ``held``: leases that its user has in the course, without one that this would replace. No rule goes away
    by waiting in the queue.
    """
    for gpu_class, asked in sorted(demands.items()):
        largest = rules.largest(gpu_class)
        if largest is not None and asked > largest:
            return RuleBinds("max_size", "user", course, asked, largest, gpu_class=gpu_class)
    if rules.max_leases is not None and held >= rules.max_leases:
        return RuleBinds("max_leases", "user", course, held, rules.max_leases)
    used_up = [budget for budget in spent if budget.amount >= budget.most]
    if not used_up:
        return None
    last = max(used_up, key=lambda budget: (budget.most == 0, budget.until or 0))
    return RuleBinds(
        last.rule,
        last.whose,
        course,
        last.amount / GPU_HOUR,
        last.most / GPU_HOUR,
        until=last.until if last.most else None,
        window=last.window,
    )


def refusal(binds: RuleBinds, size: Size, now: int, zone: ZoneInfo) -> Refused:
    """What a student reads of a rule that stands against a request: what, how much, until when, what now."""
    details: dict[str, Any] = {
        "rule": binds.rule,
        "course": binds.account,
        "has": binds.has,
        "most": binds.most,
        "until": None if binds.until is None else instant(binds.until),
    }
    if binds.rule == "max_size":
        return SizeLimit(_too_large(binds, size), details={**details, "gpu_class": binds.gpu_class})
    if binds.rule == "max_leases":
        return TooMany(_too_many(binds), details=details)
    retry_after = None if binds.until is None else max(1.0, (binds.until - now) / 1000)
    return BudgetSpent(_spent(binds, zone), retry_after=retry_after, details=details)


def _too_large(binds: RuleBinds, size: Size) -> str:
    most = thousandths_text(int(binds.most), binds.gpu_class or ANY_CLASS)
    if binds.most == 0:
        return (
            f"No lease of {binds.account} may use {binds.gpu_class}.\n"
            f"Choose another GPU class, ask your instructor, {WITHOUT_GPU}"
        )
    return (
        f"{size} is more than one lease of {binds.account} may have: {most} at most.\n"
        f"Choose a smaller size, or ask your instructor for a larger one, {WITHOUT_GPU}"
    )


def _too_many(binds: RuleBinds) -> str:
    if binds.most == 0:
        return (
            f"{binds.account} takes no GPU kernels at the moment: its limit for each user is 0.\n"
            f"Ask your instructor when it does, {WITHOUT_GPU}"
        )
    kernels = "1 GPU kernel" if binds.has == 1 else f"{binds.has:g} GPU kernels"
    return (
        f"You have {kernels} in {binds.account}; {binds.most:g} at once is the limit for each user.\n"
        "Another one can start as soon as you have shut one down.\n"
        f"Shut one down and try again, {WITHOUT_GPU}"
    )


def _spent(binds: RuleBinds, zone: ZoneInfo) -> str:
    whose = (
        f"The GPU budget of {binds.account}"
        if binds.whose == "course"
        else f"Your GPU budget in {binds.account}"
    )
    hours = "hour" if binds.window == 1 else f"{binds.window} hours"
    span = "this week" if binds.window is None else f"in the last {hours}"
    lines = [f"{whose} is used up: {hours_text(binds.has)} of {hours_text(binds.most)} GPU-hours {span}."]
    if binds.until is not None:
        when = wall_clock(binds.until, zone)
        renewed = "It begins anew on" if binds.window is None else "The first of it is back on"
        lines.append(f"{renewed} {when}.")
    again = "Try again then" if binds.until is not None else "Ask your instructor when there is one"
    lines.append(f"{again}, ask your instructor for a larger one, {WITHOUT_GPU}")
    return "\n".join(lines)


def hours_text(hours: float) -> str:
    """GPU-hours for people, as finely as a budget may be given: ``40``, ``3.5``, ``0.125``."""
    return f"{hours:.3f}".rstrip("0").rstrip(".")


def instant(at: int) -> str:
    """An instant for programs."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds")


def wall_clock(at: int, zone: ZoneInfo) -> str:
    """An instant for people, by the institution's clocks: ``Mon 23 Nov 2026, 00:00 (Europe/Berlin)``."""
    local = datetime.fromtimestamp(at / 1000, zone)
    day = f"{DAYS[local.weekday()]} {local.day} {MONTHS[local.month - 1]} {local.year}"
    return f"{day}, {local.hour:02d}:{local.minute:02d} ({zone.key})"
