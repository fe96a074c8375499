"""The conversation with the controller: register, then report and take over the full set, again and again.

One request at a time, so that replies cannot overtake each other. ``wake`` cuts a long poll short: the
inventory has changed, or a client showed a lease that we have not heard of. Whatever fails is tried again
with growing pauses; meanwhile what is in force goes on until its own deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import uuid
from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec.structs import replace

from gpu_kernels.errors import AgentElsewhere, AgentReplaced, Conflict, PoolError, UnknownAgent
from gpu_kernels.remoting.agent.clock import clock
from gpu_kernels.resources.agents import AgentReport, Assignment, Registered, Registration

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0
REPLACED_PAUSE_S = 5.0
BETWEEN_REPORTS_S = 0.05
"""However often it is woken, the agent sends at most twenty reports a second."""
BETWEEN_LOOK_UPS_S = 0.5
SHORTEST_POLL_S = 0.5


def new_boot() -> str:
    """Tells this process of an agent from every other one."""
    return uuid.uuid4().hex


class Pool(Protocol):
    """What is needed of the pool client."""

    async def register_agent(self, name: str, registration: Registration) -> Registered: ...

    async def report_agent(self, name: str, report: AgentReport) -> Assignment: ...


class Server(Protocol):
    """What the reporter tells, and is told, about this server."""

    def report(self, boot_id: str) -> AgentReport:
        """The newest set that is carried out, the leases whose workers live, and the like
        (docs/design/agent.md, "Sets, sequence, floors").
        """

    async def take(self, assignment: Assignment, anchored_at: float, answered_at: float) -> None:
        """Carry out a set; ``anchored_at`` is when the request that brought it was started, ``answered_at``
        when its answer was there."""

    def registered_anew(self) -> None:
        """The controller counts its sets anew."""

    def replaced(self) -> None:
        """Another agent has our name: serve nothing any more."""

    def shortest_life_s(self) -> float | None:
        """How long the grant that lapses first still has."""


class Reporter:
    def __init__(
        self,
        pool: Pool,
        server: Server,
        *,
        name: str,
        registration: Registration,
        every_s: float,
        log: logging.Logger,
    ) -> None:
        self._pool = pool
        self._server = server
        self._name = name
        self._registration = registration
        self._every_s = every_s
        self._log = log
        self._registered = False
        self._woken = asyncio.Event()
        self._rounds_begun = 0
        self._round_done = asyncio.Condition()
        self._rounds_done = 0
        self._looked_up_at = 0.0
        self._outage: str | None = None

    def wake(self) -> None:
        """Report at once, or again as soon as the running report is answered."""
        self._woken.set()

    async def fresh_round(self, within_s: float, known: Callable[[], bool]) -> None:
        """Wait until ``known`` holds after some report, or until a report that begins after now is answered;
        at most so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s), self._round_done:
                # Strangers can cause look-ups: all that come within the pause share one report.
                pause = self._looked_up_at + BETWEEN_LOOK_UPS_S - clock()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, pause)):
                        await self._round_done.wait_for(known)
                if known():
                    return
                self._looked_up_at = clock()
                needed = self._rounds_begun + 1
                self.wake()
                await self._round_done.wait_for(lambda: known() or self._rounds_done >= needed)

    async def run(self) -> None:
        """Never returns; cancel it."""
        failures = 0
        while True:
            try:
                await self._round()
                self._over_again()
                failures = 0
                await asyncio.sleep(BETWEEN_REPORTS_S)
            except AgentReplaced as error:
                self._log.error("%s; trying again as a new process", error.log_message)
                self._server.replaced()
                self._registration = replace(self._registration, boot_id=new_boot())
                self._registered = False
                failures += 1
                await asyncio.sleep(REPLACED_PAUSE_S * random.uniform(1, 2))  # noqa: S311
            except AgentElsewhere as error:
                self._registered = False
                self._trouble(f"registration refused, trying again: {error.log_message}")
                failures += 1
                await self._pause(failures)
            except (UnknownAgent, Conflict) as error:
                self._log.warning("registering again: %s", error.log_message)
                self._registered = False
                failures += 1
                await self._pause(failures)
            except PoolError as error:
                self._trouble(f"cannot report, and try again: {error.log_message}")
                failures += 1
                await self._pause(failures)
            except Exception:
                # An answer that nothing foresaw must not end the agent, and with it every worker.
                self._log.exception("a report failed in a way that it should not")
                failures += 1
                await self._pause(failures)

    async def last_report(self, within_s: float) -> None:
        """Say that nothing lives any more, for a clean end. A failure does no harm: silence says less."""
        if not self._registered:
            return
        try:
            async with asyncio.timeout(within_s):
                await self._pool.report_agent(self._name, self._report())
        except (PoolError, TimeoutError) as error:
            self._log.warning("the last report was not taken: %s", error)

    async def _round(self) -> None:
        urgent = self._woken.is_set()
        self._woken.clear()
        self._rounds_begun += 1
        this_round = self._rounds_begun
        if not self._registered:
            await self._register()
        anchored_at = clock()
        report = self._report()
        urgent = urgent or report.full
        call = self._pool.report_agent(
            self._name, report if urgent else replace(report, wait=self._longest_poll_s())
        )
        # A report that does not linger is never cut short, or frequent wakes could leave all unanswered.
        assignment = await call if urgent else await self._unless_woken(call)
        if assignment is None:
            return
        await self._server.take(assignment, anchored_at, clock())
        if self._report().full:
            return  # it said too little: the next report, made at once, asks for everything
        async with self._round_done:
            self._rounds_done = this_round
            self._round_done.notify_all()

    async def _register(self) -> None:
        await self._pool.register_agent(self._name, self._registration)
        self._registered = True
        self._over_again()
        self._server.registered_anew()
        self._log.info("registered with the pool as %s at %s", self._name, self._registration.address)

    def _report(self) -> AgentReport:
        return self._server.report(self._registration.boot_id)

    def _longest_poll_s(self) -> float:
        """Never so long that a grant could lapse before the next report is answered."""
        life = self._server.shortest_life_s()
        return self._every_s if life is None else min(self._every_s, max(SHORTEST_POLL_S, life / 3))

    async def _unless_woken(self, call: Awaitable[Assignment]) -> Assignment | None:
        """The call's answer, or None if ``wake`` came first: the call is then given up and repeated."""
        asking = asyncio.ensure_future(call)
        waking = asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait({asking, waking}, return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else None
        finally:
            for task in (asking, waking):
                if not task.done():
                    task.cancel()
            await asyncio.gather(asking, waking, return_exceptions=True)

    def _trouble(self, text: str) -> None:
        if self._outage != text:
            self._log.warning("%s", text)
            self._outage = text

    def _over_again(self) -> None:
        if self._outage is not None:
            self._log.info("the pool answers again")
            self._outage = None

    async def _pause(self, failures: int) -> None:
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(failures, 10))
        try:
            async with asyncio.timeout(pause * random.uniform(0.5, 1.0)):  # noqa: S311 - spreads agents out
                await self._woken.wait()
        except TimeoutError:
            pass
