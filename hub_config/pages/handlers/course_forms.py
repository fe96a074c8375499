"""The forms of a course's page: limit, rules, pause, a student's own rules, idle slices."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from gpu_kernels.hub_config.pages.handlers.forms import FieldError, FormHandler
from gpu_kernels.hub_config.pages.texts import noted

_ = noted

MOST_SIZES = 20
MOST_PAUSE_TEXT = 200
LONGEST_H = 31 * 24
MOST_LEASES = 10_000


class CourseForms(FormHandler):
    """Each is carried out by the controller, which decides whether the visitor may."""

    def forms(self) -> Mapping[str, Callable[[], Awaitable[str]]]:
        return {
            "limit": self._limit,
            "rules": self._rules,
            "pause": self._pause,
            "resume": self._resume,
            "override": self._override,
            "end_idle": self._end_idle,
        }

    @property
    def course(self) -> str:
        return str(self.path_args[0])

    async def _limit(self) -> str:
        limit = {
            name.partition(".")[2]: most
            for name in self.request.body_arguments
            if name.startswith("limit.") and (most := self.gpus(name)) is not None
        }
        course = await self.pool.course(self.course)
        kept = self._not_shown("limit", course.limits)
        await self.pool.set_limit(self.course, kept | limit)
        return "limit"

    async def _rules(self) -> str:
        own = await self._own_rules()
        typed: dict[str, Any] = {
            "max_leases": self.whole("max_leases", 0, MOST_LEASES),
            "max_size": self._by_class("max_size", own),
            "hours_per_week": self.hours("hours_per_week"),
            "user_hours_per_week": self.hours("user_hours_per_week"),
            "longest_life": self._seconds("longest_life", 3600, LONGEST_H),
            "idle": self._seconds("idle", 60, LONGEST_H * 60),
            "sizes": self._sizes("sizes"),
        }
        await self._put_rules(own | {name: value for name, value in typed.items() if self._shown(name)})
        return "rules"

    def _shown(self, name: str) -> bool:
        """Whether the form has the field at all: one that it lacks is not to be taken away."""
        return any(sent == name or sent.startswith(f"{name}.") for sent in self.request.body_arguments)

    def _by_class(self, name: str, before: Mapping[str, Any]) -> dict[str, int] | None:
        """What was typed for the GPU classes that the form shows, and what was there of others."""
        found = self._not_shown(name, before.get(name.rpartition(".")[2]) or {})
        for sent in self.request.body_arguments:
            if sent.startswith(f"{name}.") and (most := self.gpus(sent)) is not None:
                found[sent[len(name) + 1 :]] = most
        return found or None

    def _not_shown(self, name: str, by_class: Mapping[str, Any]) -> dict[str, Any]:
        shown = self.request.body_arguments
        return {c: value for c, value in by_class.items() if f"{name}.{c}" not in shown}

    def _seconds(self, name: str, unit: int, most: int) -> int | None:
        found = self.whole(name, 1, most)
        return None if found is None else found * unit

    def _sizes(self, field: str) -> list[str] | None:
        sizes = [size for part in self.posted(field).split(",") if (size := " ".join(part.split()))]
        if len(sizes) > MOST_SIZES:
            raise FieldError(field, _("At most %(most)s sizes."), most=MOST_SIZES)
        return list(dict.fromkeys(sizes)) or None

    async def _pause(self) -> str:
        await self._merge_rules({"paused": self.needed("paused", MOST_PAUSE_TEXT)})
        return "paused"

    async def _resume(self) -> str:
        await self._merge_rules({"paused": None})
        return "resumed"

    async def _override(self) -> str:
        user = self.needed("user", 255)
        removed = self.posted("action", 20) == "remove"
        rules = await self._own_rules()
        overrides = dict(rules.get("overrides") or {})
        if removed:
            overrides.pop(user, None)
        else:
            overrides[user] = self._override_of(overrides.get(user, {}))
        await self._put_rules({**rules, "overrides": overrides or None})
        return "override_removed" if removed else "override"

    def _override_of(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """What was typed of one student's rules; what the form does not show stays as it was, and what is
        lifted (null) stays lifted where nothing is typed.
        """
        typed: dict[str, Any] = {
            "max_leases": self.whole("override.max_leases", 0, MOST_LEASES),
            "max_size": self._by_class("override.max_size", before),
            "user_hours_per_week": self.hours("override.user_hours_per_week"),
            "sizes": self._sizes("override.sizes"),
        }
        until = self.instant("until", self.lab.zone)
        own = {name: value for name, value in before.items() if name != "until"}
        for name, value in typed.items():
            if value is not None:
                own[name] = value
            elif self._shown(f"override.{name}") and before.get(name) is not None:
                del own[name]
        if not own:
            raise FieldError("user", _("Fill in at least one rule for the student."))
        return own if until is None else {**own, "until": until}

    async def _end_idle(self) -> str:
        minutes = self.whole("minutes", 1, LONGEST_H * 60)
        if minutes is None:
            raise FieldError("minutes", _("This must be filled in."))
        ended = await self.pool.end_idle(self.course, minutes * 60)
        return "idle_ended" if ended else "none_idle"

    async def _own_rules(self) -> dict[str, Any]:
        return dict((await self.pool.account(self.course)).taught_rules)

    async def _merge_rules(self, changed: Mapping[str, Any]) -> None:
        """Change some of what the course's instructors say; the controller takes them as a whole."""
        await self._put_rules({**await self._own_rules(), **changed})

    async def _put_rules(self, rules: Mapping[str, Any]) -> None:
        """What is empty is left to what stands above, which a ``null`` would lift."""
        told = {name: value for name, value in rules.items() if value is not None}
        await self.pool.set_course_rules(self.course, told)
