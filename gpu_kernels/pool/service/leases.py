"""The users' part of the API: leases."""

from __future__ import annotations

import time

from msgspec.structs import replace

from gpu_kernels.errors import (
    BY_CODE,
    CourseAmbiguous,
    Forbidden,
    InvalidSize,
    KeyReused,
    NotAMember,
    Refused,
    TooMany,
    UnknownCourse,
    UnknownLease,
)
from gpu_kernels.pool.ledger.commands import release, reservation, termination
from gpu_kernels.pool.ledger.commands.renewal import keep_waiting, renew
from gpu_kernels.pool.ledger.queries import lease_views, leases
from gpu_kernels.pool.ledger.state.rows import Lease
from gpu_kernels.pool.ledger.state.states import LIVE, Who
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.service.base import MAX_LONG_POLL, Handler
from gpu_kernels.pool.service.identity import ADMIN_POOL, READ_USAGE, USE
from gpu_kernels.pool.service.listing import Listing
from gpu_kernels.pool.service.operations import operation
from gpu_kernels.pool.service.schemas import leases as schemas
from gpu_kernels.pool.service.waiting import lease_topic
from gpu_kernels.resources import leases as resources
from gpu_kernels.units import parse_size

REFUSALS = (
    *(kind for kind in BY_CODE.values() if issubclass(kind, Refused)),
    CourseAmbiguous, InvalidSize, KeyReused, NotAMember, UnknownCourse,
)  # fmt: skip
"""What may stand against a lease."""


class LeaseHandler(Handler):
    def with_secret(self, lease: resources.Lease) -> resources.Lease:
        """The owner of a lease in force is told its secret, by a token that is for its server and course."""
        own, server = lease.user == self.identity.name, lease.slot.server
        if own and lease.in_force and self.identity.may(USE, course=lease.course, server=server):
            return replace(lease, secret=self.service.proofs.secret(lease.id, lease.epoch).hex())
        return lease

    def may_see(self, course: str) -> bool:
        """Whether they may see who holds what of a course."""
        return self.identity.teaches(course) or self.identity.may(READ_USAGE, course=course)


class Leases(LeaseHandler):
    """``/leases``"""

    @operation(
        "List leases",
        who="the scope `custom:gpu:use` for one's own; see the query for others'",
        query=schemas.LeaseQuery,
        answers={200: resources.LeasePage},
    )
    async def get(self, *, query: schemas.LeaseQuery) -> None:
        """One's own that live or still hold slices, newest first."""
        user, own = query.user, False
        if query.all or (query.course is None and user not in (None, self.identity.name)):
            self.require(READ_USAGE)
        elif query.course is not None:
            if not self.may_see(query.course):
                raise Forbidden(
                    f"{self.identity.name} may not see who holds what of {query.course}; its instructors may."
                )
        else:
            self.require_somewhere(USE)
            user, own = self.identity.name, True
        if query.ended:
            self.service.reads.take(self.identity.name)
        listing = Listing(user, query.course, query.ended)
        found, following = await listing.page(
            self.service.desk, self.service.history, query.limit, query.after
        )
        self.link_next(following)
        leases = tuple(map(self.with_secret, found)) if own else tuple(found)
        self.answer(resources.LeasePage(leases, following))

    @operation(
        "Ask for a lease",
        scope=USE,
        body=schemas.Reserve,
        answers={201: resources.Lease, 202: resources.Lease},
        errors=REFUSALS,
    )
    async def post(self, *, body: schemas.Reserve) -> None:
        """Answers 201 with a lease in force, or 202 with a `queued` one; then ask
        `GET /leases/{lease_id}?wait=` until it is granted.
        """
        request = self._lease_request(body)
        self.service.pace.take(self.identity.name)

        def reserve(tx: Transaction) -> tuple[resources.Lease, bool]:
            lease = reservation.reserve(tx, request)
            self.require(USE, course=lease.course, server=request.server)
            return lease_views.lease_view(tx, lease), lease.granted_at == tx.now

        lease, is_new = await self.service.desk.write(reserve)
        if is_new and lease.in_force:
            self.service.metrics.grants.labels(lease.gpu_class, lease.course).inc()
        self.answer(self.with_secret(lease), status=202 if lease.queued else 201)

    def _lease_request(self, body: schemas.Reserve) -> reservation.LeaseRequest:
        return reservation.LeaseRequest(
            user=self.identity.name,
            groups=self.identity.groups,
            course=body.course,
            size=parse_size(body.size),
            key=body.key,
            server=body.slot.server,
            path=body.slot.path,
            holder=body.holder,
            wait_ms=int(min(body.wait, self.service.max_wait) * 1000),
            labels=body.labels,
            preemptible=body.preemptible,
            wait_for_course=body.wait_for_course,
        )


