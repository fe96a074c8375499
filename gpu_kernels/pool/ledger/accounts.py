"""Accounts, their quotas and rules: made, changed and removed; and whose course a request is charged to.

Every change is first made on a copy of the quota tree, which refuses what makes no tree or no quota, and
only then in the book. Leases in force are never touched by one. What a group property of the hub says (see
``groups``) is changed there and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpu_kernels.errors import Conflict, Forbidden, InvalidRequest, UnknownAccount, UnknownCourse
from gpu_kernels.pool.ledger.rows import Account, GroupProperty, Quota
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.properties import HEAVIEST, LIGHTEST, PROPERTIES, wanted
from gpu_kernels.pool.policy.quota import COURSE, INSTITUTION, Limits, Tree
from gpu_kernels.pool.policy.roles import choose_course, graded_course, grading_account
from gpu_kernels.pool.policy.rules import of_class, read_rules
from gpu_kernels.units import thousandths_text, valid_class

CONFIGURATION = "configuration"
NAME = re.compile(r"[^\s\x00-\x1f!=/,][^\x00-\x1f!=/,]{0,199}")
"""What an account may be called: a group of the hub that a scope's filter can name."""


class CourseNames(Collection[str]):
    """The names of the courses among the accounts."""

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self._accounts = accounts

    def __contains__(self, name: object) -> bool:
        account = self._accounts.get(str(name))
        return account is not None and account.kind == COURSE

    def __iter__(self) -> Iterator[str]:
        return (name for name, account in self._accounts.items() if account.kind == COURSE)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def resolve_course(tx: Transaction, user: str, groups: Collection[str], name: str | None) -> str:
    """The course to charge: the named one, or the only one that the user belongs to.

    Raises ``UnknownCourse``, ``NotAMember``, or ``CourseAmbiguous``.
    """
    return choose_course(user, groups, name, CourseNames(tx.book.accounts), tx.patterns)


def own_courses(tx: Transaction, groups: Iterable[str]) -> list[str]:
    """The courses that a user's groups stand for, with the grading accounts of those that they teach."""
    known, held = CourseNames(tx.book.accounts), list(groups)
    return sorted(name for name in [*tx.patterns.roles(held), *tx.patterns.grades(held)] if name in known)


def add_first_courses(tx: Transaction, courses: Mapping[str, Mapping[str, int]]) -> None:
    """Create the configured courses in a ledger that has none; later their limits belong to their
    instructors.
    """
    if not tx.book.accounts:
        for name in sorted(courses, key=lambda name: graded_course(name) is not None):
            set_limit(tx, name, courses[name], actor=CONFIGURATION, create=True)


# --- accounts


def put_account(
    tx: Transaction,
    name: str,
    *,
    actor: str,
    kind: str,
    parent: str | None = None,
    weight: float = 1.0,
    rules: Mapping[str, Any] | None = None,
) -> Account:
    """Make an account, or change it. Raises ``InvalidRequest`` or ``Conflict``."""
    before = tx.book.accounts.get(name)
    if parent is not None and parent not in tx.book.accounts and parent == tx.book.entitlements.tree.root:
        parent = None  # the institution that no row stands for
    if parent is None and graded_course(name) in CourseNames(tx.book.accounts):
        parent = tx.book.accounts[str(graded_course(name))].parent
    account = Account(
        name=name,
        kind=kind,
        parent=parent,
        weight=weight,
        rules=dict(rules or {}),
        created_at=tx.now if before is None else before.created_at,
    )
    if account == before:
        return account
    check_account(tx, account)
    _check_not_said(tx, name, _differing(before, account))
    return write_account(tx, account, actor=actor)


def check_account(tx: Transaction, account: Account) -> None:
    """Refuse an account that cannot stand where it is to. Raises ``InvalidRequest``."""
    if not NAME.fullmatch(account.name):
        raise InvalidRequest(
            f"An account is named like its group in the hub; {account.name[:40]!r} cannot be one."
        )
    if not LIGHTEST <= account.weight <= HEAVIEST:
        raise InvalidRequest(
            f"The weight of {account.name} must be {LIGHTEST:g} to {HEAVIEST:g}, not {account.weight:g}."
        )
    read_rules(account.rules)
    _check_grading(tx, account)
    tree = _trial_tree(tx)
    if account.kind == INSTITUTION and not _has_root(tx):
        if account.name in tree and account.name != tree.root:
            raise InvalidRequest(f"{account.name} is there already, as {tree.kind(account.name)}.")
        if account.parent is not None:
            raise InvalidRequest(f"{account.name} is the institution, and has no parent.")
        return
    lowest = account.parent or (None if account.kind == INSTITUTION else tree.root)
    tree.put_account(account.name, account.kind, lowest)


