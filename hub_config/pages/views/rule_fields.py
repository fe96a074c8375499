"""What stands in the fields of a course's rules: its own, and in grey what is in force without them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hub_config.pages.wording import gpus_text, plain_number

NO_OVERRIDE: dict[str, Any] = {
    "user_hours_per_week": None,
    "max_leases": None,
    "max_size": None,
    "until": None,
}


class RuleFields:
    def __init__(self, own: Mapping[str, Any], in_force: Mapping[str, Any]) -> None:
        self.own = own
        self._in_force = in_force

    def number(self, rule: str, unit: int = 1) -> str:
        value = self.own.get(rule)
        return "" if value is None else plain_number(value / unit)

    def above(self, rule: str, unit: int = 1) -> str:
        value = self._in_force.get(rule)
        return "" if value is None or rule in self.own else plain_number(value / unit)

    def size(self, gpu_class: str) -> str:
        value = (self.own.get("max_size") or {}).get(gpu_class)
        return "" if value is None else gpus_text(value)

    def size_above(self, gpu_class: str) -> str:
        """Of the class, or of every class that is not named."""
        sizes = self._in_force.get("max_size") or {}
        value = sizes.get(gpu_class, sizes.get(""))
        return "" if value is None else gpus_text(value)
