"""``/usage``: who used how much of which GPUs."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from tornado.iostream import StreamClosedError

from gpu_kernels.errors import Forbidden, InvalidRequest, TooMany
from gpu_kernels.pool.ledger.state.rows import Slice
from gpu_kernels.pool.ledger.stores import MOST_ROWS, Page, Store
from gpu_kernels.pool.service.accounting import Period, summed, table, timeline, told
from gpu_kernels.pool.service.base import Handler
from gpu_kernels.pool.service.identity import READ_USAGE, USE
from gpu_kernels.pool.service.operations import operation
from gpu_kernels.pool.service.schemas import history as schemas
from gpu_kernels.resources import usage as resources

log = logging.getLogger("gpu_kernels.pool")

MOST_SUMMED = 500_000
MOST_STEPS = 1000
WHO = (
    "everyone for their own usage (`custom:gpu:use`); instructors for their course; "
    "`custom:gpu:read:usage` for all, or with `!group=` for one course"
)


class UsageHandler(Handler):
    def whose(self, query: schemas.AccountsQuery) -> str | None:
        """Whose accounts to read, None for everyone's. Raises ``Forbidden``."""
        identity, course = self.identity, query.course
        if query.own and query.user in (None, identity.name):
            return identity.name
        if identity.may(READ_USAGE):
            return query.user
        if course is not None and (identity.teaches(course) or identity.may(READ_USAGE, course=course)):
            return query.user
        if query.user not in (None, identity.name):
            where = f" in {course}" if course is not None else ""
            raise Forbidden(f"{identity.name} may not see what {query.user} used{where}.")
        self.require_somewhere(USE)
        return identity.name

    async def period(self, query: schemas.AccountsQuery) -> Period:
        """Which time is asked about; each question counts. Raises ``TooMany``, ``InvalidRequest``."""
        self.service.reads.take(self.identity.name)
        now = await self.service.desk.read(lambda tx: tx.now)
        return Period.read(query.begin, query.end, query.time_zone, now)


class Usage(UsageHandler):
    """``/usage``"""

    @operation(
        "Sum up usage", who=WHO, query=schemas.UsageQuery, answers={200: resources.Usage}, errors=[TooMany]
    )
    async def get(self, *, query: schemas.UsageQuery) -> None:
        """Without `course` and `user`: of all that one may see."""
        user, by = self.whose(query), tuple(dict.fromkeys(query.by.split(",")))
        period = await self.period(query)
        sums = await self.service.history.ask(
            lambda store: summed(_every(store, period, user, query.course), period, by)
        )
        self.answer(resources.Usage(told(period.begin), told(period.end), by, sums))


class Timeline(UsageHandler):
    """``/usage/timeline``"""

    @operation(
        "See usage over time",
        who=WHO,
        query=schemas.TimelineQuery,
        answers={200: resources.Timeline},
        errors=[InvalidRequest, TooMany],
    )
    async def get(self, *, query: schemas.TimelineQuery) -> None:
        """What was held and used on average in each step, by GPU class; for plots."""
        user = self.whose(query)
        period, step = await self.period(query), query.step * 1000
        if period.end - period.begin > MOST_STEPS * step:
            raise InvalidRequest(
                f"There would be more than {MOST_STEPS} steps: choose a longer step, or a shorter period.",
                details={"field": "step"},
            )
        classes = await self.service.history.ask(
            lambda store: timeline(_every(store, period, user, query.course), period, step)
        )
        self.answer(resources.Timeline(told(period.begin), told(period.end), query.step, classes))


class UsageTable(UsageHandler):
    """``/usage.csv``"""

    @operation("Export usage as a table", who=WHO, query=schemas.AccountsQuery, answers={200: "text/csv"})
    async def get(self, *, query: schemas.AccountsQuery) -> None:
        """One line for each slice that a lease had at any time in the period, newest first. Cells that a
        spreadsheet would take for a formula begin with an apostrophe. The answer is streamed: one that breaks
        off is not whole.
        """
        user = self.whose(query)
        period = await self.period(query)
        lines, cursor = await self._lines(period, user, query.course, None)
        self.set_header("Content-Type", "text/csv; charset=UTF-8")
        self.set_header("Content-Disposition", 'attachment; filename="gpu-usage.csv"')
        try:
            self.write(lines)
            while cursor is not None:
                await self.flush()
                lines, cursor = await self._lines(period, user, query.course, cursor)
                self.write(lines)
            self.finish()
        except StreamClosedError:
            return
        except Exception:
            # The status has gone out: only a connection that ends early can say that this is not all.
            log.exception("%s broke off", self.request.path)
            self.break_off()

    async def _lines(
        self, period: Period, user: str | None, course: str | None, cursor: str | None
    ) -> tuple[bytes, str | None]:
        """The lines of a page, made beside the event loop, and the next page's cursor."""

        def lines(store: Store) -> tuple[bytes, str | None]:
            page = _page(store, period, user, course, cursor)
            return table(page.rows, period, heading=cursor is None), page.cursor

        return await self.service.history.ask(lines)


def _page(store: Store, period: Period, user: str | None, course: str | None, cursor: str | None) -> Page:
    return store.usage(
        since=period.begin, until=period.end, user=user, course=course, cursor=cursor, limit=MOST_ROWS
    )


def _every(store: Store, period: Period, user: str | None, course: str | None) -> Iterator[Slice]:
    """All accounts, page by page. Raises ``TooMany`` instead of summing for minutes."""
    cursor: str | None = None
    seen = 0
    while True:
        page = _page(store, period, user, course, cursor)
        yield from page.rows
        seen += len(page.rows)
        cursor = page.cursor
        if cursor is None:
            return
        if seen >= MOST_SUMMED:
            raise TooMany(
                f"There are more than {MOST_SUMMED} accounts in this period.\n"
                "Choose a shorter one, or one course; or take the table (/usage.csv) and sum it up there.",
                details={"limit": MOST_SUMMED},
            )
