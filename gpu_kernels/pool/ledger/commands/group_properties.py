"""Group properties of the hub, carried into accounts, quotas and rules.

``apply`` is told all groups with their ``gpu_*`` properties, as often as the hub is asked, and changes what
differs. A bad text is kept as the fault of its property, and noted once; the last good one stays in force.
Where a text is gone, what it had set is taken back; what was set through the API besides stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from gpu_kernels.errors import PoolError
from gpu_kernels.pool.ledger.commands.accounts import check_account, write_account
from gpu_kernels.pool.ledger.commands.quotas import check_quota, quota_row, remove_quota, write_quota
from gpu_kernels.pool.ledger.state.indexes.entitlements import limits_of
from gpu_kernels.pool.ledger.state.rows import Account, GroupProperty, Quota
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.quota import COURSE, FACULTY, INSTITUTION, Limits
from gpu_kernels.vocabulary.properties import (
    LONGEST_NAME,
    LONGEST_TEXT,
    MOST_PROPERTIES,
    PREFIX,
    PROPERTIES,
    BadProperty,
    Wanted,
    of_grading,
    read,
    wanted,
)
from gpu_kernels.vocabulary.roles import INSTRUCTOR, graded_course, grading_account

HUB = "hub"
"""Who makes these changes, in the audit trail."""
LONGEST_GROUP = 255
ORDER = {INSTITUTION: 0, FACULTY: 1, COURSE: 2}
PLACING = tuple(made.name for made in PROPERTIES.values() if made.quota is None and made.grading is None)
QUOTAS = tuple(made.name for made in PROPERTIES.values() if made.quota is not None)
Properties = Mapping[str, object]


@dataclass(slots=True)
class Group:
    """A group while its properties are applied. ``before`` and ``values``: canonical texts in force by name,
    until now and from now on; ``texts`` and ``faults``: the newest texts, and what is wrong with them.
    """

    name: str
    before: dict[str, str]
    values: dict[str, str]
    texts: dict[str, str] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)

    def refuse(self, names: Iterable[str], why: str) -> None:
        """These texts cannot be carried out, or taken back: the ones before stay in force."""
        for name in names:
            gone = "" if name in self.texts else "It was taken away and stays in force: "
            self.faults.setdefault(name, f"{gone}{why}")
            self.values.pop(name, None)
            if name in self.before:
                self.values[name] = self.before[name]

    def changed(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if self.before.get(name) != self.values.get(name)]


def apply(tx: Transaction, told: Mapping[str, Properties]) -> int:
    """Carry out what the hub's groups say; how many properties cannot be.

    ``told``: every group of the hub that has properties, with all of them; others than ``gpu_*`` are left
    alone.
    """
    classes = frozenset(gpu.gpu_class for gpu in tx.book.gpus.values() if gpu.offered)
    groups = _read_all(tx, told, classes)
    subjects: dict[str, str] = {}
    for group in sorted(groups, key=lambda group: (ORDER[_kind(group.values)], group.name)):
        account = _subject(tx, group, subjects)
        if account is not None:
            subjects[account] = group.name
    named = {group.name: group for group in groups}
    pending = {account: named[name] for account, name in subjects.items()}
    while pending:
        waiting = {
            account
            for account, group in pending.items()
            if (parent := group.values.get("gpu_parent", account)) in pending and parent != account
        }
        for account in sorted(pending.keys() - waiting or pending.keys()):
            group = pending.pop(account)
            _apply_account(tx, account, group)
            _apply_quotas(tx, account, group)
            _apply_grading(tx, account, group)
    rows: dict[str, dict[str, GroupProperty]] = {}
    for row in tx.book.group_properties.values():
        rows.setdefault(row.group, {})[row.name] = row
    for group in groups:
        _keep(tx, group, rows.get(group.name, {}))
    return sum(len(group.faults) for group in groups)


def _read_all(tx: Transaction, told: Mapping[str, Properties], classes: frozenset[str]) -> list[Group]:
    before: dict[str, dict[str, str]] = {}
    for row in tx.book.group_properties.values():
        before.setdefault(row.group, {})
        if row.value:
            before[row.group][row.name] = row.value
    groups = []
    for name in sorted(before.keys() | told.keys()):
        if len(name) > LONGEST_GROUP or name != _storable(name):
            continue
        ours = {key: value for key, value in told.get(name, {}).items() if key.startswith(PREFIX)}
        if ours or name in before:
            groups.append(_read(name, before.get(name, {}), ours, classes))
    return groups


def _read(name: str, before: dict[str, str], told: Properties, classes: frozenset[str]) -> Group:
    group = Group(name, before, {})
    for key in sorted(told)[:MOST_PROPERTIES]:
        shown, value = _storable(key[:LONGEST_NAME]), told[key]
        if isinstance(value, str):
            value = _storable(value)
        group.texts[shown] = _storable(str(value)[:LONGEST_TEXT])
        try:
            group.values[shown] = (
                _read_text(shown, value, classes) if isinstance(value, str) else read(shown, value, classes)
            )
        except BadProperty as error:
            group.refuse([shown], str(error))
    return group


def _storable(text: str) -> str:
    """Without what a database cannot keep (half a surrogate pair, NUL): one such text would keep the
    properties of all groups from being written.
    """
    return "".join(c if c.isprintable() or c.isspace() else "\ufffd" for c in text)


_read_text = lru_cache(maxsize=65536)(read)
"""The same texts come again and again."""


def _kind(values: Mapping[str, str]) -> str:
    return values.get("gpu_kind", COURSE)


def _subject(tx: Transaction, group: Group, taken: Mapping[str, str]) -> str | None:
    """The account that a group stands for; None where it can be none, which is then its fault."""
    why = None
    account = group.name
    if _kind(group.values) == COURSE:
        match = tx.patterns.course_of(group.name)
        if match is None:
            why = (
                f"the name of the group {group.name} is not that of a course here (see the setting "
                "course_groups); a faculty has gpu_kind: faculty"
            )
        elif match[1] == INSTRUCTOR:
            why = f"{group.name} is the group of the instructors of {match[0]}: set it on the students' group"
        else:
            account = match[0]
    if why is None and account in taken:
        why = f"the group {taken[account]} speaks for {account} already"
    if why is not None:
        group.refuse(group.texts, f"It cannot be carried out: {why}.")
        return None
    return account


def _apply_account(tx: Transaction, name: str, group: Group) -> None:
    names = PLACING
    while name not in tx.book.accounts or group.changed(names):
        account = _account(tx, name, group)
        try:
            check_account(tx, account)
        except PoolError as error:
            blamed = group.changed(["gpu_parent"]) or group.changed(["gpu_kind"]) or group.changed(names)
            group.refuse(blamed or group.texts, error.message)
            if not blamed:
                return
            continue
        if account != tx.book.accounts.get(name):
            write_account(tx, account, actor=HUB)
        return


def _account(tx: Transaction, name: str, group: Group) -> Account:
    """The account with what the properties say in the place of what they said before."""
    old, new = wanted(group.before), wanted(group.values)
    there = tx.book.accounts.get(name)
    beside = tx.book.accounts.get(graded_course(name) or "")
    parent = None if beside is None else beside.parent
    account = there or Account(name=name, kind=new.kind, parent=parent, created_at=tx.now)
    rules = {key: value for key, value in account.rules.items() if key not in old.rules} | dict(new.rules)
    fields: dict[str, Any] = {
        "kind": new.kind if "gpu_kind" in group.values else account.kind,
        "rules": rules,
    }
    if (old.parent, old.weight) != (new.parent, new.weight):
        fields["parent"] = new.parent if new.parent != old.parent else account.parent
        if new.weight != old.weight:
            fields["weight"] = 1.0 if new.weight is None else new.weight
    return replace(account, **fields)


def _apply_quotas(tx: Transaction, name: str, group: Group) -> None:
    """Carry out all classes' quotas, but for those texts that speak of a class whose quota is refused."""
    names = QUOTAS
    if name not in tx.book.accounts:
        return
    while changed := group.changed(names):
        quotas = _quotas(tx, name, wanted(group.before), wanted(group.values))
        refused = None
        for gpu_class, (_, after) in quotas.items():
            try:
                if after is not None:
                    check_quota(tx, after)
            except PoolError as error:
                refused = gpu_class, error.message
        if refused is None:
            for before, after in quotas.values():
                if after is not None:
                    write_quota(tx, after, actor=HUB)
                elif before is not None:
                    remove_quota(tx, before, actor=HUB)
            return
        said = [name for name in changed if refused[0] in _classes(group, name)]
        group.refuse(said or changed, refused[1])


