"""Accounts and courses as the API tells them: what is in force, how they stand, what group properties say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from gpu_kernels.pool.ledger.queries.account_rows import known, said_of
from gpu_kernels.pool.ledger.queries.courses import check_course
from gpu_kernels.pool.ledger.state.indexes.entitlements import limits_of
from gpu_kernels.pool.ledger.state.rows import GroupProperty
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.quota import COURSE
from gpu_kernels.resources import accounts as resources
from gpu_kernels.resources.courses import Course, Share
from gpu_kernels.vocabulary.rules import GPU_HOUR, Override, Rolling, Rules, instant


def account(tx: Transaction, name: str) -> resources.Account:
    """The account with everything that is to be known of it. Raises ``UnknownAccount``."""
    row = known(tx, name)
    entitled = tx.book.entitlements
    return resources.Account(
        name=name,
        kind=row.kind,
        path=tuple(entitled.tree.path(name)),
        weight=row.weight,
        rules=dict(row.rules),
        taught_rules=taught(tx, name),
        taught_without_effect=without_effect(tx, name),
        rules_in_force=rules_json(entitled.rules(name)),
        classes=standings(tx, name),
        properties=tuple(said(row) for row in said_of(tx, name)),
    )


def taught(tx: Transaction, name: str) -> dict[str, Any]:
    """What the course's instructors say of it themselves."""
    row = tx.book.taught_rules.get(name)
    return {} if row is None else dict(row.rules)


def without_effect(tx: Transaction, name: str) -> resources.WithoutEffect:
    """What of that does not count, since what stands above is tighter by now."""
    rules, users = tx.book.entitlements.without_effect(name)
    return resources.WithoutEffect(tuple(rules), tuple(users))


def accounts(tx: Transaction) -> list[str]:
    """The names of all accounts, those above before those below."""
    tree = tx.book.entitlements.tree
    return sorted(tx.book.accounts, key=lambda name: (len(tree.path(name)), tree.path(name)))


def classes(tx: Transaction, name: str) -> list[str]:
    """The GPU classes that say something of an account: of which it has a share, or holds something."""
    tree = tx.book.entitlements.tree
    pool = {gpu.gpu_class for gpu in tx.book.gpus.values()} | {key[1] for key in tx.book.quotas}
    if tree.kind(name) != COURSE:
        return sorted(pool)
    mine = {*tree.classes(name), *tx.book.quotas_of.of(name)}
    return sorted(mine | {gpu_class for gpu_class in pool if tree.use(name, gpu_class)})


def standings(tx: Transaction, name: str) -> dict[str, resources.Standing]:
    """How an account stands, by GPU class."""
    return {gpu_class: standing(tx, name, gpu_class) for gpu_class in classes(tx, name)}


def standing(tx: Transaction, name: str, gpu_class: str) -> resources.Standing:
    """How an account stands with one class."""
    tree = tx.book.entitlements.tree
    level = tree.levels(name, gpu_class)[-1]
    limits = level.limits
    return resources.Standing(
        own=(name, gpu_class) in tx.book.quotas,
        nominal=limits.nominal,
        borrowing_limit=limits.borrowing_limit,
        lending_limit=limits.lending_limit,
        hard_limit=limits.hard_limit,
        guaranteed=level.guaranteed,
        most=level.ceiling,
        use=level.use,
        borrowed=tree.borrowed(name, gpu_class),
        room=tree.room(name, gpu_class) if level.kind == COURSE else None,
        notes=tuple(tree.notes(name, gpu_class)),
    )


def quota(tx: Transaction, name: str, gpu_class: str) -> resources.QuotaOf:
    """A quota as it was put."""
    limits = limits_of(tx.book.quotas.get((name, gpu_class)))
    return resources.QuotaOf(
        name, gpu_class, limits.nominal, limits.borrowing_limit, limits.lending_limit, limits.hard_limit
    )


def said(row: GroupProperty) -> resources.Said:
    return resources.Said(row.group, row.name, row.value or None, row.fault, row.faulty_value)


def course(tx: Transaction, name: str, user: str, *, teaches: bool) -> Course:
    """A course as a user sees it; ``teaches``: as its instructors do. Raises ``UnknownCourse``."""
    check_course(tx, name)
    quotas = tx.book.quotas_of.of(name).values()
    limit = {row.gpu_class: row.hard_limit for row in quotas if row.hard_limit is not None}
    holdings, entitlements = tx.book.holdings, tx.book.entitlements
    held_classes = {*holdings.settled.get(name, ()), *holdings.ending.get(name, ())}
    held = {gpu_class: entitlements.held(name, gpu_class) for gpu_class in held_classes}
    rules = entitlements.rules(name)
    mine = rules if teaches else replace(rules.of(user, tx.now), overrides={})
    faulty = [row for row in said_of(tx, name) if row.fault is not None] if teaches else []
    return Course(
        name=name,
        limit=_shares(limit),
        held=_shares({gpu_class: value for gpu_class, value in held.items() if value}),
        quota=standings(tx, name),
        rules=rules_json(mine),
        budgets=budgets(tx, name, user),
        faults=tuple(said(row) for row in faulty),
        instructor=teaches,
    )


def _shares(thousandths: Mapping[str, int]) -> dict[str, Share]:
    return {gpu_class: Share(value) for gpu_class, value in sorted(thousandths.items())}


def budgets(tx: Transaction, name: str, user: str) -> tuple[resources.Spent, ...]:
    """How far the budgets in force are spent, the course's and this user's."""
    entitled = tx.book.entitlements
    return tuple(
        resources.Spent(
            spent.rule,
            spent.whose,
            round(spent.amount / GPU_HOUR, 3),
            spent.most / GPU_HOUR,
            None if spent.until is None else instant(spent.until),
        )
        for spent in entitled.budgets.spent(name, user, entitled.rules(name).of(user, tx.now), tx.now)
    )


def rules_json(rules: Rules) -> dict[str, Any]:
    """The rules in force, in the words in which they are set; those that are not are left out."""
    told = {f.name: _json(f.name, getattr(rules, f.name)) for f in fields(rules)}
    return {name: value for name, value in told.items() if value not in (None, {})}


def _json(name: str, value: Any) -> Any:
    if isinstance(value, Rolling):
        return {"hours": value.most / GPU_HOUR, "window": value.window}
    if name == "overrides":
        return {user: _override(own) for user, own in value.items()}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return [str(size) for size in value]
    if value is None or name in ("max_leases", "paused"):
        return value
    return value // 1000 if name in ("longest_life", "idle") else value / GPU_HOUR


def _override(own: Override) -> dict[str, Any]:
    told = {name: _json(name, value) for name, value in own.rules.items()}
    return told if own.until is None else {**told, "until": instant(own.until)}
