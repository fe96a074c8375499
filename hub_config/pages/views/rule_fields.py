"""What stands in the fields of a course's rules: its own, and in grey what is in force without them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_kernels.hub_config.pages.wording import gpus_text, plain_number
from gpu_kernels.resources.accounts import Account, WithoutEffect

NO_OVERRIDE: dict[str, Any] = {
    "sizes": None,
    "user_hours_rolling": None,
    "user_hours_per_week": None,
    "max_leases": None,
    "max_size": None,
    "until": None,
}


class RuleFields:
    """``own``: what the course's instructors say; ``account``: as the controller tells the course's, None
    where the visitor may not see it; ``in_force``: what holds.
    """

    def __init__(self, account: Account | None, in_force: Mapping[str, Any]) -> None:
        self.own: Mapping[str, Any] = {} if account is None else account.taught_rules
        lost = WithoutEffect((), ()) if account is None else account.taught_without_effect
        self._without_effect = frozenset(lost.rules)
        self._users = frozenset(lost.users)
        self._in_force = in_force

    def number(self, rule: str, unit: int = 1) -> str:
        value = self.own.get(rule)
        return "" if value is None else plain_number(value / unit)

    def above(self, rule: str, unit: int = 1) -> str:
        value = self._in_force.get(rule)
        return "" if value is None or rule in self.own else plain_number(value / unit)

    def instead(self, rule: str, unit: int = 1) -> str:
        """What holds in place of one's own, where that does not count since what stands above is tighter."""
        value = self._in_force.get(rule)
        return "" if value is None or rule not in self._without_effect else plain_number(value / unit)

    def size(self, gpu_class: str) -> str:
        value = (self.own.get("max_size") or {}).get(gpu_class)
        return "" if value is None else gpus_text(value)

    def size_above(self, gpu_class: str) -> str:
        """Of the class, or of every class that is not named."""
        sizes = self._in_force.get("max_size") or {}
        value = sizes.get(gpu_class, sizes.get(""))
        return "" if value is None else gpus_text(value)

    def size_instead(self, gpu_class: str) -> str:
        lost = "max_size" in self._without_effect and self.size(gpu_class)
        return self.size_above(gpu_class) if lost else ""

    @property
    def sizes(self) -> str:
        return ", ".join(self.own.get("sizes") or ())

    @property
    def sizes_in_force(self) -> str:
        return ", ".join(self._in_force.get("sizes") or ())

    @property
    def sizes_instead(self) -> str:
        return self.sizes_in_force if "sizes" in self._without_effect else ""

    def override(self, student: str) -> dict[str, Any]:
        """One student's own rules, as they were said."""
        said = (self.own.get("overrides") or {}).get(student)
        return NO_OVERRIDE | dict(said or (self._in_force.get("overrides") or {}).get(student, {}))

    def has_override(self, student: str) -> bool:
        return student in (self.own.get("overrides") or {})

    def override_lost(self, student: str) -> bool:
        """Whether it does not count, since what stands above is tighter."""
        return student in self._users