class OneLease(LeaseHandler):
    """``/leases/ID``"""

    @operation(
        "See a lease",
        who="its owner with `custom:gpu:use`; instructors of its course; `custom:gpu:read:usage`",
        query=schemas.OneLeaseQuery,
        answers={200: resources.Lease},
        errors=[UnknownLease, TooMany],
    )
    async def get(self, lease_id: str, *, query: schemas.OneLeaseQuery) -> None:
        """With `wait` it answers when the lease is no longer queued, or after that time. When its owner asks,
        the controller knows that somebody still waits; see the setting `queue_ttl`.
        """
        seconds = min(query.wait, MAX_LONG_POLL)
        end = time.monotonic() + seconds
        with self.service.bells.at(lease_topic(lease_id), self.identity.name) as bell:
            lease = await self._look(lease_id)
            if seconds > 0:
                self.linger_at(bell)
            while lease.queued and (left := end - time.monotonic()) > 0:
                if not await self.lingered(bell, left):
                    break
                lease = await self._look(lease_id)
        self.answer(self.with_secret(lease))

    async def _look(self, lease_id: str) -> resources.Lease:
        user = self.identity.name

        def look(tx: Transaction) -> resources.Lease:
            lease = leases.find(tx, lease_id)
            if lease is None or not (lease.user == user or self.may_see(lease.course)):
                raise leases.unknown(lease_id)
            if not self.may_see(lease.course):
                self.require(USE, course=lease.course, server=lease.server)
            return lease_views.lease_view(tx, lease)

        seen = await self.service.desk.read(look)
        if seen.queued and seen.user == user:
            seen = await self.service.desk.write(
                lambda tx: lease_views.lease_view(tx, keep_waiting(tx, user, lease_id))
            )
        return seen


class Renew(LeaseHandler):
    """``/leases/renew``"""

    vital = True

    @operation("Keep leases", scope=USE, body=schemas.Renew, answers={200: resources.Renewal})
    async def post(self, *, body: schemas.Renew) -> None:
        """One call keeps all leases of a server. A lease that another one replaced can be renewed for one
        time to live in all. One that the token is not for (another server's, by its filter) is as unknown as
        another user's.
        """
        wanted = [(known.id, known.epoch) for known in body.leases]
        identity = self.identity

        def is_for(lease: Lease) -> bool:
            return identity.may(USE, course=lease.course, server=lease.server)

        self.answer(await self.service.desk.write(lambda tx: renew(tx, identity.name, wanted, is_for=is_for)))


class Release(LeaseHandler):
    """``/leases/ID/release``"""

    vital = True

    @operation(
        "Give a lease back",
        scope=USE,
        body=schemas.Release,
        answers={200: resources.Lease},
        errors=[UnknownLease],
    )
    async def post(self, lease_id: str, *, body: schemas.Release) -> None:
        """A release by another than the present holder changes nothing. Repeating it is harmless."""
        user = self.identity.name

        def given_back(tx: Transaction) -> resources.Lease:
            lease = leases.owned(tx, user, lease_id)
            self.require(USE, course=lease.course, server=lease.server)
            return lease_views.lease_view(tx, release.release(tx, user, lease_id, body.holder))

        self.answer(self.with_secret(await self.service.desk.write(given_back)))


class ReleaseServer(LeaseHandler):
    """``/leases/release``"""

    @operation(
        "Give back all leases of a Jupyter server",
        who="the scope `custom:gpu:use`; for another `user`: `custom:gpu:admin:pool` (the hub)",
        body=schemas.ReleaseServer,
        answers={200: resources.LeaseList},
    )
    async def post(self, *, body: schemas.ReleaseServer) -> None:
        """Ends all that the server holds or waits for."""
        server, user = body.server, body.user or self.identity.name
        if user == self.identity.name:
            self.require(USE, server=server)
        else:
            self.require(ADMIN_POOL)
        actor = self.identity.name

        def given_back(tx: Transaction) -> tuple[resources.Lease, ...]:
            ended = release.release_server(tx, user, server, actor)
            return tuple(lease_views.lease_view(tx, lease) for lease in ended)

        self.answer(resources.LeaseList(await self.service.desk.write(given_back)))


class Revoke(LeaseHandler):
    """``/leases/ID/revoke``"""

    @operation(
        "Take a lease back",
        who="the scope `custom:gpu:admin:pool`; instructors of the lease's course",
        body=schemas.Revoke,
        answers={200: resources.Lease},
        errors=[UnknownLease],
    )
    async def post(self, lease_id: str, *, body: schemas.Revoke) -> None:
        """The user is told the reason."""
        identity = self.identity
        actor = identity.name

        def revoke(tx: Transaction) -> resources.Lease:
            lease = leases.find(tx, lease_id)
            if not identity.may(ADMIN_POOL) and not (lease is not None and identity.teaches(lease.course)):
                raise Forbidden(
                    f"{actor} may not take this lease back; instructors of its course may, and its owner may "
                    "give it back."
                )
            if lease is None:
                raise UnknownLease(f"There is no lease {lease_id[:40]!r}.")
            if lease.state in LIVE:
                lease = termination.revoke(
                    tx, lease, who=Who.ADMIN, actor=actor, reason=f"Taken back: {body.reason}"
                )
            return lease_views.lease_view(tx, lease)

        self.answer(await self.service.desk.write(revoke))
