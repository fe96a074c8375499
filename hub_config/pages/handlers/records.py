"""``/history`` and ``/audit``: ended leases, and who changed what."""

from __future__ import annotations

from gpu_kernels.hub_config.pages.handlers import asking
from gpu_kernels.hub_config.pages.handlers.base import PageHandler
from gpu_kernels.hub_config.pages.views.changes import KINDS, changes, short

A_PAGE = 100
MOST_FILTER = 255


class RecordsHandler(PageHandler):
    def asked(self, name: str, most: int = MOST_FILTER) -> str | None:
        """A filter of the page's address; None where it is empty."""
        return self.get_query_argument(name, "")[:most] or None


class History(RecordsHandler):
    async def get(self) -> None:
        course, user, living = self.asked("course"), self.asked("user"), self.asked("living", 1)
        everyone = True if course is None and user is None else None
        answer = await asking.lease_page(
            self.pool,
            limit=A_PAGE,
            after=self.asked("after", 2000),
            ended=None if living else True,
            course=course,
            user=user,
            all=everyone,
        )
        self.show(
            "history.html",
            leases=answer.leases,
            next=answer.next,
            course=course,
            filtered_user=user,
            living=living,
        )


class Audit(RecordsHandler):
    async def get(self) -> None:
        subject, kind = self.asked("subject"), self.asked("kind", 64)
        page = await self.pool.audit(
            subject=subject, kind=kind, limit=A_PAGE, after=self.asked("after", 2000)
        )
        self.show(
            "audit.html",
            changes=changes,
            kinds=KINDS,
            short=short,
            events=page.items,
            next=page.next,
            subject=subject,
            kind=kind,
        )
