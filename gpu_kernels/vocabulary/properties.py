"""Flat ``gpu_*`` properties of JupyterHub groups, as people type them in the hub's admin panel.

Each is one text. ``PROPERTIES`` lists all there are. ``read`` takes a text apart and gives the canonical
text, which reads the same whatever classes the pool has later; ``Wanted`` is what the canonical texts of one
group say together. A text that cannot be read raises ``BadProperty``, which says what was read and what is
allowed; whoever calls keeps the last good text in force.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from gpu_kernels.errors import InvalidRequest, InvalidSize
from gpu_kernels.units import THOUSANDTHS, parse_size, thousandths_text, valid_class
from gpu_kernels.vocabulary.limits import COURSE, KINDS, Limits
from gpu_kernels.vocabulary.rules import MOST_CLASSES, MOST_THOUSANDTHS, hours_text, read_rules

PREFIX = "gpu_"
LONGEST_TEXT = 500
LONGEST_NAME = 64
MOST_PROPERTIES = 40
NONE = "none"
LIGHTEST, HEAVIEST = 0.001, 1000.0
STARTS = ("lazy", "patient")
"""How kernels of a course start where no GPU is free: at once, or when there is one."""
SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400}

_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,3})?")
_DECIMAL_COMMA = re.compile(r"[0-9],[0-9]")
_CLASS_FIRST = re.compile(r"(?P<class>[^\s:=]+)\s*[:=]\s*(?P<number>\S+)")
_CLASS_LAST = re.compile(r"(?P<number>\S+)\s+(?P<class>[^\s:=]+)")
_DURATION = re.compile(r"(?P<number>[0-9.]+)\s*(?P<unit>[a-z]+)")
_ROLLING = re.compile(r"(?P<hours>[0-9.]+)(\s*h)?\s+in\s+(?P<window>[0-9]{1,9})\s*h")

Reader = Callable[[str, Collection[str]], Any]


class BadProperty(ValueError):
    """A property's text cannot be read. ``str()`` is for the admin."""