def _check_grading(tx: Transaction, account: Account) -> None:
    """A grading account stands beside its course, always. Raises ``InvalidRequest``."""
    courses, course = CourseNames(tx.book.accounts), graded_course(account.name)
    if account.kind == COURSE and course is not None:
        if course not in courses:
            raise InvalidRequest(
                f"{account.name} would be the grading account of {course}, and there is no such course."
            )
        if account.parent != (parent := tx.book.accounts[course].parent):
            beside = "the institution" if parent is None else parent
            raise InvalidRequest(f"{account.name} stands below {beside}, as {course} does.")
    if account.kind != COURSE and grading_account(account.name) in courses:
        raise InvalidRequest(
            f"{account.name} stays a course: it has the grading account {grading_account(account.name)}."
        )


def write_account(tx: Transaction, account: Account, *, actor: str) -> Account:
    """Put an account that was checked, and note it; its grading account goes where it goes."""
    written = _write_account(tx, account, actor=actor)
    grading = tx.book.accounts.get(grading_account(account.name))
    if grading is not None and grading.kind == COURSE and grading.parent != account.parent:
        _write_account(tx, replace(grading, parent=account.parent), actor=actor)
    return written


def _write_account(tx: Transaction, account: Account, *, actor: str) -> Account:
    before = tx.book.accounts.get(account.name)
    told = {key: getattr(account, key) for key in ("kind", "parent", "weight")} | {
        "rules": dict(account.rules)
    }
    was = None
    if before is not None:
        was = {key: getattr(before, key) for key in ("kind", "parent", "weight")} | {
            "rules": dict(before.rules)
        }
    tx.event(actor, "account", account.name, {"from": was, "to": told})
    tx.capacity_changed()
    return tx.put(account)


def _shown(account: Account | None) -> dict[str, Any] | None:
    if account is None:
        return None
    return {
        "kind": account.kind,
        "parent": account.parent,
        "weight": account.weight,
        "rules": dict(account.rules),
    }


def drop_account(tx: Transaction, name: str, *, actor: str) -> None:
    """Remove an account and its quotas. Raises ``UnknownAccount``, or ``Conflict`` while it has children, or
    leases that hold or wait for something.
    """
    account = known(tx, name)
    if (grading := grading_account(name)) in tx.book.accounts and account.kind == COURSE:
        raise Conflict(f"{name} cannot be removed: it has the grading account {grading}. Remove that first.")
    said = [row for row in said_of(tx, name) if row.value]
    if said:
        raise Conflict(
            f"{name} cannot be removed: the group {said[0].group} of the hub sets {said[0].name} for it.\n"
            "Remove the properties in the hub's admin panel first.",
            details={"account": name, "group": said[0].group},
        )
    waiting = sum(lease.course == name for lease in tx.book.waiting)
    if waiting:
        raise Conflict(
            f"{name} cannot be removed: {waiting} requests of it wait.\n"
            "Take them back, or wait until they are over.",
            retry_after=60.0,
        )
    _trial_tree(tx).drop_account(name)
    for quota in list(tx.book.quotas_of.of(name).values()):
        tx.drop(quota)
    if name in tx.book.taught_rules:
        tx.drop(tx.book.taught_rules[name])
    tx.drop(account)
    tx.event(actor, "account", name, {"from": _shown(account), "to": None})


def set_rules(tx: Transaction, name: str, rules: Mapping[str, Any], *, actor: str) -> Account:
    """Replace an account's own rules; what instructors say on top of them stays."""
    account = known(tx, name)
    read_rules(rules)
    _check_not_said(tx, name, _differing(account, replace(account, rules=dict(rules))))
    return put_account(
        tx, name, actor=actor, kind=account.kind, parent=account.parent, weight=account.weight, rules=rules
    )


# --- quotas


