"""``/``: one's own kernels and budgets, the courses that one teaches, and the pool."""

from __future__ import annotations

from typing import ClassVar

from gpu_kernels.hub_config.pages.handlers import asking
from gpu_kernels.hub_config.pages.handlers.forms import FormHandler, Outcome
from gpu_kernels.hub_config.pages.views import own


class Home(FormHandler):
    fragments: ClassVar[frozenset[str]] = frozenset({"kernels", "budgets", "pool"})

    async def get(self) -> None:
        await self.page(Outcome())

    async def page(self, outcome: Outcome) -> None:
        # An admin of the pool need not be one of its users.
        mine, courses, pool = await asking.together(
            asking.if_allowed(asking.leases(self.pool)), self.pool.courses(), self.pool.pool()
        )
        self.show(
            "home.html",
            status=outcome.status,
            outcome=outcome,
            leases=mine or [],
            budgets=own.budgets(courses),
            shares=[share for course in courses for share in own.shares(course)],
            teaches=[course for course in courses if course.instructor],
            member_of=[course for course in courses if not course.instructor],
            classes=pool.classes,
        )

    async def post(self) -> None:
        await self.carry_out({"release": self._release})

    async def _release(self) -> str:
        lease_id = self.posted("lease", 64)
        lease = await self.pool.get(lease_id)
        await self.pool.release(lease_id, lease.holder)
        return "released"
