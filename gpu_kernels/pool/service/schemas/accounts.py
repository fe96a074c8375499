"""Accounts of the quota tree as they are put: their quotas and their rules."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpu_kernels.pool.service.schemas.base import Model, Moment, Thousandths
from gpu_kernels.resources.base import PRINTABLE
from gpu_kernels.units import MAX_TEXT
from gpu_kernels.vocabulary.rules import (
    LONGEST_LIFE,
    LONGEST_PAUSE,
    LONGEST_WINDOW,
    MOST_CLASSES,
    MOST_HOURS,
    MOST_LEASES,
    MOST_OVERRIDES,
    MOST_SIZES,
)

Kind = Literal["institution", "faculty", "course"]
AccountName = Annotated[str, Field(min_length=1, max_length=200, pattern=PRINTABLE, examples=["science"])]
Hours = Annotated[float, Field(ge=0, le=MOST_HOURS, allow_inf_nan=False, description="GPU-hours")]
Lasting = Annotated[int, Field(ge=1, le=LONGEST_LIFE, description="Seconds")]
ByClass = Annotated[
    dict[Annotated[str, Field(max_length=32)], Thousandths],
    Field(max_length=MOST_CLASSES, description='By GPU class; `""` stands for every other one'),
]


Sizes = Annotated[
    list[Annotated[str, Field(max_length=MAX_TEXT)]],
    Field(max_length=MOST_SIZES, examples=[["0.02 V100", "0.1 V100"]]),
]
User = Annotated[str, Field(min_length=1, max_length=255, pattern=PRINTABLE)]


class Rolling(Model):
    """A budget in the last hours."""

    hours: Hours
    window: int = Field(ge=1, le=LONGEST_WINDOW, description="Hours")


class Override(Model):
    """What holds for one user of a course in place of the course's rules. `null` lifts a rule."""

    max_leases: int | None = Field(None, ge=0, le=MOST_LEASES)
    max_size: ByClass | None = None
    user_hours_per_week: Hours | None = None
    user_hours_rolling: Rolling | None = None
    sizes: Sizes | None = None
    until: Moment | None = Field(None, description="With a time zone; left out: no end")


class Rules(Model):
    """What an account says of the leases below it. What is left out comes from the account above; `null`
    lifts it.
    """

    max_leases: int | None = Field(
        None, ge=0, le=MOST_LEASES, description="Leases that one user may have in a course at once"
    )
    max_size: ByClass | None = Field(None, description="The largest slice that one lease may have, by class")
    hours_per_week: Hours | None = Field(None, description="Of a course in a calendar week")
    user_hours_per_week: Hours | None = Field(None, description="Of each user of a course in a calendar week")
    hours_rolling: Rolling | None = Field(None, description="Of a course in the last hours")
    user_hours_rolling: Rolling | None = Field(None, description="Of each user of a course in the last hours")
    longest_life: Lasting | None = Field(None, description="Seconds after which a lease ends")
    idle: Lasting | None = Field(
        None, description="Seconds without a launch after which a lease may be taken back when others wait"
    )
    sizes: Sizes | None = Field(None, description="The sizes on offer; others are refused")
    paused: str | None = Field(
        None,
        min_length=1,
        max_length=LONGEST_PAUSE,
        pattern=PRINTABLE,
        description="Why nothing new is granted at the moment; students read it. What is in force goes on",
    )
    overrides: dict[User, Override] | None = Field(
        None, max_length=MOST_OVERRIDES, description="By user, what holds in place of the rules above"
    )
    class_hours_per_week: Hours | None = Field(
        None,
        description="What a course's class hours may book of a week; by default a quarter of its GPUs",
    )
    course_limit: ByClass | None = Field(
        None, description="The hard limit of a course below without a quota of its own, by class"
    )


class Limits(Model):
    """A quota of one GPU class, in thousandths; `null` is "no such limit"."""

    nominal: Thousandths = Field(0, description="What it is sure of")
    borrowing_limit: Thousandths | None = Field(None, description="How much more it may use")
    lending_limit: Thousandths | None = Field(None, description="How much of its nominal others may use")
    hard_limit: Thousandths | None = Field(None, description="The most that it may ever hold")


class PutAccount(Model):
    """An account of the quota tree."""

    kind: Kind
    parent: AccountName | None = Field(None, description="By default the institution")
    weight: float = Field(
        1.0, ge=0.001, le=1000, allow_inf_nan=False, description="Its share when it competes with others"
    )
    rules: Rules = Field(default_factory=lambda: Rules.model_validate({}))
