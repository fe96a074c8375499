"""What was: usage of the pool, and the trail of who changed what."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from gpu_kernels.pool.service.schemas.base import (
    PRINTABLE,
    Count,
    CourseName,
    Instant,
    Model,
    Moment,
    Next,
    Paged,
    Query,
    pattern,
)

Dimension = Literal["course", "user", "gpu_class", "week"]


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


class Steps(Model):
    """Averages of the steps, in thousandths of a GPU. ``used`` counts from a slice's first worker on."""

    held: list[Count]
    used: list[Count]


class Timeline(Model):
    """What was held and used in [from, to), by GPU class; the last step may be shorter."""

    begin: Instant = Field(alias="from")
    end: Instant = Field(alias="to")
    step: int
    classes: dict[str, Steps]


class UsageSum(Model):
    """One sum; null in what was not asked to sum by.

    `gpu_hours` is what was used: from a slice's first worker to its end, times its share of the GPU.
    `held_gpu_hours` counts from the grant, `gib_hours` is of memory.
    """

    course: str | None
    user: str | None
    gpu_class: str | None
    week: str | None = Field(description="ISO week, such as `2026-W47`")
    leases: Count
    gpu_hours: float
    held_gpu_hours: float
    gib_hours: float


class Usage(Model):
    """Sums of the accounts in [from, to), largest first."""

    begin: Instant = Field(alias="from")
    end: Instant = Field(alias="to")
    by: list[Dimension]
    sums: list[UsageSum]


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


class AuditEvent(Model):
    """Who changed what, when."""

    id: Count
    at: Instant
    actor: str
    kind: str
    subject: str
    detail: dict[str, Any]


class Audit(Model):
    """The audit trail, newest first."""

    events: list[AuditEvent]
    next: Next
