"""The pool, courses, and what the API says of itself."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from gpu_kernels.pool.service.schemas.accounts import Said, Spent, Standing
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


class PoolClass(Model):
    """The GPUs of one class together."""

    gpu_class: str
    gpus: int
    available: int
    allocatable_mib: int = Field(description="Of the largest one")
    used_thousandths: Thousandths
    sizes: list[str] = Field(description="Sizes on offer")


class PoolGpu(Model):
    """A GPU, what it has and what of it is in use; nobody is named."""

    agent: str
    uuid: str
    index: int
    gpu_class: str
    device: str
    name: str
    total_mib: int
    allocatable_mib: int
    used_mib: int
    used_thousandths: Thousandths
    available: bool = Field(description="Whether its agent answers")


class Pool(Model):
    """All GPUs."""

    classes: list[PoolClass]
    gpus: list[PoolGpu]
    queued: int


class Share(Model):
    """Of one GPU class."""

    thousandths: Thousandths


Shares = Annotated[dict[GpuClass, Share], Field(max_length=MOST_CLASSES)]


class Limit(Model):
    """What a course may hold at once. A class that is not named is not for the course."""

    limit: Shares = Field(examples=[{"V100": {"thousandths": 100}}])


class Course(Model):
    """A course, what it may hold, and what it holds now."""

    name: str
    limit: dict[str, Share]
    held: dict[str, Share] = Field(description="Counts leases that have ended until their agent confirms it")
    instructor: bool = Field(description="Whether the asker may change the limit")
    quota: dict[str, Standing] = Field(description="How it stands with each GPU class, in force")
    rules: dict[str, Any] = Field(description="The rules in force; see `PUT /accounts/NAME/rules`")
    budgets: list[Spent] = Field(description="How far the course's budgets and the asker's own are spent")
    faults: list[Said] = Field(description="For instructors: group properties that cannot be carried out")


class CourseList(Model):
    """Courses by name."""

    courses: list[Course]


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
