"""``/courses/NAME/class-hours``: a course's seats in the week, booked, changed and cancelled."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, ClassVar

from gpu_kernels.hub_config.pages.handlers import asking
from gpu_kernels.hub_config.pages.handlers.forms import FieldError, FormHandler, Outcome
from gpu_kernels.hub_config.pages.texts import noted
from gpu_kernels.hub_config.pages.views import calendar
from gpu_kernels.resources.class_hours import WEEKDAYS, ClassHour

_ = noted

MOST_SEATS = 2000
_CLOCK = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]")


class ClassHours(FormHandler):
    fragments: ClassVar[frozenset[str]] = frozenset({"week", "list"})

    async def get(self, name: str) -> None:
        await self.page(Outcome())

    async def page(self, outcome: Outcome) -> None:
        name = self.path_args[0]
        course, hours, pool = await asking.together(
            self.pool.course(name), self.pool.class_hours(name), self.pool.pool()
        )
        today = datetime.now(self.lab.zone).date()
        monday = calendar.monday_of(self.get_query_argument("week", "")[:20], today)
        self.show(
            "class_hours.html",
            status=outcome.status,
            outcome=outcome,
            course=course,
            hours=hours,
            week=calendar.week(hours, monday, self.lab.zone),
            today=today,
            classes=pool.classes,
            editing=self._editing(hours, outcome),
            weekday_names=WEEKDAYS,
            zone=str(self.lab.zone),
            end_of=calendar.end_of,
            size_example=next((size for c in pool.classes for size in c.sizes), "0.02 V100"),
        )

    def _editing(self, hours: list[ClassHour], outcome: Outcome) -> ClassHour | None:
        """The class hour that is to be changed, by the page's address or by a form that was refused."""
        wanted = self.get_query_argument("change", "") or (outcome.typed.get("id") or [""])[0]
        return next((hour for hour in hours if hour.id == wanted), None)

    async def post(self, name: str) -> None:
        await self.carry_out({"book": self._book, "change": self._change, "cancel": self._cancel})

    async def _book(self) -> str:
        first = self.day("first_date")
        await self.pool.add_class_hour(
            course=self.path_args[0], **self._fields(), **({"first_date": first} if first else {})
        )
        return "booked"

    async def _change(self) -> str:
        await self.pool.change_class_hour(self.needed("id", 64), **self._fields())
        return "changed"

    async def _cancel(self) -> str:
        await self.pool.cancel_class_hour(self.needed("id", 64))
        return "cancelled"

    def _fields(self) -> dict[str, Any]:
        seats = self.whole("seats", 1, MOST_SEATS)
        if seats is None:
            raise FieldError("seats", _("This must be filled in."))
        last = self.day("last_date")
        if last is None:
            raise FieldError("last_date", _("This must be filled in."))
        return {
            "size": self.needed("size", 64),
            "seats": seats,
            "weekdays": self._weekdays(),
            "start": self._clock("start"),
            "minutes": self._minutes(),
            "last_date": last,
            "except_dates": self._except_dates(),
        }

    def _weekdays(self) -> list[str]:
        chosen = set(self.get_body_arguments("weekdays")) & set(WEEKDAYS)
        if not chosen:
            raise FieldError("weekdays", _("Choose at least one day."))
        return sorted(chosen, key=WEEKDAYS.index)

    def _clock(self, name: str) -> str:
        text = self.needed(name, 40)
        if not _CLOCK.fullmatch(text):
            raise FieldError(name, _("A time such as 10:15."))
        return text

    def _minutes(self) -> int:
        """From the start to the end; an end before the start is on the next day."""
        begin, end = (
            int(text[:2]) * 60 + int(text[3:]) for text in (self._clock("start"), self._clock("end"))
        )
        minutes = (end - begin) % (24 * 60)
        if minutes == 0:
            raise FieldError("end", _("The end must be another time than the start."))
        return minutes

    def _except_dates(self) -> list[str]:
        texts = self.posted("except_dates", 2400).replace(",", " ").split()
        try:
            return sorted({datetime.strptime(text, "%Y-%m-%d").date().isoformat() for text in texts})
        except ValueError:
            raise FieldError(
                "except_dates", _("Dates such as 2027-05-06, with spaces or commas between.")
            ) from None
