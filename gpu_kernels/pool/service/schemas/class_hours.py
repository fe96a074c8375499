"""Class hours as an instructor asks for them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gpu_kernels.pool.service.schemas.base import CourseName, Model, Paged
from gpu_kernels.resources.base import pattern
from gpu_kernels.vocabulary.calendar import DAY_MINUTES, MOST_EXCEPT_DATES, MOST_SEATS

Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
Weekdays = Annotated[list[Weekday], Field(min_length=1, max_length=7, examples=[["monday", "thursday"]])]
Clock = Annotated[
    str,
    Field(
        pattern=pattern(r"^([01][0-9]|2[0-3]):[0-5][0-9]$", "must be a time from 00:00 to 23:59"),
        examples=["10:00"],
    ),
]
End = Annotated[
    str,
    Field(
        pattern=pattern(r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$", "must be a time from 00:01 to 24:00"),
        examples=["11:30"],
    ),
]
Date = Annotated[
    str,
    Field(
        pattern=pattern(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", "must be a date such as 2027-03-15"),
        examples=["2027-03-15"],
    ),
]
Dates = Annotated[list[Date], Field(max_length=MOST_EXCEPT_DATES)]
Zone = Annotated[str, Field(min_length=1, max_length=64, examples=["Europe/Berlin"])]
Size = Annotated[
    str, Field(max_length=256, examples=["0.02 V100"], description="Of one seat; one GPU at most")
]
Seats = Annotated[int, Field(ge=1, le=MOST_SEATS)]
Minutes = Annotated[int, Field(ge=1, le=DAY_MINUTES)]
Lead = Annotated[
    int, Field(ge=0, le=DAY_MINUTES, description="Minutes before the start in which seats are kept clear")
]
Late = Annotated[
    int,
    Field(
        ge=1, le=DAY_MINUTES, description="Minutes after the start for which seats wait for their students"
    ),
]


class NewClassHour(Model):
    """Seats for a course at the same times each week; its length is given by `end` or by `minutes`."""

    course: CourseName
    size: Size
    seats: Seats
    weekdays: Weekdays
    start: Clock
    end: End | None = Field(None, description="On the same day, `24:00` at the latest")
    minutes: Minutes | None = Field(None, description="Instead of `end`, for a class that goes past midnight")
    time_zone: Zone | None = Field(None, description="Whose wall clock; the institution's if left out")
    first_date: Date | None = Field(None, description="Today if left out")
    last_date: Date
    except_dates: Dates = Field(default_factory=list, description="Days on which there is no class")
    lead_minutes: Lead = 10
    late_minutes: Late = 15

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if (self.end is None) == (self.minutes is None):
            raise ValueError("Give either 'end' or 'minutes'.")
        return self


class ChangedClassHour(Model):
    """What is to be otherwise; what is not named stays as it is."""

    size: Size | None = None
    seats: Seats | None = None
    weekdays: Weekdays | None = None
    start: Clock | None = None
    minutes: Minutes | None = None
    time_zone: Zone | None = None
    first_date: Date | None = None
    last_date: Date | None = None
    except_dates: Dates | None = None
    lead_minutes: Lead | None = None
    late_minutes: Late | None = None


class ClassHoursOfQuery(Paged):
    """Which of a course's class hours."""

    past: bool = Field(False, description="Those that are over or cancelled too")


class ClassHoursQuery(ClassHoursOfQuery):
    """Which class hours."""

    course: CourseName | None = Field(None, description="One's own courses if left out")
