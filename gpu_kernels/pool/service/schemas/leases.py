"""Leases as they are asked for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpu_kernels.pool.service.schemas.base import (
    CourseName,
    LongPoll,
    Model,
    Paged,
    Seconds,
    ServerName,
    Text64,
    Text255,
)
from gpu_kernels.resources.base import BIG, MAX_BODY, PRINTABLE
from gpu_kernels.vocabulary.rules import LONGEST_LIFE

MAX_RENEWED = 10_000
MOST_LABELS, LONGEST_LABEL = 16, 256
Label = Annotated[str, Field(max_length=LONGEST_LABEL, pattern=PRINTABLE)]


class WantedSlot(Model):
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
    slot: WantedSlot
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
