"""Quotas and limits of accounts: like those, first tried on a copy of the quota tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpu_kernels.errors import Conflict, Forbidden, InvalidRequest, UnknownCourse
from gpu_kernels.pool.ledger.commands.accounts import check_not_said, put_account, trial_tree
from gpu_kernels.pool.ledger.queries.account_rows import known
from gpu_kernels.pool.ledger.state.indexes.entitlements import limits_of
from gpu_kernels.pool.ledger.state.rows import Quota
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.quota import COURSE, Limits
from gpu_kernels.units import thousandths_text, valid_class
from gpu_kernels.vocabulary.roles import graded_course
from gpu_kernels.vocabulary.rules import of_class

CONFIGURATION = "configuration"


def add_first_courses(tx: Transaction, courses: Mapping[str, Mapping[str, int]]) -> None:
    """Create the configured courses in a ledger that has none; later their limits belong to their
    instructors.
    """
    if not tx.book.accounts:
        for name in sorted(courses, key=lambda name: graded_course(name) is not None):
            set_limit(tx, name, courses[name], actor=CONFIGURATION, create=True)


def put_quota(tx: Transaction, name: str, gpu_class: str, limits: Limits, *, actor: str) -> Quota:
    """Set what an account has of a class. Raises ``UnknownAccount``, ``InvalidRequest``, or ``Conflict``."""
    known(tx, name)
    before = tx.book.quotas.get((name, gpu_class))
    quota = quota_row(name, gpu_class, limits)
    if quota == before:
        return quota
    check_quota(tx, quota)
    fields = [f for f in Limits.__slots__ if getattr(quota, f) != getattr(before or Limits(), f)]
    check_not_said(tx, name, [f"{field} {gpu_class}" for field in fields])
    return write_quota(tx, quota, actor=actor)


def drop_quota(tx: Transaction, name: str, gpu_class: str, *, actor: str) -> None:
    """Take a class from an account; nothing where it has none. Raises ``UnknownAccount`` or ``Conflict``."""
    known(tx, name)
    before = tx.book.quotas.get((name, gpu_class))
    if before is not None:
        check_not_said(tx, name, [f"{field} {gpu_class}" for field in Limits.__slots__])
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
        check_not_said(tx, name, [f"hard_limit {gpu_class}"])
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
            check_not_said(tx, name, [f"hard_limit {gpu_class}"])
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


def check_quota(tx: Transaction, quota: Quota) -> None:
    """Refuse a quota that contradicts itself. Raises ``InvalidRequest``."""
    if not valid_class(quota.gpu_class):
        raise InvalidRequest(f"{quota.gpu_class[:40]!r} is not the name of a GPU class.")
    trial_tree(tx).put_quota(quota.account, quota.gpu_class, limits_of(quota))


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


def _parent(tx: Transaction, name: str) -> str:
    path = tx.book.entitlements.tree.path(name)
    return path[-2] if len(path) > 1 else ""
