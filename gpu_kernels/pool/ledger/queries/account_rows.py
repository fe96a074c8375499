"""Accounts as the book has them, and which properties of the hub's groups are about them."""

from __future__ import annotations

from gpu_kernels.errors import UnknownAccount
from gpu_kernels.pool.ledger.state.rows import Account, GroupProperty
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.quota import COURSE
from gpu_kernels.vocabulary.properties import PROPERTIES, wanted
from gpu_kernels.vocabulary.roles import graded_course


def known(tx: Transaction, name: str) -> Account:
    """The account. Raises ``UnknownAccount``."""
    account = tx.book.accounts.get(name)
    if account is None:
        raise UnknownAccount(
            f"There is no account {name[:100]} in the GPU pool.", details={"account": name[:100]}
        )
    return account


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


def fields_of(row: GroupProperty, account: str) -> set[str]:
    """What of an account a property sets, as ``check_not_said`` names it."""
    name = row.name
    if _of_grading(row):
        if graded_course(account) is None:
            return set()
        name = str(PROPERTIES[name].grading)
    said, made = wanted({name: row.value}), PROPERTIES[name]
    if made.quota is not None:
        return {f"{made.quota} {gpu_class}" for gpu_class in said.limits}
    return {f"rule {made.rule}"} if made.rule is not None else {row.name.removeprefix("gpu_")}
