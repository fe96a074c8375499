"""Limits of courses, and what the API says of itself."""

from __future__ import annotations

from typing import Annotated, Any, Literal

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


class GroupsHealth(Model):
    """How it stands with the hub's groups."""

    age: float | None = Field(description="Seconds since they were last carried out; null: not yet")
    fault: str | None = Field(description="Why they cannot be read now; what was read last stays in force")
    faulty_properties: int = Field(description="Properties that cannot be carried out")


class Health(Model):
    """That the ledger can be read; `ledger_mismatch` must be 0."""

    status: str
    version: str
    role: Literal["active", "standby"]
    active: str | None = Field(description="On standby: where the active controller is, if that is known")
    ledger_mismatch: int | None = Field(description="Null on standby")
    groups: GroupsHealth | None = Field(description="Null without a hub")


class Version(Model):
    """A version of the API, and where it is."""

    version: str
    path: str
    document: str


class VersionList(Model):
    """The versions of the API, oldest first, and the controller's own version."""

    versions: list[Version]
    controller: str
