"""What the book's rows entitle each course to: the quota tree, the rules in force, and what is spent of
budgets. A follower of the tables for accounts, quotas, GPUs, leases and slices.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from gpu_kernels.errors import PoolError
from gpu_kernels.pool.ledger.state.capacity import takes_slices
from gpu_kernels.pool.ledger.state.indexes.holdings import Holdings
from gpu_kernels.pool.ledger.state.rows import (
    Account,
    Gpu,
    Key,
    Lease,
    Quota,
    Row,
    Slice,
    TaughtRules,
    key_of,
)
from gpu_kernels.pool.policy.budget import Budgets
from gpu_kernels.pool.policy.quota import COURSE, INSTITUTION, Limits, Tree
from gpu_kernels.units import THOUSANDTHS
from gpu_kernels.vocabulary.roles import graded_course
from gpu_kernels.vocabulary.rules import Rules, favoured, looser, merged, read_rules, still_tighter

log = logging.getLogger("gpu_kernels.pool")

UTC = ZoneInfo("UTC")
OF_NO_GRADER: dict[str, Any] = dict.fromkeys(("max_leases", "user_hours_per_week", "user_hours_rolling"))
"""Rules for each user come to a grading account from nowhere above: who grades runs everyone's notebooks."""
FOLLOWS: tuple[Any, ...] = (Account, TaughtRules, Quota, Gpu, Lease, Slice)
"""The tables whose rows ``Entitlements`` follows; leases after ``Holdings``, which it asks."""


class Entitlements:
    """Kept up with every change of a row, in either direction.

    The tree follows each change where it can, and is made anew at the next question where it cannot: when
    the institution changes, or rows make no tree while they are undone one by one.
    """

    def __init__(self, holdings: Holdings, zone: ZoneInfo = UTC) -> None:
        self.budgets = Budgets(zone)
        self._holdings = holdings
        self._accounts: dict[Key, Account] = {}
        self._taught: dict[str, TaughtRules] = {}
        self._quotas: dict[Key, Quota] = {}
        self._capacity: dict[str, int] = {}
        self._tree: Tree | None = None
        self._rules: dict[str, Rules] = {}
        """Those in force while no row has changed that says any."""
        self._resolved: dict[str, _Resolved] = {}
        self._read: dict[tuple[str, str], tuple[Account | TaughtRules, dict[str, Any]]] = {}
        """What each row says, read once: rules may be long, and are asked for on each decision."""
        self._touched: set[tuple[str, str]] = set()
        self._resized: set[str] = set()

    def change(self, before: Row | None, after: Row | None) -> None:
        """A row was made, changed, or dropped."""
        if isinstance(after or before, Account | Quota):
            self._follow(before, after)
            return
        if isinstance(row := after or before, TaughtRules):
            self._taught.pop(row.account, None)
            if isinstance(after, TaughtRules):
                self._taught[row.account] = after
            else:
                self._read.pop((TaughtRules.TABLE, row.account), None)
            self._rules.clear()
            return
        for row, sign in ((before, -1), (after, 1)):
            if isinstance(row, Lease):
                self._touched.add((row.course, row.gpu_class or ""))
            elif isinstance(row, Slice):
                self._count(row, sign, forgotten=after is None)
            elif isinstance(row, Gpu) and takes_slices(row):
                self._capacity[row.gpu_class] = self._capacity.get(row.gpu_class, 0) + sign * THOUSANDTHS
                self._resized.add(row.gpu_class)

    def remember(self, closed: Iterable[Slice]) -> None:
        """Take in slices of history that the book does not hold, for the budgets."""
        for part in closed:
            self._count(part, 1, forgotten=False)

    @property
    def tree(self) -> Tree:
        """The live tree, as of all changes; only its uses may be changed, and only within trials."""
        if self._tree is None:
            self._tree = tree_of(self._accounts.values(), self._quotas.values())
            self._touched |= {(c, g) for (c,) in self._accounts for g in self._classes_held(c)}
            self._resized |= self._capacity.keys()
        for gpu_class in self._resized:
            self._tree.set_capacity(gpu_class, self._capacity[gpu_class])
        self._resized.clear()
        for course, gpu_class in self._touched:
            if course in self._tree and self._tree.kind(course) == COURSE:
                held = self.held(course, gpu_class)
                self._tree.add_use(course, gpu_class, held - self._tree.use(course, gpu_class))
        self._touched.clear()
        return self._tree

    def held(self, course: str, gpu_class: str) -> int:
        """What counts against the course's quota: leases in force and those that are ending."""
        holdings = self._holdings
        sums = (holdings.settled.get(course, {}), holdings.ending.get(course, {}))
        return sum(by_class.get(gpu_class, 0) for by_class in sums)

    def rules(self, account: str) -> Rules:
        """The rules in force for an account; of one that is not there, none."""
        rules = self._rules.get(account)
        if rules is None:
            rules = self._rules[account] = self._resolve(account).in_force
        return rules

    def rules_given(self, account: str) -> Rules:
        """Those that its instructors find: in force without what they say themselves."""
        return self._resolve(account).given

    def without_effect(self, account: str) -> tuple[list[str], list[str]]:
        """Of what its instructors say, what does not count since what stands above is tighter: the rules,
        and the users whose overrides do not.
        """
        taught = self._taught.get(account)
        if taught is None:
            return [], []
        above, said = self.rules_given(account), self._said(account, taught)
        rules = [name for name in looser(said, above) if name != "overrides" or not said["overrides"]]
        return rules, favoured(said, above)

    def _resolve(self, account: str) -> _Resolved:
        """The rows that say something may be the same as the last time, though others have changed."""
        rows = tuple(self._accounts[(name,)] for name in self._path(account))
        taught = self._taught.get(account)
        known = self._resolved.get(account)
        if known is not None and known.taught is taught and _same(known.rows, rows):
            return known
        read = [self._said(row.name, row) for row in rows]
        if read and graded_course(account) is not None:
            read.insert(-1, OF_NO_GRADER)
        given = in_force = merged(read)
        if taught is not None:
            in_force = merged([*read, still_tighter(self._said(account, taught), given)])
        made = self._resolved[account] = _Resolved(rows, taught, given, in_force)
        return made

    def _said(self, account: str, row: Account | TaughtRules) -> dict[str, Any]:
        known = self._read.get((row.TABLE, account))
        if known is None or known[0] is not row:
            known = self._read[row.TABLE, account] = row, readable(account, row.rules)
        return known[1]

    def _path(self, account: str) -> list[str]:
        names = self.tree.path(account) if account in self.tree else ()
        return [name for name in names if (name,) in self._accounts]

    def _classes_held(self, course: str) -> set[str]:
        return {*self._holdings.settled.get(course, {}), *self._holdings.ending.get(course, {})}

    def _follow(self, before: Any, after: Any) -> None:
        row: Account | Quota = after or before
        table: dict[Any, Any] = self._accounts if isinstance(row, Account) else self._quotas
        if after is None:
            table.pop(key_of(row), None)
            if isinstance(row, Account):
                self._read.pop((row.TABLE, row.name), None)
                self._resolved.pop(row.name, None)
        else:
            table[key_of(row)] = after
        self._rules.clear()
        if self._tree is not None:
            try:
                _change(self._tree, before, after)
            except (PoolError, ValueError):
                self._tree = None

    def _count(self, part: Slice, sign: int, *, forgotten: bool) -> None:
        """A slice is paid for from when it first ran. One that has ended is never undone by itself: where
        it leaves the book, it was forgotten, and stays spent.
        """
        if part.active_at is None or (forgotten and part.ended_at is not None):
            return
        share = sign * part.thousandths
        self.budgets.add(part.course, part.user, share, part.active_at, part.ended_at)


