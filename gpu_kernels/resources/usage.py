"""Who used how much of which GPUs."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gpu_kernels.resources.base import Count, Instant, Resource, one_of

DIMENSIONS = ("course", "user", "gpu_class", "week")
"""What usage is summed by."""


class UsageSum(Resource, frozen=True):
    """One sum; null in what was not asked to sum by.

    `gpu_hours` is what was used: from a slice's first worker to its end, times its share of the GPU.
    `held_gpu_hours` counts from the grant, `gib_hours` is of memory.
    """

    course: str | None
    user: str | None
    gpu_class: str | None
    week: Annotated[str | None, Meta(description="ISO week, such as `2026-W47`")]
    leases: Count
    gpu_hours: float
    held_gpu_hours: float
    gib_hours: float


class Usage(Resource, frozen=True, rename={"begin": "from", "end": "to"}):
    """Sums of the accounts in [from, to), largest first."""

    begin: Instant
    end: Instant
    by: tuple[Annotated[str, one_of(DIMENSIONS)], ...]
    sums: tuple[UsageSum, ...]


class Steps(Resource, frozen=True):
    """Averages of the steps, in thousandths of a GPU. ``used`` counts from a slice's first worker on."""

    held: tuple[Count, ...] = ()
    used: tuple[Count, ...] = ()


class Timeline(Resource, frozen=True, rename={"begin": "from", "end": "to"}):
    """What was held and used in [from, to), by GPU class; the last step may be shorter."""

    begin: Instant
    end: Instant
    step: int
    classes: dict[str, Steps]
