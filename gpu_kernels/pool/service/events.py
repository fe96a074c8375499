"""``/events``: changes of the pool as server-sent events."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.json import encode
from tornado.iostream import StreamClosedError

from gpu_kernels.errors import Forbidden, InvalidRequest, PoolError, TooMany
from gpu_kernels.pool.service.accounting import told as iso
from gpu_kernels.pool.service.base import Handler
from gpu_kernels.pool.service.feed import Told, completed, replayed
from gpu_kernels.pool.service.identity import ADMIN_POOL, READ_USAGE, USE, Identity
from gpu_kernels.pool.service.operations import operation
from gpu_kernels.pool.service.schemas import events as schemas
from gpu_kernels.pool.service.waiting import EVENTS, rung
from gpu_kernels.resources.events import PoolEvent

log = logging.getLogger("gpu_kernels.pool")

HEARTBEAT = 15.0
"""Seconds; proxies end connections that say nothing for a minute."""
FLUSH_WITHIN = 30.0
"""Seconds in which a reader must take what was sent."""
A_TIME = 100
"""Events sent before the reader must have taken them."""
BREATHER = 0.2
"""Seconds between two looks of one stream: in a busy pool a thousand of them must not wake at each commit."""
MOST_TOPICS = 20


@dataclass(frozen=True, slots=True)
class Topics:
    """What a reader may see and wants to. A ``member`` of a course is told that something of it has changed,
    and not what: rules name other users.
    """

    user: str | None
    courses: frozenset[str]
    pool: bool
    member: Identity

    def message(self, told: Told) -> bytes | None:
        """The event for this reader, None where it is none of the reader's business."""
        event, course = told.event, told.course
        own = self.user is not None and told.user == self.user
        sees = self.pool or own or course in self.courses
        if not sees and (self.user is None or told.user is not None or not self._is_member(course)):
            return None
        change = PoolEvent(
            id=event.id,
            at=iso(event.at),
            kind=event.kind,
            subject=event.subject,
            user=told.user,
            course=told.course,
            actor=event.actor if self.pool else None,
            detail=dict(event.detail) if sees else {},
        )
        return message("change", event.id, change)

    def _is_member(self, course: str | None) -> bool:
        return course is not None and self.member.belongs_to(course)


def message(name: str, last: int, body: PoolEvent | dict[str, int]) -> bytes:
    """One server-sent event, in the API's JSON, which has no line ends of its own."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (last, name.encode(), encode(body))


class Events(Handler):
    """``/events``"""

    @operation(
        "Follow changes",
        who="the scope `custom:gpu:use` for one's own leases; see the query for other topics",
        query=schemas.EventsQuery,
        answers={200: "text/event-stream"},
        errors=[TooMany],
    )
    async def get(self, *, query: schemas.EventsQuery) -> None:
        """Server-sent events. The first is `ready`; a `change` holds a [PoolEvent](#poolevent). After `reset`
        some changes are not told: look anew at what you follow. Ids grow; with the header `Last-Event-ID` the
        stream goes on where another one ended, over a restart of the controller too. A comment comes every 15
        seconds at least. One user may have 8 streams.
        """
        topics, last = self._topics(query.topics), self._last(query)
        feed, name = self.service.desk.feed, self.identity.name
        with feed.joined(name), self.service.bells.at(EVENTS, f"stream of {name}") as bell:
            self.linger_at(bell)
            past: Sequence[Told] | None = ()
            if last is None:
                last = await self._newest()
            elif (past := feed.since(last) or None) is None:
                past = await self._replayed(last)
            self._begin()
            try:
                await self._follow(topics, query.topics, bell, last, past)
            except (StreamClosedError, TimeoutError):
                log.debug("a reader of events has gone or takes nothing")
                self.break_off()
            except Exception:
                log.exception("a stream of events broke off")
                self.break_off()

    def _topics(self, text: str) -> Topics:
        names = set(text.split(","))
        if len(names) > MOST_TOPICS:
            raise InvalidRequest(f"'topics' in the query may name {MOST_TOPICS}, not {len(names)}.")
        courses = frozenset(name.removeprefix("course:") for name in names if name.startswith("course:"))
        for course in sorted(courses):
            if not (self.identity.teaches(course) or self.identity.may(READ_USAGE, course=course)):
                raise Forbidden(f"{self.identity.name} may not follow {course}.", details={"course": course})
        if "pool" in names:
            self.require(ADMIN_POOL)
        if "leases" in names:
            self.require_somewhere(USE)
        user = self.identity.name if "leases" in names else None
        return Topics(user, courses, "pool" in names, self.identity)

    def _last(self, query: schemas.EventsQuery) -> int | None:
        header = self.request.headers.get("Last-Event-ID", "")
        if not header:
            return query.after
        if not (header.isascii() and header.isdigit() and len(header) < 19):
            raise InvalidRequest(f"The header 'Last-Event-ID' must be an event's id, not {header[:40]!a}.")
        return int(header)

    async def _replayed(self, last: int) -> Sequence[Told] | None:
        past = await self.service.history.ask(lambda store: replayed(store, last))
        return past and await self.service.desk.read(lambda tx: completed(tx.book, past))

    async def _newest(self) -> int:
        known = self.service.desk.feed.newest
        if known is not None:
            return known
        newest = await self.service.history.ask(lambda store: store.events(limit=1).rows)
        return newest[0].id if newest else 0

    def _begin(self) -> None:
        self.set_header("Content-Type", "text/event-stream; charset=UTF-8")
        self.set_header("X-Accel-Buffering", "no")

    async def _follow(
        self, topics: Topics, wanted: str, bell: asyncio.Event, last: int, past: Sequence[Told] | None
    ) -> None:
        self.write(message("ready", last, {"id": last}))
        feed, welcome_at = self.service.desk.feed, time.monotonic()
        while True:
            if past is None:
                last = await self._newest()
                self.write(message("reset", last, {"id": last}))
                past = ()
            for start in range(0, len(past), A_TIME):
                for told in past[start : start + A_TIME]:
                    self.write(topics.message(told) or b"")
                    last = told.event.id
                await self._flush()
            await self._flush()
            await asyncio.sleep(BREATHER)
            if feed.since(last) == ():
                await rung(bell, HEARTBEAT)
            if time.monotonic() - welcome_at >= HEARTBEAT:
                if not await self._still_welcome(wanted):
                    break
                welcome_at = time.monotonic()
            if self.gone or self.service.bells.closed or self.service.desk.deposed is not None:
                break
            past = feed.since(last)
        self.finish()

    async def _still_welcome(self, wanted: str) -> bool:
        """Send a sign of life, however much goes on elsewhere; False where the token has been taken back
        since, or may not follow all of this any more.
        """
        self.write(b": still here\n\n")
        try:
            self.identity = await self.identify()
            self._topics(wanted)
        except PoolError as error:
            return error.status >= 500  # who cannot be asked has not said no
        return True

    async def _flush(self) -> None:
        async with asyncio.timeout(FLUSH_WITHIN):
            await self.flush()