def put_quota(tx: Transaction, name: str, gpu_class: str, limits: Limits, *, actor: str) -> Quota:
    """Set what an account has of a class. Raises ``UnknownAccount``, ``InvalidRequest``, or ``Conflict``."""
    known(tx, name)
    before = tx.book.quotas.get((name, gpu_class))
    quota = quota_row(name, gpu_class, limits)
    if quota == before:
        return quota
    check_quota(tx, quota)
    fields = [f for f in Limits.__slots__ if getattr(quota, f) != getattr(before or Limits(), f)]
    _check_not_said(tx, name, [f"{field} {gpu_class}" for field in fields])
    return write_quota(tx, quota, actor=actor)


def drop_quota(tx: Transaction, name: str, gpu_class: str, *, actor: str) -> None:
    """Take a class from an account; nothing where it has none. Raises ``UnknownAccount`` or ``Conflict``."""
    known(tx, name)
    before = tx.book.quotas.get((name, gpu_class))
    if before is not None:
        _check_not_said(tx, name, [f"{field} {gpu_class}" for field in Limits.__slots__])
        remove_quota(tx, before, actor=actor)


def set_limit(
    tx: Transaction,
    name: str,
    limit: Mapping[str, int],
    *,
    actor: str,
    create: bool,
    tighten: bool = False,
) -> None:
    """Replace the hard limits of a course: thousandths by GPU class. One that has a hard limit and is not
    named is not for the course any more; what an admin has given it besides stays.

    ``tighten``: whoever teaches a course may not exceed what the accounts above it allow each course.
    Raises ``UnknownCourse`` for a course that does not exist unless ``create``, ``InvalidRequest`` for a
    limit below the nominal, ``Forbidden``, ``Conflict`` where a group property says another.
    """
    account = tx.book.accounts.get(name)
    if account is not None and account.kind != COURSE:
        raise InvalidRequest(f"{name} is no course: it is a {account.kind}. Set its quota instead.")
    if account is None:
        if not create:
            raise UnknownCourse(f"There is no course {name} in the GPU pool.", details={"course": name})
        put_account(tx, name, actor=actor, kind=COURSE)
    rows = dict(tx.book.quotas_of.of(name))
    before = {c: row.hard_limit for c, row in rows.items() if row.hard_limit is not None}
    if before == dict(limit) and account is not None:
        return
    if tighten:
        _check_within(tx, name, {c: most for c, most in limit.items() if most > before.get(c, 0)})
    for gpu_class in sorted(before.keys() - limit.keys()):
        row = rows[gpu_class]
        _check_not_said(tx, name, [f"hard_limit {gpu_class}"])
        if row.nominal:
            raise Conflict(
                f"{name} has a nominal share of {gpu_class}, which only an admin can take away.\n"
                f"Name {gpu_class} in the limit too.",
                details={"course": name, "gpu_class": gpu_class},
            )
        tx.drop(row)
    for gpu_class, thousandths in sorted(limit.items()):
        row = rows.get(gpu_class) or Quota(account=name, gpu_class=gpu_class)
        if row.hard_limit != thousandths:
            _check_not_said(tx, name, [f"hard_limit {gpu_class}"])
            quota = replace(row, hard_limit=thousandths)
            check_quota(tx, quota)
            tx.put(quota)
    tx.event(actor, "limit", name, {"from": before, "to": dict(limit)})
    tx.capacity_changed()


def _check_within(tx: Transaction, name: str, limit: Mapping[str, int]) -> None:
    allowed = tx.book.entitlements.rules(_parent(tx, name)).course_limit
    for gpu_class, thousandths in sorted(limit.items()):
        most = of_class(allowed, gpu_class)
        if most is not None and thousandths > most:
            raise Forbidden(
                f"{name} may not hold {thousandths_text(thousandths, gpu_class)}: what stands above it "
                f"allows each course {thousandths_text(most, gpu_class)}.\n"
                "Ask the pool's administrator for more.",
                details={"course": name, "gpu_class": gpu_class, "most": most},
            )


def quota_row(name: str, gpu_class: str, limits: Limits) -> Quota:
    return Quota(
        account=name,
        gpu_class=gpu_class,
        nominal=limits.nominal,
        borrowing_limit=limits.borrowing_limit,
        lending_limit=limits.lending_limit,
        hard_limit=limits.hard_limit,
    )


def limits_of(quota: Quota | None) -> Limits:
    """A row's amounts; of none, those of an account that has no quota of its own."""
    if quota is None:
        return Limits()
    return Limits(quota.nominal, quota.borrowing_limit, quota.lending_limit, quota.hard_limit)


