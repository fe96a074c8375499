"""Class hours as they are told: seats of a course at the same times each week, and their meetings."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gpu_kernels.resources.base import Id, Instant, Next, Resource, one_of

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


class Meeting(Resource, frozen=True, kw_only=True):
    """One meeting of a class hour, and how its seats stand.

    `planned` seats are sure to be there at the start; `held` ones wait for a student, `taken` ones have
    one. `short`: seats that a lost GPU server cost.
    """

    date: str
    starts_at: Instant
    ends_at: Instant
    state: Annotated[str, one_of(("planned", "open"))]
    planned: int
    held: int
    taken: int
    short: int


class ClassHour(Resource, frozen=True, kw_only=True):
    """Seats that are kept for a course at the same times each week, and its next meetings."""

    id: Id
    course: str
    size: str
    seats: int
    weekdays: tuple[Annotated[str, one_of(WEEKDAYS)], ...]
    start: str
    minutes: int
    time_zone: str
    first_date: str
    last_date: str
    except_dates: tuple[str, ...]
    lead_minutes: int
    late_minutes: int
    created_by: str
    created_at: Instant
    state: Annotated[str, one_of(("confirmed", "over", "cancelled"))]
    meetings: Annotated[tuple[Meeting, ...], Meta(description="The next ones; three of each in a list")]


class ClassHourPage(Resource, frozen=True):
    """Class hours by course."""

    class_hours: tuple[ClassHour, ...]
    next: Next = None
