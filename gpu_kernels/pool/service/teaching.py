"""``/courses/NAME/...``: what the instructors of a course do themselves."""

from __future__ import annotations

from gpu_kernels.errors import Forbidden, UnknownCourse
from gpu_kernels.pool.ledger.commands import idle, instructor_rules
from gpu_kernels.pool.ledger.queries import account_views, lease_views
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.service.accounts import may_change
from gpu_kernels.pool.service.base import Handler
from gpu_kernels.pool.service.identity import ADMIN_POOL, Identity
from gpu_kernels.pool.service.operations import operation
from gpu_kernels.pool.service.schemas import accounts as schemas
from gpu_kernels.pool.service.schemas import leases
from gpu_kernels.resources import leases as resources
from gpu_kernels.resources.accounts import Account

INSTRUCTORS = "instructors of the course, and `custom:gpu:admin:quota`, with `!group=` of it or one above"


def check_teaches(tx: Transaction, identity: Identity, name: str) -> None:
    """Raises ``Forbidden`` for who neither teaches a course nor says what it has."""
    if not (identity.teaches(name) or may_change(tx, identity, name)):
        raise Forbidden(
            f"{identity.name} does not teach {name[:100]}; its instructors may do this.",
            details={"course": name[:100]},
        )


class CourseRules(Handler):
    """``/courses/NAME/rules``"""

    @operation(
        "Set what a course's instructors say of it",
        who=INSTRUCTORS,
        body=schemas.Rules,
        answers={200: Account},
        errors=[UnknownCourse],
    )
    async def put(self, name: str, *, body: schemas.Rules) -> None:
        """Replaces their own rules, which lie on top of what admins and group properties say, and may be as
        tight or tighter; an override may give one user as much as stands above the course.
        """
        identity = self.identity

        def change(tx: Transaction) -> Account:
            check_teaches(tx, identity, name)
            instructor_rules.teach(tx, name, body.model_dump(exclude_unset=True), actor=identity.name)
            return account_views.account(tx, name)

        self.answer(await self.service.desk.write(change))


class EndIdle(Handler):
    """``/courses/NAME/end-idle``"""

    @operation(
        "Take back a course's idle leases",
        who=f"{INSTRUCTORS}; `custom:gpu:admin:pool`",
        body=leases.EndIdle,
        answers={200: resources.LeaseList},
        errors=[UnknownCourse],
    )
    async def post(self, name: str, *, body: leases.EndIdle) -> None:
        """Those that have launched nothing for so long. Seats of a class stay while it is on."""
        identity = self.identity

        def end(tx: Transaction) -> tuple[resources.Lease, ...]:
            if not identity.may(ADMIN_POOL):  # who may take any lease back
                check_teaches(tx, identity, name)
            ended = idle.end_idle(tx, name, body.idle * 1000, actor=identity.name)
            return tuple(lease_views.lease_view(tx, lease) for lease in ended)

        self.answer(resources.LeaseList(await self.service.desk.write(end)))
