"""Server-sent events: which ones are asked for, and what one holds."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from gpu_kernels.pool.service.schemas.base import Count, Instant, Model, Query, pattern


class EventsQuery(Query):
    """What to be told of."""

    topics: str = Field(
        "leases",
        max_length=2000,
        pattern=pattern(
            r"^(leases|pool|course:[^,\x00-\x1f\x7f-\x9f]{1,255})(,(leases|pool|course:[^,\x00-\x1f\x7f-\x9f]{1,255}))*$",
            "must name some of leases, course:NAME, pool, with commas between",
        ),
        description="`leases`: one's own, and that something was changed in a course of one's own, without "
        "`detail`; `course:NAME`: of a course, for its instructors and "
        "`custom:gpu:read:usage`; `pool`: everything, for `custom:gpu:admin:pool`; commas between several",
    )
    after: int | None = Field(
        None,
        ge=0,
        le=2**62,
        description="The `id` of the last event seen, where the header `Last-Event-ID` cannot be sent",
    )


class PoolEvent(Model):
    """One change. `kind` is the state that a lease has now, or names another change."""

    id: Count
    at: Instant
    kind: str
    subject: str = Field(description="What it is about, such as a lease's id")
    user: str | None
    course: str | None
    actor: str | None = Field(description="Who did it; for `pool` only")
    detail: dict[str, Any]
