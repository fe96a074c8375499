"""Rules for each user and budgets: what an account of the quota tree says of the leases below it.

An account holds its own rules as JSON (``Account.rules``); ``RULES`` lists all there are. A rule that an
account does not name comes from its parent; one that is null holds no longer. So a budget named by a faculty
is a budget of each of its courses, not one that they share. What the instructors of a course say themselves
comes last, and may be as tight as what stands above it or tighter. ``Rules`` is what is in force for a
course, and ``Rules.of`` for one of its users, who may have rules of his own for a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from gpu_kernels.errors import InvalidRequest, InvalidSize
from gpu_kernels.units import MAX_TEXT, THOUSANDTHS, Size, parse_size, valid_class
from gpu_kernels.vocabulary.limits import EVERY_CLASS

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
MOST_SIZES = 20
MOST_OVERRIDES = 1000
MOST_NAMED = 2000
"""Sizes and GPU classes that all overrides of one account may name together: each costs time to read."""
LONGEST_PAUSE = 300
"""Characters of what students read of a pause."""
PERSONAL = ("max_leases", "max_size", "user_hours_per_week", "user_hours_rolling", "sizes")
"""The rules that one user of a course may have otherwise than the others."""
FROM_ABOVE = ("course_limit", "class_hours_per_week")
"""What only those who stand above a course say of it."""
LISTS = ("max_size", "sizes")
"""Those of them that name sizes or classes."""


@dataclass(frozen=True, slots=True)
class Rolling:
    """A budget of ``most`` thousandth-milliseconds in the last ``window`` hours."""

    most: int
    window: int


@dataclass(frozen=True, slots=True)
class Override:
    """What holds for one user in place of the course's rules, by name, until an instant (None: no end)."""

    rules: Mapping[str, Any]
    until: int | None = None


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
    sizes: tuple[Size, ...] | None = None
    paused: str | None = None
    class_hours_per_week: int | None = None
    course_limit: Mapping[str, int] = field(default_factory=dict)
    overrides: Mapping[str, Override] = field(default_factory=dict)

    def of(self, user: str, now: int) -> Rules:
        """What is in force for one user of the course at an instant."""
        own = self.overrides.get(user)
        if own is None or (own.until is not None and own.until <= now):
            return self
        return replace(self, **own.rules)

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


def _sizes(value: Any) -> tuple[Size, ...]:
    if not isinstance(value, list | tuple) or len(value) > MOST_SIZES:
        raise ValueError
    try:
        return tuple(dict.fromkeys(_size(text) for text in value))
    except InvalidSize as error:
        raise ValueError(str(error)) from error


def _size(text: Any) -> Size:
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        raise ValueError
    return parse_size(text)


def _pause(value: Any) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_PAUSE or not value.isprintable():
        raise ValueError
    return value


def _overrides(value: Any) -> dict[str, Override]:
    if not isinstance(value, Mapping) or len(value) > MOST_OVERRIDES:
        raise ValueError
    lists = [own.get(name) for own in value.values() if isinstance(own, Mapping) for name in LISTS]
    if sum(len(named) for named in lists if isinstance(named, Mapping | list | tuple)) > MOST_NAMED:
        raise ValueError
    return {user: _override(user, own) for user, own in value.items()}