@dataclass(frozen=True, slots=True)
class Property:
    """One property. ``rule``: the rule that it sets; ``quota``: the field of the quota that it sets;
    ``grading``: the property that it is to the course's grading account.
    """

    name: str
    says: str
    allowed: str
    example: str
    read: Reader
    write: Callable[[Any], str] = str
    rule: str | None = None
    quota: str | None = None
    grading: str | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a group's properties say together, but for what they say of the course's grading account.
    ``limits``: by GPU class, the fields that are said of it.
    ``start`` is the spawners' business.
    """

    kind: str = COURSE
    parent: str | None = None
    weight: float | None = None
    start: str | None = None
    rules: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def quota(self, gpu_class: str) -> Limits:
        return Limits(**self.limits[gpu_class])


def _thousandths(word: str) -> int:
    if not _NUMBER.fullmatch(word):
        raise ValueError
    whole, _, places = word.partition(".")
    amount = int(whole) * THOUSANDTHS + int(places.ljust(3, "0"))
    if amount > MOST_THOUSANDTHS:
        raise ValueError
    return amount


def _by_class(text: str, classes: Collection[str]) -> dict[str, int]:
    if _NUMBER.fullmatch(text):
        if len(classes) != 1:
            has = f"has {', '.join(sorted(classes))}" if classes else "has no GPU as yet"
            raise BadProperty(f"the pool {has}: name the class, as in 'V100: {text}'")
        return {next(iter(classes)): _thousandths(text)}
    found: dict[str, int] = {}
    for part in re.split(r"[,;]", text):
        match = _CLASS_FIRST.fullmatch(part.strip()) or _CLASS_LAST.fullmatch(part.strip())
        if match is None or not valid_class(match["class"]) or match["class"] in found:
            raise ValueError
        found[match["class"]] = _thousandths(match["number"])
    if len(found) > MOST_CLASSES:
        raise ValueError
    return found


def _write_by_class(amounts: Mapping[str, int]) -> str:
    parts = ((c, thousandths_text(v, c).removesuffix(f" {c}")) for c, v in sorted(amounts.items()))
    return ", ".join(f"{gpu_class}: {number}" for gpu_class, number in parts)


def _whole(text: str, _: Collection[str]) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", text):
        raise ValueError
    return int(text)


def _hours(text: str, _: Collection[str]) -> float:
    number = text.removesuffix("h").rstrip()
    if not _NUMBER.fullmatch(number):
        raise ValueError
    return float(number)


def _rolling(text: str, classes: Collection[str]) -> dict[str, Any]:
    match = _ROLLING.fullmatch(text)
    if match is None:
        raise ValueError
    return {"hours": _hours(match["hours"], classes), "window": int(match["window"])}


def _duration(text: str, _: Collection[str]) -> int:
    match = _DURATION.fullmatch(text)
    if match is None or match["unit"] not in SECONDS or not _NUMBER.fullmatch(match["number"]):
        raise ValueError
    return round(float(match["number"]) * SECONDS[match["unit"]])


def _weight(text: str, _: Collection[str]) -> float:
    if not _NUMBER.fullmatch(text) or not LIGHTEST <= float(text) <= HEAVIEST:
        raise ValueError
    return float(text)


def _sizes(text: str, _: Collection[str]) -> list[str]:
    try:
        return [str(parse_size(part)) for part in re.split(r"[,;]", text)]
    except InvalidSize as error:
        raise BadProperty(str(error).splitlines()[0]) from None


def _line(text: str, _: Collection[str]) -> str:
    if not text or not text.isprintable():
        raise ValueError
    return text


def _start(text: str, _: Collection[str]) -> str:
    if text not in STARTS:
        raise ValueError
    return text


def _kind(text: str, _: Collection[str]) -> str:
    if text not in KINDS:
        raise ValueError
    return text


def _name(text: str, _: Collection[str]) -> str:
    if not 1 <= len(text) <= 255 or not text.isprintable():
        raise ValueError
    return text


def or_none(read: Reader) -> Reader:
    """A rule may be lifted: "none" says that what stands above does not hold here."""
    return lambda text, classes: None if text.casefold() == NONE else read(text, classes)


def _or_none(write: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: NONE if value is None else write(value)


GPUS = (
    "a number of GPUs with up to three decimal places for each class ('V100: 0.5, A100: 2'), "
    "or one number ('0.5') where the pool has one class"
)
HOURS = "a number of GPU-hours ('40'), or 'none'"
ROLLING = "GPU-hours in a window of hours ('8 in 24 h'), or 'none'"
WHOLE = "a whole number ('2'), or 'none'"
DURATION = "a time with its unit, s, min, h or d ('12 h', '30 min'), or 'none'"


def _amounts(name: str, says: str, quota: str) -> Property:
    return Property(name, says, GPUS, "V100: 0.5", _by_class, _write_by_class, quota=quota)


def _rule(
    rule: str, says: str, allowed: str, example: str, read: Reader, write: Callable[[Any], str] = str
) -> Property:
    return Property(f"{PREFIX}{rule}", says, allowed, example, or_none(read), _or_none(write), rule=rule)


def _write_rolling(value: Mapping[str, Any]) -> str:
    return f"{hours_text(value['hours'])} in {value['window']} h"


def _write_duration(seconds: int) -> str:
    """In the largest unit of which it is a whole number: ``12 h``, ``90 s``."""
    unit = max((unit for unit, size in SECONDS.items() if seconds % size == 0), key=SECONDS.__getitem__)
    return f"{seconds // SECONDS[unit]} {unit}"


PROPERTIES: Mapping[str, Property] = {
    made.name: made
    for made in (
        _amounts("gpu_limit", "hard limit: the most that it may hold at once", "hard_limit"),
        _amounts("gpu_nominal", "nominal: what it is sure of", "nominal"),
        _amounts("gpu_borrowing", "borrowing limit: how much beyond its nominal", "borrowing_limit"),
        _amounts("gpu_lending", "lending limit: how much of its nominal others may use", "lending_limit"),
        _rule("max_leases", "GPU kernels of one user at once", WHOLE, "2", _whole),
        _rule("max_size", "the largest slice of one kernel", f"{GPUS}, or 'none'", "V100: 0.1", _by_class,
              _write_by_class),
        _rule("hours_per_week", "budget of a course in a calendar week", HOURS, "40", _hours, hours_text),
        _rule("user_hours_per_week", "budget of each user in a calendar week", HOURS, "4", _hours,
              hours_text),
        _rule("hours_rolling", "budget of a course in the last hours", ROLLING, "20 in 24 h", _rolling,
              _write_rolling),
        _rule("user_hours_rolling", "budget of each user in the last hours", ROLLING, "2 in 24 h", _rolling,
              _write_rolling),
        _rule("longest_life", "the longest time that a kernel keeps its GPU", DURATION, "12 h", _duration,
              _write_duration),
        _rule("idle", "idle time after which others who wait may get the GPU", DURATION, "30 min", _duration,
              _write_duration),
        _rule("sizes", "the sizes on offer", "sizes with commas between ('0.02 V100, 0.1 V100'), or 'none'",
              "0.02 V100, 0.1 V100", _sizes, ", ".join),
        _rule("paused", "why nothing new is granted at the moment", "a text on one line, or 'none'",
              "The exam is on until 12:00.", _line),
        _rule("class_hours_per_week", "what a course's class hours may book of a week; 'none': a quarter of "
              "the pool's GPUs of the class", HOURS, "12", _hours, hours_text),
        _rule("course_limit", "hard limit of each course below that has no limit of its own",
              f"{GPUS}, or 'none'", "V100: 0.5", _by_class, _write_by_class),
        Property("gpu_grading", "the most that grading runs of the course may hold at once, in an account of "
                 "their own", GPUS, "V100: 0.1", _by_class, _write_by_class, grading="gpu_limit"),
        Property("gpu_grading_hours_per_week", "budget of the grading runs in a calendar week", HOURS, "10",
                 or_none(_hours), _or_none(hours_text), grading="gpu_hours_per_week"),
        Property("gpu_weight", "share when several compete; others have 1",
                 f"a number from {LIGHTEST:g} to {HEAVIEST:g}", "2", _weight, hours_text),
        Property("gpu_parent", "the faculty or institution that it belongs to", "the name of an account",
                 "science", _name),
        Property("gpu_start", "how kernels start where no GPU is free: at once, or when there is one",
                 "lazy or patient", "patient", _start),
        Property("gpu_kind", "what the group stands for", "course, faculty or institution", "faculty", _kind),
    )
}  # fmt: skip
"""Every property by its name; the reference documents each."""


def read(name: str, value: object, classes: Collection[str]) -> str:
    """The canonical text of a property as the hub tells it.

    ``classes``: the GPU classes of the pool. Raises ``BadProperty``.
    """
    made = PROPERTIES.get(name)
    if made is None:
        near = get_close_matches(name[:LONGEST_NAME], PROPERTIES, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(PROPERTIES)}."
        raise BadProperty(f"There is no property {name[:LONGEST_NAME]}; {hint}")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadProperty(f"{name} must be a text: {made.allowed}.")
    text = " ".join(str(value).split())
    why = ""
    if len(text) <= LONGEST_TEXT:
        try:
            parsed = made.read(text, classes)
            rule = made.rule if made.grading is None else PROPERTIES[made.grading].rule
            if rule is not None:
                read_rules({rule: parsed})
            return made.write(parsed)
        except BadProperty as error:
            why = f": {error}"
        except InvalidRequest as error:
            why = f": {error.message}"
        except ValueError:
            if _DECIMAL_COMMA.search(text):
                point = text if len(text) > 50 else _DECIMAL_COMMA.sub(lambda m: m[0].replace(",", "."), text)
                why = f": write decimals with a point, as in '{point}'"
    shown = text if len(text) <= 60 else f"{text[:60]}..."
    raise BadProperty(f"{name} cannot be read as {shown!r}{why}. It must be {made.allowed}.")


def wanted(canonical: Mapping[str, str]) -> Wanted:
    """What a group's canonical texts say together."""
    rules: dict[str, Any] = {}
    limits: dict[str, dict[str, int]] = {}
    rest: dict[str, Any] = {}
    for name, text in canonical.items():
        made = PROPERTIES[name]
        if made.grading is not None:
            continue
        value = made.read(text, ())
        if made.rule is not None:
            rules[made.rule] = value
        elif made.quota is not None:
            for gpu_class, amount in value.items():
                limits.setdefault(gpu_class, {})[made.quota] = amount
        else:
            rest[name.removeprefix(PREFIX)] = value
    return Wanted(rules=rules, limits=limits, **rest)


def of_grading(canonical: Mapping[str, str]) -> dict[str, str]:
    """What these texts of a course's group say of its grading account, as texts of a group of its own."""
    said = ((PROPERTIES[name].grading, text) for name, text in canonical.items())
    return {counterpart: text for counterpart, text in said if counterpart is not None}
