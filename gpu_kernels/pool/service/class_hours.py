"""Class hours: an instructor reserves seats at the same times each week."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_kernels.errors import (
    ClassHourFull,
    Conflict,
    Forbidden,
    InvalidSize,
    NoSuchClass,
    NotAMember,
    TooMany,
    UnknownClassHour,
    UnknownCourse,
)
from gpu_kernels.pool.ledger.commands.class_hours import bookings
from gpu_kernels.pool.ledger.queries.class_hour_views import class_hour_view
from gpu_kernels.pool.ledger.queries.class_hour_views import class_hours as listed
from gpu_kernels.pool.ledger.state.rows import ClassHour
from gpu_kernels.pool.ledger.stores.cursors import read_cursor, write_cursor
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy import refusals
from gpu_kernels.pool.service.base import Handler
from gpu_kernels.pool.service.identity import READ_USAGE
from gpu_kernels.pool.service.operations import operation
from gpu_kernels.pool.service.schemas import class_hours as schemas
from gpu_kernels.resources import class_hours as resources
from gpu_kernels.vocabulary import calendar

READERS = "members and instructors of the course, and `custom:gpu:read:usage`"
CHANGERS = "instructors of the course, and `custom:gpu:admin:quota`"


class ClassHourHandler(Handler):
    def sees(self, course: str) -> bool:
        """Whether the course's class hours are for this token to see."""
        identity = self.identity
        return (
            identity.belongs_to(course) or identity.teaches(course) or identity.may(READ_USAGE, course=course)
        )

    def require_teacher(self, course: str) -> None:
        if not self.identity.teaches(course):
            if not self.sees(course):
                raise refusals.not_of_course(self.identity.name, course[:200])
            raise Forbidden(
                f"{self.identity.name} may not change class hours of {course}; its instructors may.",
                details={"course": course},
            )

    def visible(self, tx: Transaction, class_hour: str) -> ClassHour:
        """The class hour; one that is not for this token to see is as unknown as one that does not exist."""
        row = tx.book.class_hours.get(class_hour)
        if row is None or not self.sees(row.course):
            raise UnknownClassHour(f"There is no class hour {class_hour[:40]!r}.")
        return row

    async def page(self, query: schemas.ClassHoursOfQuery, course: str | None) -> None:
        after = None if query.after is None else read_cursor(query.after, (str, str))

        def visible(name: str) -> bool:
            return course in (None, name) and self.sees(name)

        def look(tx: Transaction) -> list[resources.ClassHour]:
            key = None if after is None else (str(after[0]), str(after[1]))
            return listed(tx, visible, past=query.past, after=key, limit=query.limit + 1)

        views = await self.service.desk.read(look)
        told = views[: query.limit]
        more = len(views) > len(told)
        following = write_cursor((told[-1].course, told[-1].id)) if more else None
        self.link_next(following)
        self.answer(resources.ClassHourPage(tuple(told), following))


class ClassHours(ClassHourHandler):
    """``/class-hours``"""

    @operation(
        "List class hours",
        who=READERS,
        query=schemas.ClassHoursQuery,
        answers={200: resources.ClassHourPage},
        errors=[NotAMember],
    )
    async def get(self, *, query: schemas.ClassHoursQuery) -> None:
        """Of one's courses, by course, each with its next meetings."""
        if query.course is not None and not self.sees(query.course):
            raise refusals.not_of_course(self.identity.name, query.course[:200])
        await self.page(query, query.course)

    @operation(
        "Reserve a class hour",
        who=CHANGERS,
        body=schemas.NewClassHour,
        answers={201: resources.ClassHour},
        errors=[ClassHourFull, InvalidSize, NoSuchClass, NotAMember, TooMany, UnknownCourse],
    )
    async def post(self, *, body: schemas.NewClassHour) -> None:
        """Confirmed as a whole: each meeting of the next half year has all of its seats, or nothing is kept;
        then `details` says how many would fit at each that lacks any, and at which times all would.
        """
        self.require_teacher(body.course)
        actor = self.identity.name

        def make(tx: Transaction) -> resources.ClassHour:
            row = bookings.create(tx, _pattern(tx, body), actor=actor)
            return class_hour_view(tx, row)

        self.answer(await self.service.desk.write(make), status=201)


class ClassHoursOf(ClassHourHandler):
    """``/courses/NAME/class-hours``"""

    @operation(
        "List a course's class hours",
        who=READERS,
        query=schemas.ClassHoursOfQuery,
        answers={200: resources.ClassHourPage},
        errors=[NotAMember],
    )
    async def get(self, name: str, *, query: schemas.ClassHoursOfQuery) -> None:
        """The same as `GET /class-hours` with `course`."""
        if not self.sees(name):
            raise refusals.not_of_course(self.identity.name, name[:200])
        await self.page(query, name)


class OneClassHour(ClassHourHandler):
    """``/class-hours/ID``"""

    @operation("See a class hour", who=READERS, answers={200: resources.ClassHour}, errors=[UnknownClassHour])
    async def get(self, class_hour_id: str) -> None:
        """With all of its meetings of the next half year."""

        def look(tx: Transaction) -> resources.ClassHour:
            return class_hour_view(tx, self.visible(tx, class_hour_id))

        self.answer(await self.service.desk.read(look))

    @operation(
        "Change a class hour",
        who=CHANGERS,
        body=schemas.ChangedClassHour,
        answers={200: resources.ClassHour},
        errors=[ClassHourFull, Conflict, InvalidSize, NoSuchClass, UnknownClassHour],
    )
    async def patch(self, class_hour_id: str, *, body: schemas.ChangedClassHour) -> None:
        """Confirmed anew as a whole, or nothing changes. A meeting whose lead time has come stays as it is,
        but on a date that is left out now: that one is cancelled.
        """
        fields = _fields(body.model_dump(exclude_none=True))
        actor = self.identity.name

        def change(tx: Transaction) -> resources.ClassHour:
            self.require_teacher(self.visible(tx, class_hour_id).course)
            return class_hour_view(tx, bookings.change(tx, class_hour_id, fields, actor=actor))

        self.answer(await self.service.desk.write(change))

    @operation(
        "Cancel a class hour", who=CHANGERS, answers={200: resources.ClassHour}, errors=[UnknownClassHour]
    )
    async def delete(self, class_hour_id: str) -> None:
        """All of its seats return to the pool; who sits on one keeps it as an ordinary lease. Repeating it is
        harmless.
        """
        actor = self.identity.name

        def cancel(tx: Transaction) -> resources.ClassHour:
            self.require_teacher(self.visible(tx, class_hour_id).course)
            return class_hour_view(tx, bookings.cancel(tx, class_hour_id, actor=actor))

        self.answer(await self.service.desk.write(cancel))


def _pattern(tx: Transaction, body: schemas.NewClassHour) -> bookings.Pattern:
    zone = body.time_zone or tx.site.zone.key or "UTC"
    minutes = body.minutes
    if body.end is not None:
        minutes = calendar.minutes_between(body.start, body.end)
    assert minutes is not None
    fields = body.model_dump(exclude={"end", "minutes", "time_zone", "first_date"})
    return bookings.Pattern(
        **_fields(fields),
        minutes=minutes,
        time_zone=zone,
        first_date=body.first_date or calendar.wall_text(tx.now, zone)[:10],
    )


def _fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A body's fields as the ledger's."""
    told = dict(fields)
    if "weekdays" in told:
        told["weekdays"] = calendar.parse_weekdays(" ".join(told["weekdays"]))
    if "except_dates" in told:
        told["except_dates"] = tuple(told["except_dates"])
    return told
