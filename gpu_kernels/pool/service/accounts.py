"""``/accounts``: the quota tree, who may have what, and the rules."""

from __future__ import annotations

from gpu_kernels.errors import (
    AuthenticationUnavailable,
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    UnknownAccount,
)
from gpu_kernels.pool.ledger.commands import accounts, quotas
from gpu_kernels.pool.ledger.queries import account_views
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.quota import Limits
from gpu_kernels.pool.service.base import Handler
from gpu_kernels.pool.service.identity import ADMIN_QUOTA, READ_USAGE, Identity
from gpu_kernels.pool.service.operations import operation
from gpu_kernels.pool.service.schemas import accounts as schemas
from gpu_kernels.resources import accounts as resources

ABOVE = "`custom:gpu:admin:quota`; with `!group=` of an account, for what is below it"


def may_change(tx: Transaction, identity: Identity, name: str, parent: str | None = None) -> bool:
    """Whether somebody may say what an account has: that is for those who have a right above it, and above
    where it is to belong.
    """
    if identity.may(ADMIN_QUOTA):
        return True
    tree = tx.book.entitlements.tree
    places = [tree.path(name)[:-1]] if name in tree else []
    if parent is not None or name not in tree:
        places.append(tree.path(parent) if parent is not None and parent in tree else ())
    return all(any(identity.may(ADMIN_QUOTA, course=above) for above in path) for path in places)


def check_may_change(tx: Transaction, identity: Identity, name: str, parent: str | None = None) -> None:
    """Raises ``Forbidden`` where somebody may not say what an account has."""
    if not may_change(tx, identity, name, parent):
        raise Forbidden(
            f"{identity.name} may not say what {name[:100]} has: that takes the scope {ADMIN_QUOTA} for an "
            "account above it.",
            details={"account": name[:100]},
        )


def check_may_see(tx: Transaction, identity: Identity, name: str) -> None:
    """Refuse whoever has no right to an account or one above it. Raises ``Forbidden``."""
    tree = tx.book.entitlements.tree
    path = tree.path(name) if name in tree else ()
    sees = identity.may(READ_USAGE) or any(identity.may(READ_USAGE, course=above) for above in path)
    if not (sees or identity.teaches(name)):
        raise Forbidden(
            f"{identity.name} may not see the account {name[:100]}.", details={"account": name[:100]}
        )


class Accounts(Handler):
    """``/accounts``"""

    @operation("List accounts", scope=READ_USAGE, answers={200: resources.AccountList})
    async def get(self) -> None:
        """All, or with `!group=` those at and below that account."""
        identity = self.identity

        def views(tx: Transaction) -> resources.AccountList:
            found = []
            for name in account_views.accounts(tx):
                try:
                    check_may_see(tx, identity, name)
                except Forbidden:
                    continue
                found.append(account_views.account(tx, name))
            return resources.AccountList(tuple(found))

        self.answer(await self.service.desk.read(views))


class OneAccount(Handler):
    """``/accounts/NAME``"""

    @operation(
        "See an account",
        who="`custom:gpu:read:usage`, also with `!group=` of it or one above; a course's instructors",
        answers={200: resources.Account},
        errors=[UnknownAccount],
    )
    async def get(self, name: str) -> None:
        """With its quotas, its rules and those in force, and what group properties of the hub say of it."""
        identity = self.identity

        def view(tx: Transaction) -> resources.Account:
            check_may_see(tx, identity, name)
            return account_views.account(tx, name)

        self.answer(await self.service.desk.read(view))

    @operation(
        "Make or change an account",
        who=ABOVE,
        body=schemas.PutAccount,
        answers={200: resources.Account},
        errors=[InvalidRequest, Conflict],
    )
    async def put(self, name: str, *, body: schemas.PutAccount) -> None:
        """Replaces its place, its weight and its rules; its quotas stay. A course or faculty is named like
        its group in the hub. What a group property sets is changed in the hub.
        """
        identity = self.identity

        def change(tx: Transaction) -> resources.Account:
            check_may_change(tx, identity, name, body.parent or tx.book.entitlements.tree.root)
            accounts.put_account(
                tx,
                name,
                actor=identity.name,
                kind=body.kind,
                parent=body.parent,
                weight=body.weight,
                rules=body.rules.model_dump(exclude_unset=True),
            )
            return account_views.account(tx, name)

        self.answer(await self.service.desk.write(change))

    @operation(
        "Remove an account", who=ABOVE, answers={200: resources.Removed}, errors=[UnknownAccount, Conflict]
    )
    async def delete(self, name: str) -> None:
        """With its quotas, once it has no accounts below it and holds nothing."""
        identity = self.identity

        def remove(tx: Transaction) -> None:
            check_may_change(tx, identity, name)
            accounts.drop_account(tx, name, actor=identity.name)

        await self.service.desk.write(remove)
        self.answer(resources.Removed(name))


class AccountRules(Handler):
    """``/accounts/NAME/rules``"""

    @operation(
        "Set an account's rules",
        who=f"{ABOVE}. For a course's instructors there is `PUT /courses/NAME/rules`",
        body=schemas.Rules,
        answers={200: resources.Account},
        errors=[UnknownAccount, Conflict],
    )
    async def put(self, name: str, *, body: schemas.Rules) -> None:
        """Replaces the account's own rules."""
        identity = self.identity

        def change(tx: Transaction) -> resources.Account:
            rules = body.model_dump(exclude_unset=True)
            check_may_change(tx, identity, name)
            accounts.set_rules(tx, name, rules, actor=identity.name)
            return account_views.account(tx, name)

        self.answer(await self.service.desk.write(change))


class AccountQuota(Handler):
    """``/accounts/NAME/quota/CLASS``"""

    @operation(
        "Set what an account has of a GPU class",
        who=ABOVE,
        body=schemas.Limits,
        answers={200: resources.QuotaOf},
        errors=[UnknownAccount, InvalidRequest, Conflict],
    )
    async def put(self, name: str, gpu_class: str, *, body: schemas.Limits) -> None:
        """Takes nothing from leases in force: a limit below what is held lets nothing new in until enough of
        it has ended.
        """
        identity, limits = self.identity, Limits(**body.model_dump())

        def change(tx: Transaction) -> resources.QuotaOf:
            check_may_change(tx, identity, name)
            quotas.put_quota(tx, name, gpu_class, limits, actor=identity.name)
            return account_views.quota(tx, name, gpu_class)

        self.answer(await self.service.desk.write(change))

    @operation(
        "Take a GPU class from an account",
        who=ABOVE,
        answers={200: resources.Account},
        errors=[UnknownAccount, Conflict],
    )
    async def delete(self, name: str, gpu_class: str) -> None:
        """From then on it has what it would have without a quota of its own."""
        identity = self.identity

        def remove(tx: Transaction) -> resources.Account:
            check_may_change(tx, identity, name)
            quotas.drop_quota(tx, name, gpu_class, actor=identity.name)
            return account_views.account(tx, name)

        self.answer(await self.service.desk.write(remove))


class ReadGroups(Handler):
    """``/groups/read``"""

    @operation(
        "Read the hub's groups now",
        scope=ADMIN_QUOTA,
        answers={200: resources.GroupsRead},
        errors=[NotFound, AuthenticationUnavailable],
    )
    async def post(self) -> None:
        """They are read every `groups_interval` seconds by themselves. Without a hub there are none."""
        if self.service.groups is None:
            raise NotFound("This controller reads no groups: it has no hub.")
        self.service.group_reads.take(self.identity.name)
        self.answer(resources.GroupsRead(await self.service.groups.once()))
