"""Any sequence of changes to accounts: the tree that follows them is the one that the rows make, a refusal
leaves nothing, and what groups say in the end is all that is left of what they said.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_kernels.errors import PoolError
from gpu_kernels.pool.ledger import Transaction
from gpu_kernels.pool.ledger.commands import accounts, group_properties, quotas
from gpu_kernels.pool.ledger.commands.group_properties import Properties
from gpu_kernels.pool.ledger.state.indexes.entitlements import Entitlements
from gpu_kernels.pool.policy.quota import COURSE, FACULTY, INSTITUTION, Limits
from tests.pool.rig import MemoryRig

pytestmark = pytest.mark.quick

NAMES = ("uni", "a", "b", "c", "d", "ml101")
CLASSES = ("V100", "A100")
names = st.sampled_from(NAMES)
small = st.none() | st.integers(0, 4).map(lambda n: n * 100)
limits = st.builds(Limits, st.integers(0, 4).map(lambda n: n * 100), small, small, small)

edits = st.one_of(
    st.tuples(
        st.just("put"), names, st.sampled_from((INSTITUTION, FACULTY, COURSE)), st.none() | names,
        st.sampled_from(({}, {"max_leases": 2}, {"course_limit": {"V100": 100}}, {"idle": "never"})),
    ),
    st.tuples(st.just("drop"), names),
    st.tuples(st.just("quota"), names, st.sampled_from(CLASSES), limits),
    st.tuples(st.just("no quota"), names, st.sampled_from(CLASSES)),
    st.tuples(st.just("limit"), names, st.dictionaries(st.sampled_from(CLASSES), st.integers(0, 300))),
    st.tuples(st.just("lease"), names, st.sampled_from(("0.02 V100", "0.1 V100"))),
    st.tuples(st.just("restart")),
)  # fmt: skip


def carry_out(rig: MemoryRig, edit: tuple[Any, ...]) -> None:
    def change(tx: Transaction) -> None:
        match edit:
            case "put", name, kind, parent, rules:
                accounts.put_account(tx, name, actor="x", kind=kind, parent=parent, rules=rules)
            case "drop", name:
                accounts.drop_account(tx, name, actor="x")
            case "quota", name, gpu_class, amounts:
                quotas.put_quota(tx, name, gpu_class, amounts, actor="x")
            case "no quota", name, gpu_class:
                quotas.drop_quota(tx, name, gpu_class, actor="x")
            case "limit", name, amounts:
                quotas.set_limit(tx, name, amounts, actor="x", create=True)

    match edit:
        case "lease", name, size:
            rig.reserve(f"{name} {size}", size, groups=[name], user=name)
        case ("restart",):
            rig.restart()
        case _:
            rig.write(change)


def made_anew(tx: Transaction) -> Entitlements:
    fresh = Entitlements(tx.book.holdings)
    for table in (tx.book.accounts, tx.book.quotas, tx.book.gpus, tx.book.leases):
        for row in table.values():
            fresh.change(None, row)
    return fresh


def check_tree(tx: Transaction) -> None:
    """The tree that followed every change is the one that the rows make."""
    followed, fresh = tx.book.entitlements, made_anew(tx)
    for name, account in tx.book.accounts.items():
        assert followed.tree.path(name) == fresh.tree.path(name)
        assert followed.rules(name) == fresh.rules(name)
        for gpu_class in CLASSES:
            assert followed.tree.levels(name, gpu_class) == fresh.tree.levels(name, gpu_class)
            assert followed.tree.notes(name, gpu_class) == fresh.tree.notes(name, gpu_class)
            if account.kind == COURSE:
                held = sum(
                    part.thousandths
                    for part in tx.book.slices.values()
                    if part.course == name and part.gpu_class == gpu_class and part.ended_at is None
                )
                assert followed.tree.use(name, gpu_class) == held


def state(rig: MemoryRig) -> tuple[Any, ...]:
    return rig.read(lambda tx: (dict(tx.book.accounts), dict(tx.book.quotas), dict(tx.book.group_properties)))


@given(sequence=st.lists(edits, max_size=14))
@settings(max_examples=120, deadline=None)
def test_the_tree_follows_any_changes_and_refusals_leave_nothing(sequence: list[tuple[Any, ...]]) -> None:
    rig = MemoryRig()
    rig.agent()
    rig.agent("gpu2", gpu_class="A100")
    for edit in sequence:
        before = state(rig)
        try:
            carry_out(rig, edit)
        except PoolError:
            assert state(rig) == before
        rig.read(check_tree)
    rig.close()


TEXTS: Mapping[str, tuple[str, ...]] = {
    "gpu_kind": ("faculty", "course", "department"),
    "gpu_parent": (*NAMES[:4], "nowhere"),
    "gpu_limit": ("V100: 0.5", "V100: 0.2, A100: 1", "0,5"),
    "gpu_nominal": ("V100: 0.3", "A100: 0.5", "V100: 2"),
    "gpu_lending": ("V100: 0.1", "A100: 1"),
    "gpu_max_leases": ("2", "none", "many"),
    "gpu_weight": ("2", "0"),
}
says = st.sampled_from(sorted(TEXTS)).flatmap(
    lambda name: st.tuples(
        st.sampled_from(("a", "b", "c", "d")), st.just(name), st.sampled_from((*TEXTS[name], None))
    )
)


def settle(rig: MemoryRig, told: dict[str, Properties]) -> None:
    """Tell the same until nothing changes any more: a fault's text may look at what came after it."""
    before = None
    for _ in range(4):
        faulty = rig.write(lambda tx: group_properties.apply(tx, told))
        rig.read(check_tree)
        now = state(rig)
        assert faulty == sum(row.fault is not None for row in now[2].values())
        if now == before:
            return
        before = now
    raise AssertionError("telling the same goes on changing what is there")


@given(sequence=st.lists(says, max_size=20))
@settings(max_examples=120, deadline=None)
def test_groups_may_say_anything_in_any_order(sequence: list[tuple[str, str, str | None]]) -> None:
    """Told again, it settles. Once all are silent, nothing is left but the accounts themselves."""
    rig = MemoryRig()
    rig.agent()
    first = state(rig)
    hub: dict[str, dict[str, object]] = {}
    for group, name, text in sequence:
        there = hub.setdefault(group, {})
        there.pop(name, None)
        if text is not None:
            there[name] = text
        told: dict[str, Properties] = {key: dict(value) for key, value in hub.items()}
        settle(rig, told)
        now = state(rig)[2]
        said = {(key, name): text for key, texts in hub.items() for name, text in texts.items()}
        assert said.keys() <= now.keys()
        for key, row in now.items():
            newest = said.get(key)
            assert row.faulty_value == (newest if row.fault is not None else None)
            assert newest is not None or (row.fault or "").startswith("It was taken away and stays in force")
    settle(rig, {})
    left_accounts, left_quotas, left_properties = state(rig)
    assert left_properties == {}
    assert left_quotas == first[1]
    for account in left_accounts.values():
        assert (account.rules, account.weight, account.parent) == ({}, 1.0, None)
    with contextlib.suppress(PoolError):
        rig.reserve(groups=["a"])
    rig.close()
