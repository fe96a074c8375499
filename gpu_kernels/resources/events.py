"""Changes of the pool: the trail of who changed what, and what readers of the stream are told."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from gpu_kernels.resources.base import Count, Instant, Next, Resource


class AuditEvent(Resource, frozen=True):
    """Who changed what, when."""

    id: Count
    at: Instant
    actor: str
    kind: str
    subject: str
    detail: dict[str, Any]


class Audit(Resource, frozen=True):
    """The audit trail, newest first."""

    events: tuple[AuditEvent, ...]
    next: Next


class PoolEvent(Resource, frozen=True):
    """One change. `kind` is the state that a lease has now, or names another change."""

    id: Count
    at: Instant
    kind: str
    subject: Annotated[str, Meta(description="What it is about, such as a lease's id")]
    user: str | None
    course: str | None
    actor: Annotated[str | None, Meta(description="Who did it; for `pool` only")]
    detail: dict[str, Any]
