"""The users' part of the API: leases."""

from __future__ import annotations

import time
from typing import Any

from gpu_kernels.errors import Forbidden, UnknownLease
from gpu_kernels.pool.ledger import asking, ending, reading
from gpu_kernels.pool.ledger.models import Lease
from gpu_kernels.pool.ledger.states import LIVE, Who
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.service.base import Handler
from gpu_kernels.pool.service.identity import ADMIN_POOL, READ_USAGE, USE
from gpu_kernels.pool.service.validation import Fields
from gpu_kernels.pool.service.waiting import lease_topic
from gpu_kernels.units import MAX_TEXT, parse_size

View = dict[str, Any]
MAX_RENEWED = 10_000
MOST_LABELS, LONGEST_LABEL = 16, 256


class LeaseHandler(Handler):
    def with_secret(self, view: View) -> View:
        """The owner of a lease in force is told its secret."""
        if view["expires_in"] is not None and view["user"] == self.identity.name:
            view["secret"] = self.service.proofs.secret(view["id"], view["epoch"]).hex()
        return view

    def require_any_server(self, scope: str) -> None:
        """The scope, be it for one server or course only; what it is for is checked once that is known."""
        if not any(name.partition("!")[0] == scope for name in self.identity.scopes):
            self.require(scope)


class Leases(LeaseHandler):
    """``/leases``"""

    async def get(self) -> None:
        course = self.get_query_argument("course", None)
        ended = self.get_query_argument("ended", "0") == "1"
        user: str | None = None
        if self.get_query_argument("all", "0") == "1":
            self.require(ADMIN_POOL)
        elif course is not None:
            if not (self.identity.teaches(course) or self.identity.may(READ_USAGE, course=course)):
                raise Forbidden(f"{self.identity.name} may not see who holds what of {course}.")
        else:
            self.require_any_server(USE)
            user = self.identity.name
        views = await self.service.desk.read(
            lambda tx: reading.leases(tx, user=user, course=course, ended=ended)
        )
        self.answer({"leases": [self.with_secret(view) if user else view for view in views]})

    async def post(self) -> None:
        self.require_any_server(USE)
        wish = self._wish(self.fields())
        self.service.pace.take(self.identity.name)

        def reserve(tx: Transaction) -> tuple[View, bool]:
            lease = asking.reserve(tx, wish)
            self.require(USE, course=lease.course, server=wish.server)
            tx.session.flush()
            return reading.lease_view(tx, lease), lease.created_at == tx.now

        view, is_new = await self.service.desk.write(reserve)
        if is_new and view["expires_in"] is not None:
            self.service.metrics.grants.labels(view["gpu_class"], view["course"]).inc()
        self.answer(self.with_secret(view), status=202 if view["state"] == "queued" else 201)

    def _wish(self, body: Fields) -> asking.Wish:
        size = parse_size(body.text("size", 4 * MAX_TEXT, empty=True))
        course = body.text("course", 255, default=None)
        slot = body.fields("slot")
        wish = asking.Wish(
            user=self.identity.name,
            groups=self.identity.groups,
            course=course,
            size=size,
            key=body.text("key", 512),
            server=slot.text("server", 255, empty=True),
            path=slot.text("path", 1024, empty=True),
            holder=body.text("holder", 255),
            wait_ms=int(min(body.number("wait", 0, 1e9, default=0), self.service.max_wait) * 1000),
            labels=body.texts_by_name("labels", MOST_LABELS, LONGEST_LABEL),
        )
        slot.finish()
        body.finish()
        return wish


class OneLease(LeaseHandler):
    """``/leases/ID``"""

    async def get(self, lease_id: str) -> None:
        seconds = self.seconds_to_wait()
        end = time.monotonic() + seconds
        with self.service.bells.at(lease_topic(lease_id), self.identity.name) as bell:
            view = await self._look(lease_id)
            if seconds > 0:
                self.linger_at(bell)
            while view["state"] == "queued" and (left := end - time.monotonic()) > 0:
                if not await self.lingered(bell, left):
                    break
                view = await self._look(lease_id)
        self.answer(self.with_secret(view))

    async def _look(self, lease_id: str) -> View:
        user = self.identity.name

        def look(tx: Transaction) -> View:
            lease = asking.owned(tx, user, lease_id)
            self.require(USE, course=lease.course, server=lease.server)
            return reading.lease_view(tx, lease)

        view = await self.service.desk.read(look)
        if view["state"] == "queued":
            view = await self.service.desk.write(
                lambda tx: reading.lease_view(tx, asking.keep_waiting(tx, user, lease_id))
            )
        return view


class Renew(LeaseHandler):
    """``/leases/renew``"""

    async def post(self) -> None:
        body = self.fields()
        wanted = []
        for item in body.list_of_fields("leases", MAX_RENEWED):
            wanted.append((item.text("id", 64), item.integer("epoch", 0, 2**62)))
            item.finish()
        body.finish()
        self.require_any_server(USE)
        user = self.identity.name
        renewal = await self.service.desk.write(lambda tx: asking.renew(tx, user, wanted))
        self.answer(
            {
                "renewed": [
                    {"id": lease_id, "expires_in": left / 1000} for lease_id, left in renewal.renewed.items()
                ],
                "lost": [
                    {"id": lease_id, "state": state, "reason": reason}
                    for lease_id, state, reason in renewal.lost
                ],
            }
        )


class Release(LeaseHandler):
    """``/leases/ID/release``"""

    async def post(self, lease_id: str) -> None:
        body = self.fields()
        holder = body.text("holder", 255)
        body.finish()
        user = self.identity.name

        def release(tx: Transaction) -> View:
            lease = asking.owned(tx, user, lease_id)
            self.require(USE, course=lease.course, server=lease.server)
            return reading.lease_view(tx, asking.release(tx, user, lease_id, holder))

        self.answer(self.with_secret(await self.service.desk.write(release)))


class ReleaseServer(LeaseHandler):
    """``/leases/release``"""

    async def post(self) -> None:
        body = self.fields()
        server = body.text("server", 255, empty=True)
        user = body.text("user", 255, default=self.identity.name)
        body.finish()
        if user == self.identity.name:
            self.require(USE, server=server)
        else:
            self.require(ADMIN_POOL)
        actor = self.identity.name

        def release(tx: Transaction) -> list[View]:
            ended = asking.release_server(tx, user, server, actor)
            return [reading.lease_view(tx, lease) for lease in ended]

        self.answer({"leases": await self.service.desk.write(release)})


class Revoke(LeaseHandler):
    """``/leases/ID/revoke``"""

    async def post(self, lease_id: str) -> None:
        body = self.fields()
        reason = body.text("reason", 400)
        body.finish()
        self.require(ADMIN_POOL)
        actor = self.identity.name

        def revoke(tx: Transaction) -> View:
            lease = tx.session.get(Lease, lease_id)
            if lease is None:
                raise UnknownLease(f"There is no lease {lease_id[:40]!r}.")
            if lease.state in LIVE:
                ending.revoke(tx, lease, who=Who.ADMIN, actor=actor, reason=f"Taken back: {reason}")
            return reading.lease_view(tx, lease)

        self.answer(await self.service.desk.write(revoke))
