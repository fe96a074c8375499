"""What an event of the audit trail tells besides its kind, on a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LONGEST_NAME = 16


def short(subject: str) -> str:
    """The beginning of an id that is too long to read."""
    return subject if len(subject) <= LONGEST_NAME else f"{subject[:8]}\N{HORIZONTAL ELLIPSIS}"


def changes(detail: Mapping[str, Any]) -> str:
    """``{"from": {"V100": 100}, "to": {"V100": 1500}}`` -> ``V100: 100 → 1500``; what is the same before and
    after is left out.
    """
    if isinstance(detail.get("to"), Mapping):
        before, after = flat(detail.get("from") or {}), flat(detail["to"])
        told = [
            f"{name}: {before.get(name, '')} \N{RIGHTWARDS ARROW} {after.get(name, '')}"
            for name in {**before, **after}
            if before.get(name) != after.get(name)
        ]
        rest = flat({name: value for name, value in detail.items() if name not in ("from", "to")})
    else:
        told, rest = [], flat(detail)
    return ", ".join([*told, *(f"{name}: {value}" for name, value in rest.items())])


def flat(value: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested objects as one, their names with points between; without what is empty."""
    found: dict[str, Any] = {}
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            found |= flat(inner, f"{above}{name}.")
        elif inner not in (None, "", []):
            found[f"{above}{name}"] = ", ".join(map(str, inner)) if isinstance(inner, list) else inner
    return found
