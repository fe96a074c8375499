"""What people type: read within bounds, carried out, and shown again with the reason where it was refused.

A form names itself in its hidden field ``do``. What is carried out answers with a redirection to the same
page (so that loading it again repeats nothing), with a code in ``done`` that the page puts into words. What
is refused answers with the page itself, every field as it was typed.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from urllib.parse import parse_qsl, urlencode, urlsplit
from zoneinfo import ZoneInfo

from tornado.web import HTTPError

from gpu_kernels.errors import Conflict, Forbidden, InvalidRequest, NotFound, PoolError, Refused
from gpu_kernels.hub_config.pages.handlers.base import PageHandler
from gpu_kernels.hub_config.pages.texts import noted
from gpu_kernels.hub_config.pages.views.calendar import FIRST_YEAR, LAST_YEAR
from gpu_kernels.units import THOUSANDTHS

_ = noted

MOST_TEXT = 400
MOST_GPUS = 100_000
_DECIMAL = re.compile(r"([0-9]{1,9})(?:[.,]([0-9]{1,3}))?")
_WHOLE = re.compile(r"[0-9]{1,9}")

DONE: Mapping[str, str] = {
    "released": _("The slice was given back."),
    "revoked": _("The slice was taken back. Its user is told the reason."),
    "limit": _("The limit holds from now on. Nothing is taken from kernels that run."),
    "rules": _("The rules hold from now on, for the next request."),
    "paused": _("The course is paused: nothing new is granted. What runs goes on."),
    "resumed": _("The course goes on: slices are granted again."),
    "override": _("The student's own rules hold from now on."),
    "override_removed": _("The course's rules hold for the student again."),
    "idle_ended": _("The idle slices were taken back."),
    "none_idle": _("No slice of the course was idle for that long; nothing was changed."),
    "booked": _("The class hour is confirmed: every meeting has all of its seats."),
    "changed": _("The class hour was changed: every meeting has all of its seats."),
    "cancelled": _("The class hour was cancelled; its seats are free for others."),
    "open": _("The server is open: slices are placed there."),
    "cordoned": _("The server is cordoned: nothing new is placed there, what is there goes on."),
    "draining": _("The server is draining: nothing new is placed there, and what is there ends."),
    "lost": _("Everything on the server was freed."),
}
"""What is told of what was carried out, by its code."""

LOOSER = _("More than an account above the course allows.")


class FieldError(Exception):
    """A field cannot be read. ``message`` says what it must be, untranslated; ``values`` fill it in."""

    def __init__(self, name: str, message: str, **values: object) -> None:
        super().__init__(message)
        self.name = name
        self.message = message
        self.values = values


@dataclass(frozen=True)
class Outcome:
    """How the last form on the page went. ``typed`` and ``errors`` are by field, of the form ``form``."""

    form: str = ""
    typed: Mapping[str, list[str]] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    status: int = 200

    def value(self, form: str, name: str, otherwise: object = "") -> str:
        """What stands in a field: what was typed, if this is the form that was refused."""
        if self.form == form and self.status != 200:
            return (self.typed.get(name) or [""])[0]
        return "" if otherwise is None else str(otherwise)

    def chosen(self, form: str, name: str, value: str, otherwise: bool = False) -> bool:
        """Whether one of several choices is made."""
        if self.form == form and self.status != 200:
            return value in self.typed.get(name, ())
        return otherwise

    def fault(self, form: str, name: str) -> str:
        return self.errors.get(name, "") if self.form == form else ""

    def refusal(self, form: str) -> str:
        return self.error if self.form == form else ""


class FormHandler(PageHandler):
    """A page with forms. ``page(outcome)`` shows it."""

    async def page(self, outcome: Outcome) -> None:
        raise NotImplementedError

    async def carry_out(self, forms: Mapping[str, Callable[[], Awaitable[str]]]) -> None:
        """Do what the form asks for; what it returns is the code of ``DONE`` to tell."""
        name = self.get_body_argument("do", "")
        if name not in forms:
            raise HTTPError(400)
        try:
            done = await forms[name]()
        except FieldError as error:
            fault = self.text(error.message, **error.values)
            await self._refused(name, {error.name: fault}, "", 422)
        except (InvalidRequest, Forbidden, Refused, Conflict, NotFound) as error:
            at = self.field_of(error)
            errors = {at: error.message} if at else dict.fromkeys(self.fields_of(error), self.text(LOOSER))
            await self._refused(name, errors, "" if at else error.message, error.status)
        else:
            self.redirect(self._here(done), status=303)

    async def _refused(self, form: str, errors: Mapping[str, str], error: str, status: int) -> None:
        typed = {
            name: [value[:MOST_TEXT] for value in self.get_body_arguments(name, strip=False)]
            for name in self.request.body_arguments
        }
        await self.page(Outcome(form, typed, errors, error, status))

    def field_of(self, error: PoolError) -> str:
        """The field that the controller's refusal is about; empty where it is about none, or several."""
        named = error.details.get("rule") or error.details.get("field")
        return named if isinstance(named, str) and named in self.request.body_arguments else ""

    def fields_of(self, error: PoolError) -> list[str]:
        """The fields of the rules that would allow more than they may, those of GPU classes too."""
        named = error.details.get("rules")
        rules = named if isinstance(named, list) else []
        return [sent for sent in self.request.body_arguments if sent.partition(".")[0] in rules]

    def _here(self, done: str) -> str:
        """This page, without what an earlier form left in its address."""
        parts = urlsplit(self.request.uri or "")
        query = [(name, value) for name, value in parse_qsl(parts.query) if name != "done"]
        return f"{parts.path}?{urlencode([*query, ('done', done)])}"

    def common(self) -> dict[str, object]:
        done = self.get_query_argument("done", "")
        told = self.text(DONE[done]) if done in DONE and self.request.method == "GET" else ""
        return {**super().common(), "done": told}

    # --- fields

    def posted(self, name: str, most: int = MOST_TEXT) -> str:
        """A field's text. Raises ``FieldError`` where it is too long."""
        text = self.get_body_argument(name, "")
        if len(text) > most:
            raise FieldError(name, _("At most %(most)s characters."), most=most)
        return text

    def needed(self, name: str, most: int = MOST_TEXT) -> str:
        text = self.posted(name, most)
        if not text:
            raise FieldError(name, _("This must be filled in."))
        return text

    def gpus(self, name: str, most: int = MOST_GPUS) -> int | None:
        """Thousandths of a GPU, of a number of GPUs; None where the field is empty."""
        found = self._decimal(name, most)
        return None if found is None else round(found * THOUSANDTHS)

    def hours(self, name: str, most: int = 10_000_000) -> float | None:
        """None where the field is empty."""
        return self._decimal(name, most)

    def whole(self, name: str, least: int, most: int) -> int | None:
        text = self.posted(name, 40)
        if not text:
            return None
        if not _WHOLE.fullmatch(text) or not least <= int(text) <= most:
            raise FieldError(name, _("A whole number from %(least)s to %(most)s."), least=least, most=most)
        return int(text)

    def _decimal(self, name: str, most: int) -> float | None:
        text = self.posted(name, 40)
        if not text:
            return None
        match = _DECIMAL.fullmatch(text)
        value = float(f"{match[1]}.{match[2] or 0}") if match else -1.0
        if not 0 <= value <= most:
            raise FieldError(
                name,
                _("A number from 0 to %(most)s, such as 0.5, with up to three decimal places."),
                most=most,
            )
        return value

    def day(self, name: str) -> str | None:
        """A date as the controller takes it; None where the field is empty."""
        text = self.posted(name, 40)
        try:
            return date.fromisoformat(text).isoformat() if text else None
        except ValueError:
            raise FieldError(name, _("A date such as 2027-02-28.")) from None

    def instant(self, name: str, zone: ZoneInfo) -> str | None:
        """A time by the institution's clock, as the controller takes it; None where the field is empty."""
        text = self.posted(name, 40)
        try:
            found = datetime.fromisoformat(text).replace(tzinfo=zone) if text else None
            if found is not None and not FIRST_YEAR <= found.year <= LAST_YEAR:
                raise ValueError  # a year more or less there is none by other clocks
            return None if found is None else found.isoformat()
        except ValueError:
            raise FieldError(name, _("A date and time such as 2027-02-28 18:00.")) from None
