"""One's own slices and budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_kernels.resources.accounts import Standing
from gpu_kernels.resources.courses import Course


@dataclass(frozen=True, slots=True)
class Budget:
    """How far one budget is spent; ``left`` says whether anything is."""

    course: str
    whose: str
    rule: str
    spent: float
    most: float
    until: str | None

    @property
    def left(self) -> float:
        return max(0.0, self.most - self.spent)

    @property
    def level(self) -> str:
        """``ok``, ``near`` its end (four fifths), or ``over``."""
        if self.spent >= self.most:
            return "over"
        return "near" if self.spent >= 0.8 * self.most else "ok"


@dataclass(frozen=True, slots=True)
class Share:
    """What a course holds of a GPU class, beside what it may."""

    course: str
    gpu_class: str
    held: int
    most: int | None

    @property
    def level(self) -> str:
        if self.most is None:
            return "ok"
        if self.held >= self.most:
            return "over"
        return "near" if self.held >= 0.8 * self.most else "ok"


def budgets(courses: Sequence[Course]) -> list[Budget]:
    """The budgets of all courses that one is in, one's own before the courses'."""
    found = [
        Budget(course.name, spent.whose, spent.rule, spent.spent, spent.most, spent.until)
        for course in courses
        for spent in course.budgets
    ]
    return sorted(found, key=lambda budget: (budget.course, budget.whose != "user", budget.rule))


def shares(course: Course) -> list[Share]:
    """By GPU class, what a course holds and may hold at most."""
    limits, quota, holds = course.limits, course.quota, course.holds
    return [
        Share(course.name, c, holds.get(c, 0), _most(limits.get(c), quota.get(c)))
        for c in sorted({*limits, *quota, *holds})
    ]


def _most(own: int | None, standing: Standing | None) -> int | None:
    """A course's own limit, or what stands above it, whichever is less."""
    most = None if standing is None else standing.most
    known = [value for value in (own, most) if value is not None]
    return min(known) if known else None
