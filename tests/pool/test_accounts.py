"""Accounts, quotas and rules as transactions: what is kept, what is refused, what is noted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_kernels.errors import Conflict, Forbidden, InvalidRequest, UnknownAccount, UnknownCourse
from gpu_kernels.pool.ledger.commands import accounts, group_properties, instructor_rules, quotas
from gpu_kernels.pool.ledger.queries import account_views
from gpu_kernels.pool.ledger.state.indexes import entitlements
from gpu_kernels.pool.ledger.state.rows import Account, Quota
from gpu_kernels.pool.policy.quota import Limits
from gpu_kernels.resources.accounts import WithoutEffect
from gpu_kernels.vocabulary.rules import GPU_HOUR, read_rules
from tests.pool.rig import MemoryRig, Rig

pytestmark = pytest.mark.quick

V100 = "V100"


@pytest.fixture(params=["memory", "sqlite"])
def uni(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    """A university with a faculty, on either store; ml101 and cv202 as configured, and one V100."""
    rig = MemoryRig() if request.param == "memory" else Rig(tmp_path / "ledger.sqlite")
    rig.agent()
    put(rig, "uni", kind="institution", rules={"max_leases": 5, "idle": 1800})
    put(rig, "science", kind="faculty")
    yield rig
    assert rig.mismatch() == 0
    rig.close()


def put(rig: Rig, name: str, **fields: Any) -> Account:
    return rig.write(lambda tx: accounts.put_account(tx, name, actor="adam", **fields))


def quota(rig: Rig, name: str, gpu_class: str = V100, **amounts: Any) -> Quota:
    return rig.write(lambda tx: quotas.put_quota(tx, name, gpu_class, Limits(**amounts), actor="adam"))


def room(rig: Rig, course: str) -> int:
    return rig.read(lambda tx: tx.book.entitlements.tree.room(course, V100))


def test_a_faculty_and_its_courses_survive_a_restart(uni: Rig) -> None:
    put(uni, "ml101", kind="course", parent="science", weight=2.0, rules={"max_leases": 2})
    quota(uni, "science", nominal=600, borrowing_limit=0)
    quota(uni, "ml101", nominal=100, hard_limit=500)
    before = room(uni, "ml101")
    assert before == 500
    uni.restart()
    assert room(uni, "ml101") == before
    rules = uni.read(lambda tx: tx.book.entitlements.rules("ml101"))
    assert (rules.max_leases, rules.idle) == (2, 1_800_000)


def test_an_account_that_stays_the_same_is_not_noted_again(uni: Rig) -> None:
    for _ in range(2):
        put(uni, "physics", kind="faculty", parent="science")
        quota(uni, "physics", nominal=10)
    assert uni.trail("physics") == [("adam", "account"), ("adam", "quota")]


@pytest.mark.parametrize(
    ("name", "fields", "why"),
    [
        ("x", {"kind": "course", "parent": "nowhere"}, "no such account"),
        ("x", {"kind": "course", "parent": "ml101"}, "which is a course"),
        ("science", {"kind": "faculty", "parent": "physics"}, "itself belongs to science"),
        ("uni2", {"kind": "institution"}, "uni is the institution"),
        ("ml101", {"kind": "faculty"}, "is there already, as course"),
        ("a/b", {"kind": "course"}, "named like its group"),
        ("x", {"kind": "course", "weight": 0.0}, "weight of x must be 0.001 to 1000"),
        ("x", {"kind": "course", "rules": {"max_leases": "3"}}, "must be a whole number"),
    ],
)
def test_what_makes_no_tree_is_refused_and_nothing_changes(
    uni: Rig, name: str, fields: dict[str, Any], why: str
) -> None:
    put(uni, "physics", kind="faculty", parent="science")
    before = uni.rows(Account)
    with pytest.raises(InvalidRequest, match=why):
        put(uni, name, **fields)
    assert uni.rows(Account) == before


def test_the_institution_that_no_row_stands_for_may_be_named_as_parent() -> None:
    rig = MemoryRig()
    put(rig, "science", kind="faculty", parent="institution")
    assert rig.read(lambda tx: tx.book.accounts["science"].parent) is None
    with pytest.raises(InvalidRequest, match="is there already, as institution"):
        put(rig, "institution", kind="course")
    put(rig, "institution", kind="institution", rules={"max_leases": 1})
    assert rig.read(lambda tx: tx.book.entitlements.rules("ml101").max_leases) == 1


def test_quotas_that_contradict_themselves_are_refused(uni: Rig) -> None:
    with pytest.raises(InvalidRequest, match="cannot lend"):
        quota(uni, "ml101", nominal=10, lending_limit=20)
    with pytest.raises(InvalidRequest, match="not the name of a GPU class"):
        quota(uni, "ml101", "GPU", nominal=10)
    with pytest.raises(UnknownAccount):
        quota(uni, "nobody", nominal=10)
    assert room(uni, "ml101") == 100


def test_a_course_is_removed_once_it_holds_nothing(uni: Rig) -> None:
    lease = uni.reserve()
    with pytest.raises(Conflict, match=r"it holds 0\.02 V100"):
        uni.write(lambda tx: accounts.drop_account(tx, "ml101", actor="adam"))
    uni.release(lease)
    uni.report()
    uni.write(lambda tx: accounts.drop_account(tx, "ml101", actor="adam"))
    assert "ml101" not in {account.name for account in uni.rows(Account)}
    assert {row.account for row in uni.rows(Quota)} == {"cv202"}
    with pytest.raises(UnknownCourse):
        uni.reserve(groups=["ml101", "x"], course="ml101")


def test_the_limit_an_instructor_sets_leaves_what_an_admin_gave(uni: Rig) -> None:
    quota(uni, "ml101", nominal=50, borrowing_limit=200, hard_limit=100)
    uni.set_limit("ml101", {V100: 80})
    assert uni.read(lambda tx: tx.book.quotas["ml101", V100]) == Quota(
        account="ml101", gpu_class=V100, nominal=50, borrowing_limit=200, hard_limit=80
    )
    with pytest.raises(InvalidRequest, match=r"cannot be sure of 0\.05 V100"):
        uni.set_limit("ml101", {V100: 40})
    with pytest.raises(Conflict, match="only an admin can take away"):
        uni.set_limit("ml101", {})
    with pytest.raises(InvalidRequest, match="science is no course"):
        uni.set_limit("science", {V100: 40})


def test_a_limit_below_what_is_held_takes_nothing_away(uni: Rig) -> None:
    lease = uni.reserve(size="0.1 V100")
    uni.set_limit("ml101", {V100: 20})
    assert uni.state(lease) == "reserved"
    assert room(uni, "ml101") == -80
    notes = uni.read(lambda tx: tx.book.entitlements.tree.notes("ml101", V100))
    assert "more than the 0.02 V100 that it may hold now" in notes[0]


def teach(uni: Rig, rules: dict[str, Any]) -> None:
    uni.write(lambda tx: instructor_rules.teach(tx, "ml101", rules, actor="grace"))


def test_who_teaches_may_only_tighten_what_stands_above(uni: Rig) -> None:
    def max_leases() -> int | None:
        return uni.read(lambda tx: tx.book.entitlements.rules("ml101").max_leases)

    teach(uni, {"max_leases": 2, "hours_per_week": 10})
    assert max_leases() == 2
    with pytest.raises(Forbidden, match="would allow more: max_leases, idle"):
        teach(uni, {"max_leases": 6, "idle": None})
    teach(uni, {"max_leases": 4})
    assert max_leases() == 4, "what they said themselves they may take back"
    teach(uni, {})
    assert max_leases() == 5
    assert uni.read(lambda tx: tx.book.taught_rules) == {}


def test_who_teaches_does_not_lift_what_was_said_of_the_course_itself(uni: Rig) -> None:
    own = {"hours_per_week": 10, "max_leases": 2}
    uni.write(lambda tx: accounts.set_rules(tx, "ml101", own, actor="adam"))
    for more in ({"hours_per_week": None, "max_leases": 2}, {"hours_per_week": 11}):
        with pytest.raises(Forbidden, match="would allow more: hours_per_week"):
            teach(uni, more)
    teach(uni, {"hours_per_week": 9, "max_leases": 1})
    uni.write(lambda tx: accounts.set_rules(tx, "ml101", {"max_leases": 3}, actor="adam"))
    rules = uni.read(lambda tx: tx.book.entitlements.rules("ml101"))
    assert (rules.max_leases, rules.hours_per_week) == (1, 9 * GPU_HOUR), "theirs lie on top"


def test_what_a_group_property_says_is_changed_in_the_hub_alone(uni: Rig) -> None:
    told = {"ml101": {"gpu_limit": "0.3", "gpu_max_leases": "2", "gpu_parent": "science"}}
    assert uni.write(lambda tx: group_properties.apply(tx, told)) == 0
    where = "The property gpu_limit of the group ml101 sets this for ml101: V100: 0.3."
    with pytest.raises(Conflict) as caught:
        uni.set_limit("ml101", {V100: 80})
    assert caught.value.message.startswith(where)
    uni.set_limit("ml101", {V100: 300, "A100": 50})
    with pytest.raises(Conflict, match="gpu_max_leases"):
        uni.write(lambda tx: accounts.set_rules(tx, "ml101", {}, actor="grace"))
    with pytest.raises(Conflict, match="gpu_parent"):
        put(uni, "ml101", kind="course", rules={"max_leases": 2})
    with pytest.raises(Conflict, match="Remove the properties in the hub"):
        uni.write(lambda tx: accounts.drop_account(tx, "ml101", actor="adam"))
    put(uni, "ml101", kind="course", parent="science", rules={"max_leases": 2, "hours_per_week": 10})


def test_what_was_spent_is_remembered_over_a_restart(uni: Rig) -> None:
    lease = uni.reserve(size="0.1 V100")
    uni.report(alive=[lease])
    uni.now += 20_000
    uni.renew(lease)
    uni.report(alive=[lease])
    uni.now += 20_000
    uni.release(lease)
    uni.report()
    put(uni, "uni", kind="institution", rules={"user_hours_rolling": {"hours": 1, "window": 24}})

    def spent() -> int:
        rules = uni.read(lambda tx: tx.book.entitlements.rules("ml101"))
        found = uni.read(lambda tx: tx.book.entitlements.budgets.spent("ml101", "ada", rules, tx.now))
        return found[0].amount

    assert spent() == 100 * 40_000
    uni.now += 12 * 3_600_000
    uni.sweep()
    uni.restart()
    assert spent() == 100 * 40_000


def test_rules_are_read_once_and_not_when_others_change(uni: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    teach(uni, {"max_leases": 2, "overrides": {f"u{n}": {"max_leases": 1} for n in range(500)}})
    in_force = uni.read(lambda tx: tx.book.entitlements.rules("ml101"))
    assert in_force.of("u7", uni.now).max_leases == 1
    read: list[object] = []

    def counted(raw: object) -> dict[str, Any]:
        read.append(raw)
        return read_rules(raw)

    monkeypatch.setattr(entitlements, "read_rules", counted)
    uni.set_limit("cv202", {"V100": 10})
    assert uni.read(lambda tx: tx.book.entitlements.rules("ml101")) is in_force
    assert read == []
    teach(uni, {"max_leases": 1})
    assert uni.read(lambda tx: tx.book.entitlements.rules("ml101")).max_leases == 1
    assert read == [{"max_leases": 1}]


def test_what_stands_above_may_leave_what_was_taught_without_effect_which_is_told(uni: Rig) -> None:
    teach(uni, {"max_leases": 4, "idle": 60, "overrides": {"ada": {"max_leases": 5}}})
    said = uni.read(lambda tx: account_views.account(tx, "ml101")).taught_without_effect
    assert said == WithoutEffect((), ())
    uni.write(lambda tx: accounts.set_rules(tx, "ml101", {"max_leases": 2}, actor="root"))
    told = uni.read(lambda tx: account_views.account(tx, "ml101"))
    assert told.taught_without_effect == WithoutEffect(("max_leases",), ("ada",))
    assert (told.rules_in_force["max_leases"], told.rules_in_force["idle"]) == (2, 60)


def test_a_refusal_names_the_users_who_would_get_too_much(uni: Rig) -> None:
    uni.write(lambda tx: accounts.set_rules(tx, "ml101", {"max_leases": 2}, actor="root"))
    own = {f"u{n}": {"max_leases": 3} for n in range(7)} | {"ada": {"max_leases": 1}}
    with pytest.raises(Forbidden, match=r"more: idle, the own rules of u0, u1, u2, u3, u4 and 2 more\."):
        teach(uni, {"idle": 1900, "overrides": own})
