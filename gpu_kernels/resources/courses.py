"""Courses, what they may hold, and what they hold now."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from gpu_kernels.resources.accounts import Said, Spent, Standing
from gpu_kernels.resources.base import Resource, Thousandths


class Share(Resource, frozen=True):
    """Of one GPU class."""

    thousandths: Thousandths


class Course(Resource, frozen=True, kw_only=True):
    """A course, what it may hold, and what it holds now."""

    name: str
    limit: dict[str, Share]
    held: Annotated[
        dict[str, Share], Meta(description="Counts leases that have ended until their agent confirms it")
    ]
    quota: Annotated[dict[str, Standing], Meta(description="How it stands with each GPU class, in force")]
    rules: Annotated[dict[str, Any], Meta(description="The rules in force; see `PUT /accounts/NAME/rules`")]
    budgets: Annotated[
        tuple[Spent, ...], Meta(description="How far the course's budgets and the asker's own are spent")
    ]
    faults: Annotated[
        tuple[Said, ...],
        Meta(description="For instructors: group properties that cannot be carried out"),
    ]
    instructor: Annotated[bool, Meta(description="Whether the asker may change the limit")]

    @property
    def limits(self) -> dict[str, int]:
        """Its limit in thousandths, by GPU class."""
        return {gpu_class: share.thousandths for gpu_class, share in self.limit.items()}

    @property
    def holds(self) -> dict[str, int]:
        """What it holds in thousandths, by GPU class."""
        return {gpu_class: share.thousandths for gpu_class, share in self.held.items()}


class CourseList(Resource, frozen=True):
    """Courses by name."""

    courses: tuple[Course, ...]
