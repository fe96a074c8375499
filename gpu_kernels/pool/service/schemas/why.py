"""What the API tells of a decision."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from gpu_kernels.pool.service.schemas.base import Count, Id, Instant, Model
from gpu_kernels.pool.service.schemas.leases import StateName


class Why(Model):
    """Why a lease waits."""

    id: Id
    state: StateName
    text: str = Field(description="For its owner, as it stands")
    position: int | None = Field(description="Counts from 1; null where it does not wait")
    waiting: int = Field(description="How many wait in all")
    starts_at: Instant | None = Field(
        description="The predicted start by what is known now; null where nobody knows"
    )
    promised_for: Instant | None = Field(description="When it starts at the latest, where it holds a promise")
    full: dict[str, Any] | None = Field(description="All that was compared, for admins")


class State(Model):
    """The pool's state; its fields besides these are for the program that replays it."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    format: str
    now: Count
