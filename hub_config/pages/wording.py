"""Amounts, times and states as people read them, in one language and by one clock."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from gpu_kernels.hub_config.pages.texts import Language, noted
from gpu_kernels.resources import class_hours
from gpu_kernels.units import THOUSANDTHS

_ = noted

STATES = {
    "queued": _("waits"),
    "reserved": _("granted"),
    "active": _("in use"),
    "draining": _("ending"),
    "quarantined": _("held back"),
    "released": _("given back"),
    "expired": _("expired"),
    "revoked": _("taken back"),
    "freed": _("over"),
    "confirmed": _("confirmed"),
    "over": _("over"),
    "cancelled": _("cancelled"),
}
"""What the controller calls the states of leases and class hours, in words."""

STANDINGS = {"open": _("open"), "cordoned": _("cordoned"), "draining": _("draining")}
"""What may be placed on a GPU server."""

BUDGETS = {
    ("course", "hours_per_week"): _("The course, this week"),
    ("course", "hours_rolling"): _("The course, in the last hours"),
    ("user", "user_hours_per_week"): _("You, this week"),
    ("user", "user_hours_rolling"): _("You, in the last hours"),
}

WEEKDAYS = (
    _("Monday"),
    _("Tuesday"),
    _("Wednesday"),
    _("Thursday"),
    _("Friday"),
    _("Saturday"),
    _("Sunday"),
)
SHORT_WEEKDAYS = (_("Mon"), _("Tue"), _("Wed"), _("Thu"), _("Fri"), _("Sat"), _("Sun"))
"""As the controller's API has them."""


class Wording:
    """Used by the templates as ``say``."""

    def __init__(self, language: Language, zone: ZoneInfo) -> None:
        self._text = language.catalogue.gettext
        self._plural = language.catalogue.ngettext
        self.zone = zone

    def text(self, message: str, **values: object) -> str:
        translated = self._text(message)
        return translated % values if values else translated

    def state(self, code: str) -> str:
        """An unknown state is told as the controller calls it."""
        return self._text(STATES[code]) if code in STATES else code

    def standing(self, code: str) -> str:
        return self._text(STANDINGS[code]) if code in STANDINGS else code

    def budget(self, whose: str, rule: str) -> str:
        name = BUDGETS.get((whose, rule))
        return rule if name is None else self._text(name)

    def weekday(self, number: int) -> str:
        return self._text(WEEKDAYS[number])

    def short_weekday(self, number: int) -> str:
        return self._text(SHORT_WEEKDAYS[number])

    def weekdays(self, names: list[str]) -> str:
        return ", ".join(self.short_weekday(class_hours.WEEKDAYS.index(name)) for name in names)

    def gpus(self, thousandths: int) -> str:
        """``20`` -> ``0.02``"""
        return gpus_text(thousandths)

    def share(self, thousandths: int, gpu_class: str | None) -> str:
        """``20, "V100"`` -> ``0.02 V100``"""
        return f"{gpus_text(thousandths)} {gpu_class}" if gpu_class else gpus_text(thousandths)

    def memory(self, mib: int) -> str:
        if mib >= 10 * 1024:
            return self.text(_("%(number)s GiB"), number=f"{mib / 1024:.1f}")
        return self.text(_("%(number)s MiB"), number=mib)

    def hours(self, gpu_hours: float) -> str:
        """GPU-hours, to as many places as tell something."""
        return plain_number(round(gpu_hours, 3 if gpu_hours < 1 else 2 if gpu_hours < 100 else 0))

    def lasting(self, seconds: float) -> str:
        """``7500`` -> ``2 h 5 min``"""
        whole = max(0, round(seconds))
        if whole < 60:
            return self.text(_("%(seconds)s s"), seconds=whole)
        minutes = round(whole / 60)
        if minutes < 60:
            return self.text(_("%(minutes)s min"), minutes=minutes)
        hours, minutes = divmod(minutes, 60)
        if hours < 48:
            if minutes == 0:
                return self.text(_("%(hours)s h"), hours=hours)
            return self.text(_("%(hours)s h %(minutes)s min"), hours=hours, minutes=minutes)
        return self.text(_("%(days)s d"), days=round(hours / 24))

    def at(self, instant: str | None) -> str:
        """An instant of the controller, by the institution's clock: ``2026-11-21 10:04``."""
        return "" if instant is None else self.local(instant).strftime("%Y-%m-%d %H:%M")

    def field_time(self, instant: str | None) -> str:
        """The same for a field of the kind ``datetime-local``."""
        return "" if not instant else self.local(instant).strftime("%Y-%m-%dT%H:%M")

    def local(self, instant: str) -> datetime:
        return datetime.fromisoformat(instant).astimezone(self.zone)

    def percent(self, part: float, whole: float) -> int:
        return 0 if whole <= 0 else min(100, round(100 * part / whole))


def gpus_text(thousandths: int) -> str:
    return plain_number(thousandths / THOUSANDTHS)


def plain_number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")
