"""What somebody has left of GPU-hours, for the hub's own pages that start a server.

    c.JupyterHub.template_vars = {"gpu_budgets": StartPageBudgets("http://127.0.0.1:8083/services/gpu")}

A template that is rendered by the hub then has `gpu_budgets()`, which is awaited there, and answers within
`WAIT_S`, whatever the controller does: what it said lately, or that it does not answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from gpu_kernels.client import AsyncPoolClient
from gpu_kernels.errors import PoolError
from gpu_kernels.resources.courses import Course

log = logging.getLogger("gpu_kernels.spawner")

WAIT_S = 1.0
"""How long a page may take longer for this."""
CALL_S = 10.0
KEEP_S = 2.0
"""A page that is loaded again and again asks no more often; a rule that changes is seen within seconds."""
MOST_USERS = 2000
MOST_AT_ONCE = 8
TOKEN_S = 600
NEAR = 0.8
"""What part of a budget is spent when it is shown as near its end."""


@dataclass(frozen=True, slots=True)
class Line:
    """One budget in GPU-hours. ``whose``: `user` or `course`. ``until``: when one that is used up has
    something again. ``window``: its hours, None for the calendar week.
    """

    course: str
    whose: str
    spent: float
    most: float
    until: str
    window: int | None

    @property
    def left(self) -> float:
        return max(0.0, self.most - self.spent)

    @property
    def percent(self) -> int:
        return 100 if self.most <= self.spent else int(100 * self.spent / self.most)

    @property
    def level(self) -> str:
        """A colour of the hub's: plenty is left, it is near its end, or it is used up."""
        return "danger" if self.spent >= self.most else "warning" if self.percent >= 100 * NEAR else "success"


@dataclass(frozen=True, slots=True)
class Shown:
    """For a template. ``paused``: by course, why nothing new is granted. ``away``: the controller does not
    answer.
    """

    lines: Sequence[Line] = ()
    paused: Sequence[tuple[str, str]] = ()
    away: bool = False


@dataclass(slots=True)
class _Known:
    shown: Shown
    at: float


class StartPageBudgets:
    """Called by the hub with whoever looks; gives what the template calls. ``zone``: the institution's
    clocks, by which times are told. It holds little, for the users who came last.
    """

    def __init__(
        self,
        controller: str,
        *,
        service: str = "gpu",
        zone: str = "UTC",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._controller = controller
        self._service = service
        self._zone = ZoneInfo(zone)
        self._clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._tokens: dict[str, tuple[str, float]] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)

    def __call__(self, user: Any) -> Callable[[], Any]:
        return partial(self.of, user)

    async def of(self, user: Any) -> Shown:
        """What is to be shown to a user of the hub, or to nobody. Takes `WAIT_S` at most; never raises."""
        if user is None or not self._controller:
            return Shown()
        name = str(user.name)
        known = self._known.get(name)
        if known is None or self._clock() - known.at >= KEEP_S:
            task = self._asking.get(name)
            if task is None:
                task = self._asking[name] = asyncio.create_task(self._ask(user))
                task.add_done_callback(lambda _: self._asking.pop(name, None))
            await asyncio.wait({task}, timeout=WAIT_S)
            known = self._known.get(name)
        return Shown(away=True) if known is None else known.shown

    async def _ask(self, user: Any) -> None:
        name = str(user.name)
        try:
            async with (
                self._turns,
                asyncio.timeout(CALL_S),
                AsyncPoolClient(self._controller, self._token(user), CALL_S) as pool,
            ):
                shown = shown_of(await pool.courses(), self._zone)
        except (PoolError, TimeoutError) as error:
            self._tokens.pop(name, None)
            log.info("The GPU budgets of %s are not known now: %s", name, error or type(error).__name__)
            shown = Shown(away=True)
        except Exception:
            # For instance, the hub's configuration does not grant users what the token is to allow.
            log.exception("The GPU budgets of %s cannot be shown", name)
            shown = Shown()
        self._known[name] = _Known(shown, self._clock())
        self._known.move_to_end(name)
        while len(self._known) > MOST_USERS:
            gone, _ = self._known.popitem(last=False)
            self._tokens.pop(gone, None)

    def _token(self, user: Any) -> str:
        """One that may see what the user may; used until shortly before its end."""
        token, until = self._tokens.get(user.name, ("", 0.0))
        if self._clock() >= until:
            token = user.new_api_token(
                note="Shows GPU budgets on the page that starts a server",
                expires_in=TOKEN_S,
                scopes=[f"access:services!service={self._service}", "custom:gpu:use!user"],
            )
            self._tokens[user.name] = token, self._clock() + TOKEN_S - 2 * CALL_S
        return str(token)


def shown_of(courses: Sequence[Course], zone: ZoneInfo) -> Shown:
    """The controller's courses, as a template shows them: one's own budgets before the courses'."""
    lines = [
        Line(
            course.name,
            spent.whose,
            spent.spent,
            spent.most,
            _told(spent.until, zone),
            _window(course.rules, spent.rule),
        )
        for course in courses
        for spent in sorted(course.budgets, key=lambda spent: spent.whose != "user")
    ]
    paused = [(course.name, course.rules["paused"]) for course in courses if "paused" in course.rules]
    return Shown(lines, paused)


def _window(rules: Mapping[str, Any], rule: str) -> int | None:
    return rules[rule]["window"] if rule.endswith("_rolling") and rule in rules else None


def _told(until: str | None, zone: ZoneInfo) -> str:
    return "" if until is None else datetime.fromisoformat(until).astimezone(zone).strftime("%a %d %b, %H:%M")
