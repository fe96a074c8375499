"""``/leases/ID``: one slice, why it waits, and taking or giving it back."""

from __future__ import annotations

from typing import ClassVar

from gpu_kernels.hub_config.pages.handlers import asking
from gpu_kernels.hub_config.pages.handlers.forms import FormHandler, Outcome

MOST_REASON = 300


class OneLease(FormHandler):
    fragments: ClassVar[frozenset[str]] = frozenset({"state"})

    async def get(self, lease_id: str) -> None:
        await self.page(Outcome())

    async def page(self, outcome: Outcome) -> None:
        lease_id = self.path_args[0]
        lease = await self.pool.get(lease_id)
        mine = lease.user == self.current_user["name"]
        why = None
        if lease.queued and (mine or self.may("custom:gpu:admin:pool")):
            why = await asking.if_allowed(self.pool.why(lease_id))
        self.show(
            "lease.html",
            status=outcome.status,
            outcome=outcome,
            lease=lease,
            why=why,
            mine=mine,
            most_reason=MOST_REASON,
        )

    async def post(self, lease_id: str) -> None:
        await self.carry_out({"release": self._release, "revoke": self._revoke})

    async def _release(self) -> str:
        lease = await self.pool.get(self.path_args[0])
        await self.pool.release(lease.id, lease.holder)
        return "released"

    async def _revoke(self) -> str:
        await self.pool.revoke(self.path_args[0], self.needed("reason", MOST_REASON))
        return "revoked"
