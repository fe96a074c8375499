"""What the API tells of a decision."""

from __future__ import annotations

from pydantic import ConfigDict

from gpu_kernels.pool.service.schemas.base import Count, Model


class State(Model):
    """The pool's state; its fields besides these are for the program that replays it."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    format: str
    now: Count
