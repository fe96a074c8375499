"""``/audit``: who changed what, when."""

from __future__ import annotations

from gpu_kernels.pool.ledger.state.rows import Event
from gpu_kernels.pool.service.accounting import told
from gpu_kernels.pool.service.base import Handler
from gpu_kernels.pool.service.identity import ADMIN_POOL
from gpu_kernels.pool.service.operations import operation
from gpu_kernels.pool.service.schemas import history as schemas
from gpu_kernels.resources import events as resources


class Audit(Handler):
    """``/audit``"""

    @operation(
        "Read the audit trail", scope=ADMIN_POOL, query=schemas.AuditQuery, answers={200: resources.Audit}
    )
    async def get(self, *, query: schemas.AuditQuery) -> None:
        """Every change of leases, courses, accounts, class hours and GPU servers, for `keep_days`."""
        self.service.reads.take(self.identity.name)
        page = await self.service.history.ask(
            lambda store: store.events(
                subject=query.subject, kind=query.kind, cursor=query.after, limit=query.limit
            )
        )
        self.link_next(page.cursor)
        self.answer(resources.Audit(tuple(map(told_of, page.rows)), page.cursor))


def told_of(event: Event) -> resources.AuditEvent:
    return resources.AuditEvent(
        event.id, told(event.at), event.actor, event.kind, event.subject, dict(event.detail)
    )
