"""Leases as they are asked for, and as they are told."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpu_kernels.pool.service.schemas.base import (
    BIG,
    MAX_BODY,
    PRINTABLE,
    Count,
    CourseName,
    Id,
    Instant,
    LongPoll,
    Model,
    Next,
    Paged,
    Seconds,
    ServerName,
    Text64,
    Text255,
    Thousandths,
)
from gpu_kernels.vocabulary.rules import LONGEST_LIFE

MAX_RENEWED = 10_000
MOST_LABELS, LONGEST_LABEL = 16, 256
Label = Annotated[str, Field(max_length=LONGEST_LABEL, pattern=PRINTABLE)]
StateName = Literal[
    "queued", "reserved", "active", "draining", "quarantined", "released", "expired", "revoked", "freed"
]


class Slot(Model):
    """What a lease is for. A second lease for a slot replaces the first."""

    server: ServerName
    path: str = Field(max_length=1024, pattern=PRINTABLE, description="Path of the notebook")


class Reserve(Model):
    """A request for a lease."""

    size: str = Field(
        max_length=256,
        description="Such as `0.02 V100`, `1/20 V100`, `2048 MiB`, `2 V100`, `0.1 GPU`",
        examples=["0.02 V100"],
    )
    key: str = Field(
        min_length=1,
        max_length=512,
        pattern=PRINTABLE,
        description="Idempotency key: the same key, size, course and slot give the same lease while it lives",
    )
    slot: Slot
    holder: Text255 = Field(
        description="Who will release it, such as a kernel id; asking again makes the newest asker the holder"
    )
    course: CourseName | None = Field(
        None, description="May be left out where the user is in one course only"
    )
    wait: Seconds = Field(
        0.0, description="Seconds to stand in the queue when nothing is free, at most `max_wait`"
    )
    preemptible: bool = Field(
        False,
        description="Whether it may be granted on what a class hour needs before its longest life is over; "
        "it is told when it makes way (`preempt_in`)",
    )
    wait_for_course: bool = Field(
        False,
        description="With `wait`: whether to stand in the queue also while the course holds all that it may, "
        "until somebody in it gives a slice back; else that is refused",
    )
    labels: dict[Label, Label] = Field(
        default_factory=dict, max_length=MOST_LABELS, description="Texts by name, told with the lease"
    )


class LeaseSlice(Model):
    """What a lease has of one GPU."""

    gpu: str = Field(description="UUID of the GPU")
    index: int
    mib: int
    thousandths: Thousandths


class LeaseAgent(Model):
    """The GPU server of a lease."""

    name: str
    address: str


class Use(Model):
    """What the lease's agent last reported."""

    used_mib: int
    peak_mib: int
    sessions: int
    launches: int
    idle: float | None = Field(description="Seconds since something was launched, while it is in force")


class Lease(Model):
    """A lease. `gpu_class`, `device` and `agent` are null until it is granted."""

    id: Id
    state: StateName
    epoch: Count
    user: str
    course: str
    size: str
    gpu_class: str | None
    device: str | None
    slot: Slot
    holder: str
    slices: list[LeaseSlice]
    agent: LeaseAgent | None
    secret: str | None = Field(
        description="64 hex digits for its owner while it is in force: proves to the agent who holds it"
    )
    position: int | None = Field(description="Counts from 1 while it is queued")
    starts_in: float | None = Field(
        description="Seconds until it is granted by what is known now, while it is queued; null where nobody "
        "knows; up to 15 seconds old"
    )
    expires_in: float | None = Field(description="Seconds until it ends unless renewed, while it is in force")
    ttl: float = Field(description="Seconds that it lives after a renewal")
    ends_in: float | None = Field(
        description="Seconds until its longest life is over, however it is renewed, while it is in force"
    )
    preempt_in: float | None = Field(
        description="Seconds until it makes way for a class hour, where it must while it may live"
    )
    class_hour: str | None = Field(description="The class hour whose seat it has, while the class is on")
    reason: str | None
    created_at: Instant
    ended_at: Instant | None = Field(description="Null while it lives, or its slice counts as used")
    labels: dict[str, str]
    use: Use


class LeaseList(Model):
    """Leases, newest first."""

    leases: list[Lease]


class LeasePage(Model):
    """Some of many leases, newest first."""

    leases: list[Lease]
    next: Next


class LeaseQuery(Paged):
    """Whose leases."""

    course: CourseName | None = Field(None, description="That course's, for its instructor")
    user: Text255 | None = Field(
        None, description="That user's: with `course` for its instructor, else for `custom:gpu:read:usage`"
    )
    all: bool = Field(False, description="Everyone's, for `custom:gpu:read:usage`; no secret is told")
    ended: bool = Field(False, description="Ended ones as well")


class OneLeaseQuery(LongPoll):
    """How long to wait for a queued lease."""


class Known(Model):
    """A lease and its epoch, as they were granted."""

    id: Text64
    epoch: int = Field(ge=0, le=BIG)


class Renew(Model):
    """All leases of a server at once."""

    MOST_BYTES = MAX_BODY
    leases: list[Known] = Field(max_length=MAX_RENEWED)


class Renewed(Model):
    """A lease that lives on."""

    id: str
    expires_in: float


class Lost(Model):
    """A lease that can no longer be renewed, and why."""

    id: str
    state: str
    reason: str


class Renewal(Model):
    """What became of each."""

    renewed: list[Renewed]
    lost: list[Lost]


class Release(Model):
    """Whoever gives it back."""

    holder: Text255


class ReleaseServer(Model):
    """A Jupyter server that stopped."""

    server: ServerName
    user: Text255 | None = Field(None, description="Another user's server: scope `custom:gpu:admin:pool`")


class Revoke(Model):
    """Why a lease is taken back; its user is told."""

    reason: str = Field(min_length=1, max_length=400, pattern=PRINTABLE)


class EndIdle(Model):
    """What counts as idle."""

    idle: int = Field(ge=60, le=LONGEST_LIFE, description="Seconds without a launch")