@dataclass(frozen=True, slots=True)
class _Resolved:
    """The rules of an account, and the rows that they came from."""

    rows: tuple[Account, ...]
    taught: TaughtRules | None
    given: Rules
    in_force: Rules


def _same(before: Sequence[Account], now: Sequence[Account]) -> bool:
    return len(before) == len(now) and all(one is other for one, other in zip(before, now, strict=True))


def _change(tree: Tree, before: Account | Quota | None, after: Account | Quota | None) -> None:
    """Carry a change of a row into the tree. Raises ``PoolError`` or ``ValueError`` where it makes none."""
    row = after or before
    assert row is not None
    if isinstance(row, Quota):
        if after is None:
            tree.drop_quota(row.account, row.gpu_class)
        else:
            tree.put_quota(row.account, row.gpu_class, limits_of(row))
    elif row.kind == INSTITUTION:
        raise ValueError("another root")
    elif after is None:
        tree.drop_account(row.name)
    else:
        tree.put_account(row.name, row.kind, row.parent or tree.root, _defaults(row))


def limits_of(quota: Quota | None) -> Limits:
    """A row's amounts; of none, those of an account that has no quota of its own."""
    if quota is None:
        return Limits()
    return Limits(quota.nominal, quota.borrowing_limit, quota.lending_limit, quota.hard_limit)


def tree_of(accounts: Iterable[Account], quotas: Iterable[Quota]) -> Tree:
    """The tree of these rows, without use and capacity.

    Courses and faculties without a parent belong to the institution; where no row stands for it, it is
    there all the same, called ``institution``. Rows that make no tree (of a store that was edited by hand)
    count as having no parent, or are left out: everything else must go on.
    """
    rows = {account.name: account for account in accounts}
    roots = sorted(name for name, row in rows.items() if row.kind == INSTITUTION)
    root = roots[0] if roots else INSTITUTION
    made = Tree()
    made.put_account(root, INSTITUTION, None, _defaults(rows.get(root)))
    for name in rows:
        _put(made, rows, name, root)
    for quota in quotas:
        try:
            made.put_quota(quota.account, quota.gpu_class, limits_of(quota))
        except PoolError as error:
            log.error("the quota of %s for %s is left out: %s", quota.account, quota.gpu_class, error.message)
    return made


def _put(made: Tree, rows: dict[str, Account], name: str, root: str) -> None:
    chain: list[str] = []
    following: str | None = name
    while following is not None and following not in made and following in rows and following not in chain:
        chain.append(following)
        following = rows[following].parent
    for account in reversed(chain):
        row = rows[account]
        parent = row.parent if row.parent is not None and row.parent in made else root
        for candidate in (parent, root):
            try:
                made.put_account(account, row.kind, candidate, _defaults(row))
                break
            except PoolError as error:
                log.error("the account %s has no place below %s: %s", account, candidate, error.message)


def _defaults(account: Account | None) -> dict[str, int]:
    return {} if account is None else dict(merged([readable(account.name, account.rules)]).course_limit)


def readable(account: str, rules: Mapping[str, Any]) -> dict[str, Any]:
    """An account's own rules as ``read_rules`` reads them, without any that this code does not read."""
    read: dict[str, Any] = {}
    for name, value in rules.items():
        try:
            read |= read_rules({name: value})
        except PoolError as error:
            log.error("a rule of %s is left out: %s", account, error.message)
    return read