def _override(user: Any, own: Any) -> Override:
    if not isinstance(user, str) or not 1 <= len(user) <= 255 or not user.isprintable():
        raise ValueError
    if not isinstance(own, Mapping) or not own.keys() <= {*PERSONAL, "until"}:
        raise ValueError
    rules = {name: None if v is None else RULES[name].read(v) for name, v in own.items() if name != "until"}
    until = own.get("until")
    if until is None:
        return Override(rules)
    if not isinstance(until, str):
        raise ValueError
    moment = datetime.fromisoformat(until)
    if moment.tzinfo is None:
        raise ValueError
    return Override(rules, int(moment.timestamp() * 1000))


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
            "sizes",
            "the sizes on offer: others are refused",
            f"a list of up to {MOST_SIZES} sizes, such as ['0.02 V100', '0.1 V100']",
            _sizes,
        ),
        Rule(
            "paused",
            "why nothing new is granted at the moment; what is in force goes on",
            f"a text of 1 to {LONGEST_PAUSE} characters on one line",
            _pause,
        ),
        Rule(
            "overrides",
            "what holds for single users in place of the rules above, until a time",
            'an object such as {"ada": {"max_leases": 4, "until": "2027-01-31T18:00+01:00"}} with any '
            f"of {', '.join(PERSONAL)}, for up to {MOST_OVERRIDES} users, "
            f"with {MOST_NAMED} sizes and classes in all",
            _overrides,
        ),
        Rule(
            "class_hours_per_week",
            "what a course's class hours may book of a week; a quarter of the GPUs of the class if left out",
            HOURS,
            _hours,
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
    """The rules in force where these raw rules stand from the root to a course, and last what its
    instructors say. Of a user's overrides the last one counts.
    """
    return merged(read_rules(raw) for raw in own)


def merged(own: Iterable[Mapping[str, Any]]) -> Rules:
    """The same of rules that ``read_rules`` has read."""
    found: dict[str, Any] = {}
    overrides: dict[str, Override] = {}
    for read in own:
        if "overrides" in read:
            overrides = {**overrides, **read["overrides"]} if read["overrides"] is not None else {}
        found.update(read)
    if found.get("course_limit") is None:
        found.pop("course_limit", None)
    return Rules(**{**found, "overrides": overrides})


def looser(read: Mapping[str, Any], above: Rules) -> list[str]:
    """The rules by which these would allow more than what stands ``above`` them: who teaches a course may
    only tighten. An override may give one user more than the course has, and no more than that.
    """
    return [name for name, value in read.items() if _is_looser(name, value, above)]


def favoured(read: Mapping[str, Any], above: Rules) -> list[str]:
    """The users whose overrides would allow more than what stands ``above`` them."""
    return [user for user, own in (read.get("overrides") or {}).items() if _gives_more(above, user, own)]


def still_tighter(read: Mapping[str, Any], above: Rules) -> dict[str, Any]:
    """What counts of the rules of a course's instructors now: what stands above may have been tightened
    since they were said, and then those that would allow more do not, nor does the override of such a user.
    """
    left = dict(read)
    if left.get("overrides"):
        not_of = set(favoured(read, above))
        left["overrides"] = {user: own for user, own in read["overrides"].items() if user not in not_of}
    return {name: value for name, value in left.items() if not _is_looser(name, value, above)}


def _is_looser(name: str, value: Any, above: Rules) -> bool:
    if name != "overrides":
        return name in FROM_ABOVE or _more(getattr(above, name), value)
    if value is None:
        return bool(above.overrides)
    return any(_gives_more(above, user, own) for user, own in value.items())


def _gives_more(above: Rules, user: str, own: Override) -> bool:
    """Whether an override gives a user more than he has without it, where those above have said something of
    him: it takes the place of theirs as a whole, and nothing does when it has ended.
    """
    theirs = above.overrides.get(user)
    if theirs is None:
        return any(_more(getattr(above, name), value) for name, value in own.rules.items())
    if own.until is not None and (theirs.until is None or own.until < theirs.until):
        return True
    bound = replace(above, **theirs.rules)
    return any(_more(getattr(bound, name), own.rules.get(name, getattr(above, name))) for name in PERSONAL)


def _more(above: Any, value: Any) -> bool:
    return above is not None and value is not above and _allows_more(value, above)


def _allows_more(value: Any, above: Any) -> bool:
    if value is None:
        return True
    if isinstance(above, str):
        return False  # a pause for another reason is a pause
    if isinstance(above, tuple):
        offered = set(above)
        return not all(size in offered or replace(size, gpu_class=None) in offered for size in value)
    if isinstance(above, Rolling):
        return bool(value.window < above.window or value.most > above.most)
    if isinstance(above, Mapping):
        limits = [(of_class(value, c), of_class(above, c)) for c in {*value, *above, EVERY_CLASS}]
        return any(up is not None and (mine is None or mine > up) for mine, up in limits)
    return bool(value > above)


def on_offer(size: Size, sizes: Iterable[Size]) -> bool:
    """Whether a size is one of these; one that names no class stands for that size of each."""
    return any(
        (size.gpus, size.mib) == (offered.gpus, offered.mib) and offered.gpu_class in (None, size.gpu_class)
        for offered in sizes
    )


def of_class(amounts: Mapping[str, int] | None, gpu_class: str) -> int | None:
    """What a map by class says of one."""
    if amounts is None:
        return None
    return amounts.get(gpu_class, amounts.get(EVERY_CLASS))


def instant(at: int) -> str:
    """An instant for programs."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds")


def hours_text(hours: float) -> str:
    """GPU-hours for people, as finely as a budget may be given: ``40``, ``3.5``, ``0.125``."""
    return f"{hours:.3f}".rstrip("0").rstrip(".")
