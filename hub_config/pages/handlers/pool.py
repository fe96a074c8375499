"""``/pool`` and ``/servers/NAME``: for those who run the GPU servers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from gpu_kernels.errors import UnknownAgent
from gpu_kernels.hub_config.pages.handlers import asking
from gpu_kernels.hub_config.pages.handlers.base import PageHandler
from gpu_kernels.hub_config.pages.handlers.forms import FieldError, FormHandler, Outcome
from gpu_kernels.hub_config.pages.handlers.plots import plots
from gpu_kernels.hub_config.pages.texts import noted
from gpu_kernels.hub_config.pages.views import servers
from gpu_kernels.hub_config.pages.views.plots import Picture
from gpu_kernels.resources.agents import Agent
from gpu_kernels.resources.pool import PoolClass
from gpu_kernels.units import THOUSANDTHS

_ = noted

MOST_SHOWN = 200
"""Leases in the pool page's table; all are in the picture, and in the course's own page."""


class Pool(PageHandler):
    fragments: ClassVar[frozenset[str]] = frozenset(
        {"gpus", "servers", "queue", "leases", "conflicts", "plots"}
    )

    async def get(self) -> None:
        pool, agents, leases, accounts, hours, health = await asking.together(
            self.pool.pool(),
            self.pool.agents(),
            asking.leases(self.pool, all=True),
            self.pool.accounts(),
            self.pool.class_hours(),
            asking.if_allowed(asking.health(self.pool)),
        )
        bars = servers.gpus(pool, leases)
        waiting = sorted((lease for lease in leases if lease.queued), key=lambda lease: lease.position or 0)
        self.show(
            "pool.html",
            classes=pool.classes,
            pictures=await self.pictures(pool.classes),
            bars=bars,
            legend=servers.legend(bars),
            agents=agents,
            waiting=waiting[:MOST_SHOWN],
            waiting_count=len(waiting),
            reasons=await self.lab.reasons.of(
                self.pool, self.current_user["name"], (lease.id for lease in waiting)
            ),
            cut=len(leases) if leases.cut else 0,
            leases=[lease for lease in leases if not lease.queued][:MOST_SHOWN],
            lease_count=len(leases) - len(waiting),
            conflicts=servers.conflicts(accounts),
            short=servers.short_meetings(hours),
            faults=servers.faults(accounts),
            health=health,
        )

    async def pictures(self, classes: Sequence[PoolClass]) -> list[Picture]:
        """The plots, where they are shown; in place of a limit, what there is."""
        if not self.shows("plots"):
            return []
        return await plots(
            self.pool, None, {c.gpu_class: c.gpus * THOUSANDTHS for c in classes}, self.lab.zone
        )


class Server(FormHandler):
    """One GPU server, and what it is to do."""

    fragments: ClassVar[frozenset[str]] = frozenset({"state", "leases"})

    async def get(self, name: str) -> None:
        await self.page(Outcome())

    async def page(self, outcome: Outcome) -> None:
        name = self.path_args[0]
        agents, pool, leases = await asking.together(
            self.pool.agents(), self.pool.pool(), asking.leases(self.pool, all=True)
        )
        agent = found(agents, name)
        here = [lease for lease in leases if lease.agent_name == name]
        bars = [bar for bar in servers.gpus(pool, leases) if bar.server == name]
        self.show(
            "server.html",
            status=outcome.status,
            outcome=outcome,
            agent=agent,
            bars=bars,
            legend=servers.legend(bars),
            cut=len(leases) if leases.cut else 0,
            leases=here[:MOST_SHOWN],
            lease_count=len(here),
        )

    async def post(self, name: str) -> None:
        await self.carry_out({"standing": self._standing, "lost": self._lost})

    async def _standing(self) -> str:
        standing = self.posted("standing", 20)
        if standing not in ("open", "cordoned", "draining"):
            raise FieldError("standing", _("Choose one of the three."))
        await self.pool.set_standing(
            self.path_args[0],
            standing,
            drain_by=self.instant("drain_by", self.lab.zone) if standing == "draining" else None,
            ends_at=self.instant("ends_at", self.lab.zone),
        )
        return standing

    async def _lost(self) -> str:
        if self.posted("name") != self.path_args[0]:
            raise FieldError("name", _("Type the server's name to confirm that nothing runs there any more."))
        await self.pool.declare_lost(self.path_args[0])
        return "lost"


def found(agents: Iterable[Agent], name: str) -> Agent:
    for agent in agents:
        if agent.name == name:
            return agent
    raise UnknownAgent(f"There is no GPU server {name[:60]!r}.")
