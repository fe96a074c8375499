"""Which usage of the pool is asked for, and which part of the trail of who changed what."""

from __future__ import annotations

from pydantic import Field

from gpu_kernels.pool.service.schemas.base import CourseName, Moment, Paged, Query
from gpu_kernels.resources.base import PRINTABLE, pattern


class AccountsQuery(Query):
    """Whose usage, and when."""

    begin: Moment | None = Field(None, alias="from", description="By default 30 days before `to`")
    end: Moment | None = Field(None, alias="to", description="Not included; by default now")
    course: CourseName | None = Field(None, description="For its instructors, and `custom:gpu:read:usage`")
    user: str | None = Field(None, min_length=1, max_length=255, pattern=PRINTABLE)
    own: bool = Field(False, description="The asker's own alone, also where others' may be seen")
    time_zone: str = Field(
        "UTC",
        max_length=64,
        pattern=r"^[A-Za-z0-9_+/-]+$",
        description="For dates and weeks, such as `Europe/Berlin`",
    )


class UsageQuery(AccountsQuery):
    """What to sum by, besides whose and when."""

    by: str = Field(
        "course,gpu_class",
        max_length=64,
        pattern=pattern(
            r"^(course|user|gpu_class|week)(,(course|user|gpu_class|week))*$",
            "must name some of course, user, gpu_class, week, with commas between",
        ),
        description="Some of `course`, `user`, `gpu_class`, `week`, with commas between",
    )


class TimelineQuery(AccountsQuery):
    """Whose, when, and how finely."""

    step: int = Field(3600, ge=60, le=31 * 24 * 3600, description="Seconds; at most 1000 steps")


class AuditQuery(Paged):
    """Which events."""

    subject: str | None = Field(
        None,
        min_length=1,
        max_length=255,
        pattern=PRINTABLE,
        description="What they are about, such as a lease's id",
    )
    kind: str | None = Field(None, min_length=1, max_length=64, pattern=PRINTABLE)
