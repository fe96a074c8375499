"""What an event of the audit trail tells besides its kind, on a line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpu_kernels.hub_config.pages.texts import noted
from gpu_kernels.hub_config.pages.wording import SHORT_WEEKDAYS, gpus_text

_ = noted

LONGEST_NAME = 16
IN_THOUSANDTHS = ("limit", "quota")
_IN_THOUSANDTHS = re.compile(r"(^|\.)(max_size|course_limit)\.")

KINDS = (
    (
        _("Limits and rules"),
        ("limit", "quota", "account", "taught", "property", "property_fault"),
    ),
    (
        _("Class hours"),
        (
            "class_hour_made", "class_hour_changed", "class_hour_cancelled", "class_hour_open",
            "class_hour_over", "class_hour_returned", "class_hour_short",
        ),
    ),
    (
        _("Servers"),
        (
            "registered", "registration_refused", "open", "cordoned", "draining", "declared_lost", "fenced",
            "outside_memory", "agent_token_added", "agent_token_removed",
        ),
    ),
    (
        _("Slices"),
        (
            "queued", "reserved", "active", "released", "expired", "revoked", "quarantined",
            "freed", "replaced", "restored", "seated",
        ),
    ),
)  # fmt: skip
"""What the audit trail can be asked for, by what it is about, in the controller's words."""


def short(subject: str) -> str:
    """The beginning of an id that is too long to read."""
    return subject if len(subject) <= LONGEST_NAME else f"{subject[:8]}\N{HORIZONTAL ELLIPSIS}"


def changes(detail: Mapping[str, Any], kind: str = "") -> str:
    """``{"from": {"V100": 100}, "to": {"V100": 1500}}`` -> ``V100: 0.1 → 1.5`` of a limit; what is the same
    before and after is left out.
    """
    if isinstance(detail.get("to"), Mapping):
        before, after = flat(detail.get("from") or {}), flat(detail["to"])
        told = [
            f"{name}: {_amount(kind, name, before)} \N{RIGHTWARDS ARROW} {_amount(kind, name, after)}"
            for name in {**before, **after}
            if before.get(name) != after.get(name)
        ]
        rest = flat({name: value for name, value in detail.items() if name not in ("from", "to")})
    else:
        told, rest = [], flat(detail)
    return ", ".join([*told, *(f"{name}: {_amount(kind, name, rest)}" for name in rest)])


def _amount(kind: str, name: str, values: Mapping[str, Any]) -> str:
    """A value as people say it: GPUs rather than thousandths, days by their names."""
    value = values.get(name, "")
    if isinstance(value, int) and (kind in IN_THOUSANDTHS or _IN_THOUSANDTHS.search(name)):
        return gpus_text(value)
    if name == "weekdays" and str(value).isdigit():
        return " ".join(SHORT_WEEKDAYS[int(digit) - 1] for digit in str(value) if digit in "1234567")
    return str(value)


def flat(value: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested objects as one, their names with points between; without what is empty."""
    found: dict[str, Any] = {}
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            found |= flat(inner, f"{above}{name}.")
        elif inner not in (None, "", []):
            found[f"{above}{name}"] = ", ".join(map(str, inner)) if isinstance(inner, list) else inner
    return found
