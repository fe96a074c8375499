"""Rules at the ledger: in decisions, in the queue, over the life of a lease, over the window of a budget."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from gpu_kernels.errors import BudgetSpent, SizeLimit, TooMany
from gpu_kernels.pool.ledger.commands import accounts
from tests.pool.rig import TTL, MemoryRig

pytestmark = pytest.mark.quick

HOUR = 3_600_000
MONDAY = int(datetime.fromisoformat("2027-01-11T00:00+00:00").timestamp() * 1000)


@pytest.fixture
def rig() -> Iterator[MemoryRig]:
    rig = MemoryRig({"ml101": {"V100": 1000}, "cv202": {"V100": 1000}})
    rig.now = MONDAY
    rig.agent()
    yield rig
    assert rig.mismatch() == 0


def rules(rig: MemoryRig, course: str = "ml101", **own: Any) -> None:
    rig.write(lambda tx: accounts.set_rules(tx, course, own, actor="adam"))


def live(rig: MemoryRig, lease: dict[str, Any], milliseconds: int) -> None:
    """The lease runs and is renewed for so long."""
    end = rig.now + milliseconds
    while rig.now < end:
        rig.now = min(end, rig.now + TTL // 2)
        rig.report(done=0, alive=[lease])
        rig.renew(lease)


def test_what_a_rule_refuses_is_not_queued(rig: MemoryRig) -> None:
    rules(rig, max_leases=1, max_size={"V100": 500})
    rig.reserve("a.ipynb")
    with pytest.raises(TooMany, match="1 at once is the limit for each user"):
        rig.reserve("b.ipynb", wait=60)
    with pytest.raises(SizeLimit, match=r"0\.5 V100 at most"):
        rig.reserve("c.ipynb", "0.6 V100", user="bob", wait=60)
    assert [lease["state"] for lease in rig.leases()] == ["reserved"]
    rig.reserve("b.ipynb", user="bob")


def test_two_of_a_user_who_wait_are_not_both_granted_where_one_is_allowed(rig: MemoryRig) -> None:
    big = rig.reserve("big.ipynb", "1 V100", user="eve", groups=["cv202"])
    rig.report(alive=[big])
    first = rig.reserve("a.ipynb", "0.1 V100", wait=600)
    second = rig.reserve("b.ipynb", "0.1 V100", wait=600)
    rules(rig, max_leases=1)
    rig.release(big)
    rig.report()
    assert sorted([rig.state(first), rig.state(second)]) == ["queued", "reserved"]
    bob = rig.reserve("a.ipynb", "0.1 V100", user="bob", wait=600)
    assert bob["state"] == "reserved", "who is held back by a rule holds nobody else back"
    rig.release(first)
    rig.report()
    rig.keep_waiting(second)
    rig.sweep()
    assert rig.state(second) == "reserved"


def test_a_change_of_kernel_is_no_lease_more(rig: MemoryRig) -> None:
    rules(rig, max_leases=1)
    rig.reserve("a.ipynb", "0.1 V100")
    assert rig.reserve("a.ipynb", "0.2 V100")["state"] == "reserved"
    rig.now += 20 * TTL
    rig.sweep()


def test_a_budget_is_spent_by_what_ran_and_comes_back_on_monday(rig: MemoryRig) -> None:
    rules(rig, user_hours_per_week=0.5, hours_per_week=1)
    never = rig.reserve("never.ipynb", "0.5 V100")
    rig.now += TTL // 2
    rig.release(never)
    rig.report()
    lease = rig.reserve("a.ipynb", "0.5 V100")
    rig.report(alive=[lease])
    live(rig, lease, HOUR)
    with pytest.raises(BudgetSpent) as caught:
        rig.reserve("b.ipynb", wait=60)
    assert caught.value.message.startswith(
        "Your GPU budget in ml101 is used up: 0.5 of 0.5 GPU-hours this week.\n"
        "It resets on Mon 18 Jan 2027, 00:00 (UTC)."
    )
    assert rig.state(lease) == "active", "nothing is taken from what runs"
    bob = rig.reserve("b.ipynb", "0.5 V100", user="bob")
    rig.release(bob)
    rig.report(alive=[lease])
    live(rig, lease, HOUR)
    with pytest.raises(BudgetSpent, match="The GPU budget of ml101 is used up: 1 of 1 GPU-hours"):
        rig.reserve("c.ipynb", user="eve", groups=["ml101"])
    rig.release(lease)
    rig.report()
    rig.now = MONDAY + 7 * 24 * HOUR - 1
    with pytest.raises(BudgetSpent):
        rig.reserve("b.ipynb")
    rig.restart()
    with pytest.raises(BudgetSpent):
        rig.reserve("b.ipynb")
    rig.now += 1
    rig.report()
    assert rig.reserve("b.ipynb")["state"] == "reserved"


def test_the_rule_of_a_longest_life_ends_a_lease_however_it_is_renewed(rig: MemoryRig) -> None:
    rules(rig, longest_life=600)
    lease = rig.reserve()
    rig.report(alive=[lease])
    live(rig, lease, 599_000)
    rig.sweep()
    assert rig.state(lease) == "active"
    live(rig, lease, 2_000)
    rig.sweep()
    assert rig.state(lease) == "quarantined"


def test_a_lower_rule_of_a_faculty_holds_for_its_courses(rig: MemoryRig) -> None:
    def change(tx: Any) -> None:
        accounts.put_account(tx, "science", actor="x", kind="faculty", rules={"max_leases": 1})
        accounts.put_account(tx, "ml101", actor="x", kind="course", parent="science")

    rig.write(change)
    rig.reserve("a.ipynb")
    with pytest.raises(TooMany):
        rig.reserve("b.ipynb")
    assert rig.reserve("b.ipynb", groups=["cv202"])["state"] == "reserved", "in another course it is none"
