"""Accounts and their rules: made, changed and removed.

Every change is first made on a copy of the quota tree, which refuses what makes no tree, and only then in
the book. Leases in force are never touched by one. What a group property of the hub says (see
``group_properties``) is changed there and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from gpu_kernels.errors import Conflict, InvalidRequest
from gpu_kernels.pool.ledger.queries.account_rows import fields_of, known, said_of
from gpu_kernels.pool.ledger.queries.courses import CourseNames
from gpu_kernels.pool.ledger.state.rows import Account
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.quota import COURSE, INSTITUTION, Tree
from gpu_kernels.vocabulary.properties import HEAVIEST, LIGHTEST
from gpu_kernels.vocabulary.roles import graded_course, grading_account
from gpu_kernels.vocabulary.rules import read_rules

NAME = re.compile(r"[^\s\x00-\x1f!=/,][^\x00-\x1f!=/,]{0,199}")
"""What an account may be called: a group of the hub that a scope's filter can name."""


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
    check_not_said(tx, name, _differing(before, account))
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
    tree = trial_tree(tx)
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
    trial_tree(tx).drop_account(name)
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
    check_not_said(tx, name, _differing(account, replace(account, rules=dict(rules))))
    return put_account(
        tx, name, actor=actor, kind=account.kind, parent=account.parent, weight=account.weight, rules=rules
    )


def check_not_said(tx: Transaction, account: str, fields: Collection[str]) -> None:
    """Refuse to change what a group property sets. Raises ``Conflict``."""
    for row in said_of(tx, account):
        if row.value and not fields_of(row, account).isdisjoint(fields):
            raise Conflict(
                f"The property {row.name} of the group {row.group} sets this for {account}: {row.value}.\n"
                "Change it in the hub's admin panel, under Manage Groups.",
                details={"account": account, "group": row.group, "property": row.name, "value": row.value},
            )


def _differing(before: Account | None, after: Account) -> list[str]:
    old = before or Account(name=after.name, kind=after.kind, created_at=0)
    fields = [name for name in ("kind", "parent", "weight") if getattr(old, name) != getattr(after, name)]
    rules = old.rules.keys() | after.rules.keys()
    return fields + [f"rule {n}" for n in rules if old.rules.get(n, "") != after.rules.get(n, "")]


def trial_tree(tx: Transaction) -> Tree:
    return tx.book.entitlements.tree.copy()


def _has_root(tx: Transaction) -> bool:
    return any(account.kind == INSTITUTION for account in tx.book.accounts.values())