def check_quota(tx: Transaction, quota: Quota) -> None:
    """Refuse a quota that contradicts itself. Raises ``InvalidRequest``."""
    if not valid_class(quota.gpu_class):
        raise InvalidRequest(f"{quota.gpu_class[:40]!r} is not the name of a GPU class.")
    _trial_tree(tx).put_quota(quota.account, quota.gpu_class, limits_of(quota))


def write_quota(tx: Transaction, quota: Quota, *, actor: str) -> Quota:
    """Put a quota that was checked, and note it."""
    before = tx.book.quotas.get((quota.account, quota.gpu_class))
    tx.event(actor, "quota", quota.account, _told(quota.gpu_class, before, quota))
    tx.capacity_changed()
    return tx.put(quota)


def remove_quota(tx: Transaction, quota: Quota, *, actor: str) -> None:
    tx.event(actor, "quota", quota.account, _told(quota.gpu_class, quota, None))
    tx.capacity_changed()
    tx.drop(quota)


def _told(gpu_class: str, before: Quota | None, after: Quota | None) -> dict[str, Any]:
    def amounts(quota: Quota | None) -> dict[str, int | None] | None:
        return None if quota is None else {name: getattr(quota, name) for name in Limits.__slots__}

    return {"gpu_class": gpu_class, "from": amounts(before), "to": amounts(after)}


# --- what group properties say


def subject(tx: Transaction, group: str) -> str:
    """The account that a group of the hub stands for: a course by its name's pattern, others by the whole
    name.
    """
    kind = tx.book.group_properties.get((group, "gpu_kind"))
    if kind is not None and kind.value not in ("", COURSE):
        return group
    match = tx.patterns.course_of(group)
    return group if match is None else match[0]


def said_of(tx: Transaction, account: str) -> list[GroupProperty]:
    """The group properties that are about an account, also those that cannot be read. Those of a course's
    grading account are on the course's group, and are about both.
    """
    rows, course = tx.book.group_properties.values(), graded_course(account)
    about = [
        row
        for row in rows
        if (stands_for := subject(tx, row.group)) == account or (stands_for == course and _of_grading(row))
    ]
    return sorted(about, key=lambda row: (row.group, row.name))


def _of_grading(row: GroupProperty) -> bool:
    return row.name in PROPERTIES and PROPERTIES[row.name].grading is not None


def _check_not_said(tx: Transaction, account: str, fields: Collection[str]) -> None:
    """Refuse to change what a group property sets. Raises ``Conflict``."""
    for row in said_of(tx, account):
        if row.value and not fields_of(row, account).isdisjoint(fields):
            raise Conflict(
                f"The property {row.name} of the group {row.group} sets this for {account}: {row.value}.\n"
                "Change it in the hub's admin panel, under Manage Groups.",
                details={"account": account, "group": row.group, "property": row.name, "value": row.value},
            )


def fields_of(row: GroupProperty, account: str) -> set[str]:
    """What of an account a property sets, as ``_check_not_said`` names it."""
    name = row.name
    if _of_grading(row):
        if graded_course(account) is None:
            return set()
        name = str(PROPERTIES[name].grading)
    said, made = wanted({name: row.value}), PROPERTIES[name]
    if made.quota is not None:
        return {f"{made.quota} {gpu_class}" for gpu_class in said.limits}
    return {f"rule {made.rule}"} if made.rule is not None else {row.name.removeprefix("gpu_")}


def _differing(before: Account | None, after: Account) -> list[str]:
    old = before or Account(name=after.name, kind=after.kind, created_at=0)
    fields = [name for name in ("kind", "parent", "weight") if getattr(old, name) != getattr(after, name)]
    rules = old.rules.keys() | after.rules.keys()
    return fields + [f"rule {n}" for n in rules if old.rules.get(n, "") != after.rules.get(n, "")]


# --- within


def known(tx: Transaction, name: str) -> Account:
    """The account. Raises ``UnknownAccount``."""
    account = tx.book.accounts.get(name)
    if account is None:
        raise UnknownAccount(
            f"There is no account {name[:100]} in the GPU pool.", details={"account": name[:100]}
        )
    return account


def _trial_tree(tx: Transaction) -> Tree:
    return tx.book.entitlements.tree.copy()


def _has_root(tx: Transaction) -> bool:
    return any(account.kind == INSTITUTION for account in tx.book.accounts.values())


def _parent(tx: Transaction, name: str) -> str:
    path = tx.book.entitlements.tree.path(name)
    return path[-2] if len(path) > 1 else ""
