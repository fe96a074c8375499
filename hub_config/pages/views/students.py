"""A course's people: who holds, who waits, who used how much."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_kernels.resources.leases import Lease
from gpu_kernels.resources.usage import UsageSum

A_PAGE = 500


@dataclass(slots=True)
class Student:
    """One user of a course. ``budget``: of GPU-hours a week, None where there is none."""

    user: str
    holds: list[Lease] = field(default_factory=list)
    waits: list[Lease] = field(default_factory=list)
    used: float = 0.0
    budget: float | None = None
    override: Mapping[str, Any] | None = None

    @property
    def level(self) -> str:
        if not self.budget:
            return "ok"
        return "over" if self.used >= self.budget else "near" if self.used >= 0.8 * self.budget else "ok"


@dataclass(frozen=True, slots=True)
class Students:
    """A page of them; ``pages`` counts all, ``page`` from 1."""

    shown: Sequence[Student]
    count: int
    page: int
    pages: int
    holding: int
    waiting: int


def students(
    leases: Iterable[Lease],
    usage: Iterable[UsageSum],
    rules: Mapping[str, Any],
    *,
    page: int = 1,
    find: str = "",
) -> Students:
    """Everyone who holds, waits, used something this week or has rules of their own; who waits comes first,
    then who holds, then the rest by what they used.
    """
    by_user: dict[str, Student] = {}

    def of(user: str) -> Student:
        return by_user.setdefault(user, Student(user))

    for lease in leases:
        (of(lease.user).waits if lease.queued else of(lease.user).holds).append(lease)
    for entry in usage:
        of(entry.user or "").used += entry.gpu_hours
    overrides = rules.get("overrides") or {}
    for user, override in overrides.items():
        of(user).override = override
    for student in by_user.values():
        own = (student.override or {}).get("user_hours_per_week")
        student.budget = own if own is not None else rules.get("user_hours_per_week")
    found = [student for student in by_user.values() if find.casefold() in student.user.casefold()]
    found.sort(key=lambda s: (not s.waits, not s.holds, -s.used, s.user))
    pages = max(1, -(-len(found) // A_PAGE))
    page = min(max(1, page), pages)
    return Students(
        found[(page - 1) * A_PAGE : page * A_PAGE],
        len(found),
        page,
        pages,
        sum(bool(student.holds) for student in found),
        sum(bool(student.waits) for student in found),
    )


def used_by_class(usage: Iterable[UsageSum]) -> dict[str, float]:
    """GPU-hours by GPU class."""
    sums: dict[str, float] = defaultdict(float)
    for entry in usage:
        sums[entry.gpu_class or ""] += entry.gpu_hours
    return dict(sorted(sums.items()))
