"""Limits of courses, and the one shape of errors."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from gpu_kernels.pool.service.schemas.base import GpuClass, Model, Thousandths

MOST_CLASSES = 64


class ErrorBody(Model):
    """What went wrong, for a program and for the user."""

    code: str = Field(examples=["course_limit"])
    message: str = Field(description="For the user as it stands: a few lines of plain text")
    retry_after: float | None = Field(description="Seconds; null where trying again will not help")
    details: dict[str, Any] = Field(description="The numbers of the message")


class Error(Model):
    """The one shape of all errors."""

    error: ErrorBody


class WantedShare(Model):
    """Of one GPU class."""

    thousandths: Thousandths


Shares = Annotated[dict[GpuClass, WantedShare], Field(max_length=MOST_CLASSES)]


class Limit(Model):
    """What a course may hold at once. A class that is not named is not for the course."""

    limit: Shares = Field(examples=[{"V100": {"thousandths": 100}}])
