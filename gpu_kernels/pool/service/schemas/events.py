"""Server-sent events: which ones are asked for."""

from __future__ import annotations

from pydantic import Field

from gpu_kernels.pool.service.schemas.base import Query
from gpu_kernels.resources.base import pattern


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
