"""One's own slices and budgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

IN_FORCE = ("reserved", "active")
ENDING = ("draining", "quarantined")


@dataclass(frozen=True, slots=True)
class Held:
    """A slice that somebody has, waits for, or had."""

    id: str
    user: str
    course: str
    size: str
    state: str
    notebook: str
    server: str
    where: str
    gpu_class: str
    thousandths: int
    mib: int
    used_mib: int
    launches: int
    position: int | None
    starts_in: float | None
    preempt_in: float | None
    ends_in: float | None
    idle: float | None
    class_hour: bool
    reason: str
    since: str
    over: str
    holder: str

    @property
    def in_force(self) -> bool:
        return self.state in IN_FORCE

    @property
    def waits(self) -> bool:
        return self.state == "queued"

    @property
    def alive(self) -> bool:
        return self.in_force or self.waits


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


def held(lease: Mapping[str, Any]) -> Held:
    """A lease as the pages show it."""
    parts, agent = lease["slices"], lease["agent"] or {}
    indexes = ", ".join(str(part["index"]) for part in parts)
    return Held(
        id=lease["id"],
        user=lease["user"],
        course=lease["course"],
        size=lease["size"],
        state=lease["state"],
        notebook=lease["slot"]["path"],
        server=agent.get("name", ""),
        where=f"{agent['name']}/{indexes}" if agent else "",
        gpu_class=lease["gpu_class"] or "",
        thousandths=sum(part["thousandths"] for part in parts),
        mib=sum(part["mib"] for part in parts),
        used_mib=lease["use"]["used_mib"],
        launches=lease["use"]["launches"],
        position=lease["position"],
        starts_in=lease["starts_in"],
        preempt_in=lease["preempt_in"],
        ends_in=lease["ends_in"],
        idle=lease["use"]["idle"],
        class_hour=lease["class_hour"] is not None,
        reason=lease["reason"] or "",
        since=lease["created_at"],
        over=lease["ended_at"] or "",
        holder=lease["holder"],
    )


def budgets(courses: Sequence[Mapping[str, Any]]) -> list[Budget]:
    """The budgets of all courses that one is in, one's own before the courses'."""
    found = [
        Budget(course["name"], spent["whose"], spent["rule"], spent["spent"], spent["most"], spent["until"])
        for course in courses
        for spent in course["budgets"]
    ]
    return sorted(found, key=lambda budget: (budget.course, budget.whose != "user", budget.rule))


def shares(course: Mapping[str, Any]) -> list[Share]:
    """By GPU class, what a course holds and may hold at most."""
    limit, quota, holds = course["limit"], course["quota"], course["held"]
    return [
        Share(
            course["name"],
            gpu_class,
            holds.get(gpu_class, {}).get("thousandths", 0),
            _most(limit.get(gpu_class), quota.get(gpu_class)),
        )
        for gpu_class in sorted({*limit, *quota, *holds})
    ]


def _most(limit: Mapping[str, int] | None, standing: Mapping[str, Any] | None) -> int | None:
    """A course's own limit, or what stands above it, whichever is less."""
    own = None if limit is None else limit["thousandths"]
    most = None if standing is None else standing["most"]
    known = [value for value in (own, most) if value is not None]
    return min(known) if known else None
