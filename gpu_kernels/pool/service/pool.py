"""The part of the API that everyone reads: the pool, courses and their limits, health, metrics."""

from __future__ import annotations

import re
from contextlib import suppress

from prometheus_client import CONTENT_TYPE_LATEST

from gpu_kernels import __version__
from gpu_kernels.errors import (
    AuthenticationUnavailable,
    Conflict,
    Forbidden,
    InvalidRequest,
    NotActive,
    NotAMember,
    RateLimited,
    TooMany,
    Unauthenticated,
    UnknownCourse,
)
from gpu_kernels.pool.ledger.commands import quotas
from gpu_kernels.pool.ledger.queries import account_views, audit, courses, pool_views
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy import refusals
from gpu_kernels.pool.service.accounts import may_change
from gpu_kernels.pool.service.base import Handler
from gpu_kernels.pool.service.identity import ADMIN_QUOTA, AGENT, READ_USAGE, USE, Identity
from gpu_kernels.pool.service.operations import operation
from gpu_kernels.pool.service.schemas import pool as schemas
from gpu_kernels.resources import about, pool
from gpu_kernels.resources import courses as resources
from gpu_kernels.units import valid_class

COURSE_NAME = re.compile(r"[^\s\x00-\x1f!=/,][^\x00-\x1f!=/,]{0,199}")


class Pool(Handler):
    """``/pool``"""

    @operation("See the pool", who="any of the scopes", answers={200: pool.Pool})
    async def get(self) -> None:
        """GPU classes with the sizes on offer, and GPUs with what of them is in use. No user is named."""
        if not any(self.identity.may_somewhere(scope) for scope in (USE, READ_USAGE, AGENT)):
            self.require(USE)
        sizes = self.service.sizes
        self.answer(await self.service.desk.read(lambda tx: pool_views.pool(tx, sizes)))


def course_view(tx: Transaction, name: str, identity: Identity) -> resources.Course:
    """A course as this asker sees it. Raises ``UnknownCourse``."""
    return account_views.course(tx, name, identity.name, teaches=identity.teaches(name))


class Courses(Handler):
    """``/courses``"""

    @operation("List courses", answers={200: resources.CourseList})
    async def get(self) -> None:
        """One's own, or all with `custom:gpu:read:usage` without a filter."""
        identity = self.identity
        sees_all = identity.may(READ_USAGE)

        def own(tx: Transaction) -> resources.CourseList:
            names = courses.CourseNames(tx.book.accounts)
            own_names = names if sees_all else courses.own_courses(tx, identity.groups)
            return resources.CourseList(tuple(course_view(tx, name, identity) for name in sorted(own_names)))

        self.answer(await self.service.desk.read(own))


class OneCourse(Handler):
    """``/courses/NAME``"""

    @operation(
        "See a course",
        who="members and instructors of the course, and `custom:gpu:read:usage`",
        answers={200: resources.Course},
        errors=[UnknownCourse, NotAMember],
    )
    async def get(self, name: str) -> None:
        """`held` counts leases that have ended until their agent confirms it. `quota` and `rules` are what is
        in force, also what comes from accounts above; `budgets` are the course's and the asker's own;
        `faults` are group properties of the hub that cannot be carried out, for instructors.
        """
        self._check_visible(name)
        self.answer(await self.service.desk.read(lambda tx: course_view(tx, name, self.identity)))

    @operation(
        "Set a course's limit",
        who="instructors of the course, and `custom:gpu:admin:quota`; without a filter it also makes courses",
        body=schemas.Limit,
        answers={200: resources.Course},
        errors=[UnknownCourse, NotAMember, Conflict],
    )
    async def put(self, name: str, *, body: schemas.Limit) -> None:
        """Replaces the whole limit. Takes nothing from leases in force. A course is named like its group in
        the hub.
        """
        limit = {gpu_class: share.thousandths for gpu_class, share in body.limit.items()}
        for gpu_class in limit:
            if not valid_class(gpu_class):
                raise InvalidRequest(f"{gpu_class!r} is not the name of a GPU class.")
        if not COURSE_NAME.fullmatch(name):
            raise InvalidRequest(f"A course is named like its group in the hub; {name[:40]!r} cannot be one.")
        create = self.identity.may(ADMIN_QUOTA)
        if not (create or self.identity.teaches(name)):
            self._check_visible(name)
            raise Forbidden(
                f"{self.identity.name} may not change the limit of {name}; its instructors may.",
                details={"course": name},
            )
        identity = self.identity

        def change(tx: Transaction) -> resources.Course:
            tighten = not may_change(tx, identity, name)
            quotas.set_limit(tx, name, limit, actor=identity.name, create=create, tighten=tighten)
            return course_view(tx, name, identity)

        self.answer(await self.service.desk.write(change))

    def _check_visible(self, name: str) -> None:
        identity = self.identity
        if not (identity.belongs_to(name) or identity.teaches(name) or identity.may(READ_USAGE, course=name)):
            raise refusals.not_of_course(identity.name, name[:200])


class Health(Handler):
    """``/health``: whether the ledger can be read, and by whom."""

    anonymous = True

    @operation(
        "Whether the ledger can be read",
        who="anyone with a scope; programs on the controller's own machine need no token where the setting "
        "`metrics_without_token` says so and no proxy is in between",
        answers={200: about.Health},
        errors=[Unauthenticated, AuthenticationUnavailable, Forbidden, RateLimited, TooMany],
        anonymous=True,
    )
    async def get(self) -> None:
        """`ledger_mismatch` must be 0. A controller on standby answers too: it is well, and reads no ledger.
        Also answers without `/api/v1`.
        """
        await self.require_trusted(READ_USAGE, USE, AGENT)
        mismatch, active = None, None
        try:
            mismatch = await self.service.desk.read(audit.mismatch)
        except NotActive as error:
            active = error.details.get("address")
        role = "standby" if mismatch is None else "active"
        self.answer(about.Health("ok", __version__, role, active, mismatch, self._groups()))

    def _groups(self) -> about.GroupsHealth | None:
        if self.service.groups is None:
            return None
        state = self.service.groups.state
        return about.GroupsHealth(state.age, state.fault, state.faulty)


class MetricsPage(Handler):
    """``/metrics``: for Prometheus."""

    anonymous = True

    @operation(
        "Metrics for Prometheus",
        who="like `/health`; others with `custom:gpu:read:usage`",
        answers={200: "text/plain"},
        errors=[Unauthenticated, AuthenticationUnavailable, Forbidden, RateLimited, TooMany],
        anonymous=True,
    )
    async def get(self) -> None:
        """Also answers without `/api/v1`."""
        await self.require_trusted(READ_USAGE)
        sums: pool_views.Sums | None = None
        with suppress(NotActive):
            sums = await self.service.desk.read(pool_views.sums)
        self.set_header("Content-Type", CONTENT_TYPE_LATEST)
        self.finish(self.service.metrics.text(sums))