def _apply_grading(tx: Transaction, course: str, group: Group) -> None:
    """Carry out what the course's group says of its grading account, as if that had a group of its own."""
    named = {made.grading: made.name for made in PROPERTIES.values() if made.grading is not None}
    if _kind(group.values) != COURSE:
        said = [name for name in named.values() if name in group.texts]
        group.refuse(said, f"It cannot be carried out: {course} is no course, and has no grading account.")
        return
    texts = {name: text for name, text in group.texts.items() if name in PROPERTIES}
    own = Group(
        group.name,
        of_grading(group.before),
        of_grading(group.values),
        of_grading(group.before | texts),  # so that a fault is not told twice to be of a text that is gone
    )
    account = grading_account(course)
    if course in tx.book.accounts and (own.values or account in tx.book.accounts):
        _apply_account(tx, account, own)
        _apply_quotas(tx, account, own)
    for name, why in own.faults.items():
        group.refuse([named[name]], why)


def _classes(group: Group, name: str) -> set[str]:
    texts = [values[name] for values in (group.before, group.values) if name in values]
    return {gpu_class for text in texts for gpu_class in wanted({name: text}).limits}


def _quotas(
    tx: Transaction, name: str, old: Wanted, new: Wanted
) -> dict[str, tuple[Quota | None, Quota | None]]:
    """By class, what changes where the properties say something new: the row before and after."""
    found = {}
    for gpu_class in sorted(old.limits.keys() | new.limits.keys()):
        was, now = old.limits.get(gpu_class, {}), new.limits.get(gpu_class, {})
        row = tx.book.quotas.get((name, gpu_class))
        taken_back = {key: getattr(Limits(), key) for key in was}
        limits = replace(limits_of(row), **{**taken_back, **now})
        after = None if not now and limits == Limits() else quota_row(name, gpu_class, limits)
        if was != now and after != row:
            found[gpu_class] = row, after
    return found


def _keep(tx: Transaction, group: Group, rows: Mapping[str, GroupProperty]) -> None:
    """Write what is in force and what is wrong, where either changed. A text that is gone may be in force
    still: a nominal cannot go while another text lends it.
    """
    for name in sorted(rows.keys() | group.texts.keys()):
        row = rows.get(name)
        if name not in group.texts and name not in group.faults:
            assert row is not None
            tx.drop(row)
            tx.event(HUB, "property", group.name, {"name": name, "from": row.value or None, "to": None})
            continue
        fault = group.faults.get(name)
        value = group.values.get(name, "")
        faulty = group.texts.get(name) if fault is not None else None
        if row is not None and (row.value, row.fault, row.faulty_value) == (value, fault, faulty):
            continue
        tx.put(
            GroupProperty(
                group=group.name, name=name, value=value, fault=fault, faulty_value=faulty, at=tx.now
            )
        )
        if fault is not None:
            tx.event(HUB, "property_fault", group.name, {"name": name, "read": faulty, "fault": fault})
        elif row is None or row.value != value:
            was = None if row is None else row.value or None
            tx.event(HUB, "property", group.name, {"name": name, "from": was, "to": value})
