"""The account of a course's grading runs: where it stands, who may use it, and what is told of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from gpu_kernels.errors import BudgetSpent, Conflict, CourseLimit, InvalidRequest, NotAMember
from gpu_kernels.pool.ledger.commands import accounts, quotas
from gpu_kernels.pool.ledger.queries import account_views, courses
from gpu_kernels.pool.policy.quota import Limits
from gpu_kernels.pool.service.identity import ADMIN_QUOTA, Identity
from tests.pool.rig import Lease, MemoryRig, Rig
from tests.pool.test_group_properties import Hub

pytestmark = pytest.mark.quick

V100 = "V100"
TEACHES = ["ml101-instructors"]


@pytest.fixture
def hub() -> Iterator[Hub]:
    rig = MemoryRig()
    rig.agent()
    yield Hub(rig)
    assert rig.mismatch() == 0


def grade(rig: Rig, path: str = "a.ipynb", groups: Sequence[str] = TEACHES) -> Lease:
    return rig.reserve(path, user="iris", groups=groups, course="ml101-grading")


def test_a_property_of_the_course_makes_the_account_beside_the_course(hub: Hub) -> None:
    hub.type("science", gpu_kind="faculty")
    assert hub.type("ml101", gpu_parent="science", gpu_grading="0.04", gpu_grading_hours_per_week="10") == 0
    account, quota = hub.account("ml101-grading"), hub.quota("ml101-grading")
    assert (account.kind, account.parent, account.rules) == ("course", "science", {"hours_per_week": 10.0})
    assert quota is not None
    assert quota.hard_limit == 40
    course = hub.quota("ml101")
    assert course is not None
    assert course.hard_limit == 100, "the course's own, as it was"
    grade(hub.rig, "a")
    grade(hub.rig, "b")
    with pytest.raises(CourseLimit, match="ml101-grading"):
        grade(hub.rig, "c")


def test_grading_and_students_do_not_stand_in_each_others_way(hub: Hub) -> None:
    hub.type("ml101", gpu_limit="0.02", gpu_grading="0.02", gpu_max_leases="1", gpu_paused="The exam is on.")
    grade(hub.rig)
    hub.type("ml101", gpu_paused=None)
    hub.rig.reserve("s", user="ada", groups=["ml101"])
    with pytest.raises(CourseLimit):
        hub.rig.reserve("t", user="ben", groups=["ml101"])
    with pytest.raises(CourseLimit):
        grade(hub.rig, "b")


def test_rules_for_each_user_do_not_hold_for_who_grades_unless_said_of_the_account_itself(hub: Hub) -> None:
    hub.type(
        "uni", gpu_kind="institution", gpu_max_leases="1", gpu_user_hours_per_week="0", gpu_max_size="0.1"
    )
    hub.type("ml101", gpu_grading="1")
    for path in ("a", "b", "c"):
        grade(hub.rig, path)
    rules = hub.rig.read(lambda tx: tx.book.entitlements.rules("ml101-grading"))
    assert rules.max_size == {V100: 100}, "what stands above it and is no student's"
    hub.rig.write(lambda tx: accounts.set_rules(tx, "ml101-grading", {"max_leases": 3}, actor="adam"))
    with pytest.raises(Exception, match="3"):
        grade(hub.rig, "d")


def test_its_budget_is_its_own(hub: Hub) -> None:
    hub.type("ml101", gpu_grading="1", gpu_grading_hours_per_week="0", gpu_hours_per_week="40")
    with pytest.raises(BudgetSpent, match="ml101-grading"):
        grade(hub.rig)
    hub.rig.reserve("s", user="ada", groups=["ml101"])


@pytest.mark.parametrize(
    "groups",
    [
        ["ml101"],
        ["ml101-grading"],
        ["ml101-grading-instructors"],
        ["cv202-instructors"],
        ["ml101-grading-grading"],
    ],
)
def test_nobody_but_who_teaches_the_course_may_use_it(hub: Hub, groups: list[str]) -> None:
    hub.type("ml101", gpu_grading="1")
    with pytest.raises(NotAMember):
        grade(hub.rig, groups=groups)


def test_it_is_charged_where_it_is_named_and_never_by_default(hub: Hub) -> None:
    hub.type("ml101", gpu_grading="1")
    lease = hub.rig.reserve("s", user="iris", groups=TEACHES)
    assert lease["course"] == "ml101"
    assert hub.rig.read(lambda tx: courses.own_courses(tx, TEACHES)) == ["ml101", "ml101-grading"]
    assert hub.rig.read(lambda tx: courses.own_courses(tx, ["ml101"])) == ["ml101"]


def test_what_is_taken_away_leaves_the_account_without_a_share(hub: Hub) -> None:
    hub.type("ml101", gpu_grading="1", gpu_grading_hours_per_week="10")
    hub.type("ml101", gpu_grading=None, gpu_grading_hours_per_week=None)
    assert hub.quota("ml101-grading") is None
    assert hub.account("ml101-grading").rules == {}
    with pytest.raises(Exception, match="ml101-grading"):
        grade(hub.rig)


def test_it_goes_where_the_course_goes(hub: Hub) -> None:
    hub.type("science", gpu_kind="faculty")
    hub.type("arts", gpu_kind="faculty")
    hub.type("ml101", gpu_grading="1", gpu_parent="science")
    hub.type("ml101", gpu_parent="arts")
    assert hub.account("ml101-grading").parent == "arts"
    hub.type("ml101", gpu_parent=None)
    rig = hub.rig
    rig.write(lambda tx: accounts.put_account(tx, "ml101", actor="adam", kind="course", parent="science"))
    assert hub.account("ml101-grading").parent == "science"
    with pytest.raises(InvalidRequest, match="stands below science, as ml101 does"):
        rig.write(
            lambda tx: accounts.put_account(tx, "ml101-grading", actor="x", kind="course", parent="arts")
        )


def test_a_command_makes_it_too_and_only_where_there_is_the_course(hub: Hub) -> None:
    rig = hub.rig
    with pytest.raises(InvalidRequest, match="no such course"):
        rig.write(lambda tx: accounts.put_account(tx, "film-grading", actor="adam", kind="course"))
    rig.write(lambda tx: accounts.put_account(tx, "ml101-grading", actor="adam", kind="course"))
    limits = Limits(hard_limit=20)
    rig.write(lambda tx: quotas.put_quota(tx, "ml101-grading", V100, limits, actor="adam"))
    grade(rig)
    with pytest.raises(Conflict, match="Remove that first"):
        rig.write(lambda tx: accounts.drop_account(tx, "ml101", actor="adam"))


def test_what_the_property_sets_is_changed_in_the_hub_alone(hub: Hub) -> None:
    hub.type("ml101", gpu_grading="0.5")
    limits = Limits(hard_limit=1000)
    with pytest.raises(Conflict, match="gpu_grading of the group ml101 sets this for ml101-grading"):
        hub.rig.write(lambda tx: quotas.put_quota(tx, "ml101-grading", V100, limits, actor="adam"))
    hub.rig.write(lambda tx: quotas.put_quota(tx, "ml101", V100, limits, actor="adam"))


def test_a_bad_text_is_a_fault_of_its_property_and_the_last_good_one_stays(hub: Hub) -> None:
    hub.type("ml101", gpu_grading="0.5")
    assert hub.type("ml101", gpu_grading="0,6", gpu_grading_hours_per_week="1e9") == 2
    quota = hub.quota("ml101-grading")
    assert quota is not None
    assert quota.hard_limit == 500
    told = hub.rig.read(lambda tx: account_views.course(tx, "ml101", "iris", teaches=True))
    assert [fault.name for fault in told.faults] == ["gpu_grading", "gpu_grading_hours_per_week"]


def test_a_faculty_has_no_grading_account(hub: Hub) -> None:
    assert hub.type("science", gpu_kind="faculty", gpu_grading="1") == 1
    assert "science is no course" in (hub.fault("science", "gpu_grading") or "")
    hub.type("ml101", gpu_grading="1")
    assert hub.type("ml101", gpu_kind="faculty") == 2, "and the one of science"
    assert "it has the grading account ml101-grading" in (hub.fault("ml101", "gpu_kind") or "")


def test_telling_again_changes_nothing(hub: Hub) -> None:
    hub.type("ml101", gpu_grading="0.5", gpu_grading_hours_per_week="5")
    before = len(hub.rig.trail("ml101-grading"))
    for _ in range(3):
        assert hub.tell() == 0
    assert len(hub.rig.trail("ml101-grading")) == before


def test_a_group_that_is_gone_takes_the_share_along(hub: Hub) -> None:
    hub.type("ml101", gpu_grading="0.5", gpu_grading_hours_per_week="5")
    lease = grade(hub.rig)
    assert lease
    del hub.groups["ml101"]
    assert hub.tell() == 0
    assert hub.quota("ml101-grading") is None
    assert hub.rig.read(lambda tx: len(tx.book.in_force.of("gpu1"))) == 1, "what is in force goes on"


@pytest.mark.parametrize(
    ("scope", "teaches"),
    [("!group=ml101", True), ("", True), ("!group=ml101-grading", True), ("!group=cv202", False)],
)
def test_the_scope_of_a_course_is_one_of_its_grading_account(scope: str, teaches: bool) -> None:
    identity = Identity("iris", frozenset(), frozenset({f"{ADMIN_QUOTA}{scope}"}))
    assert identity.teaches("ml101-grading") is teaches
    assert not Identity("ada", frozenset({"ml101"}), frozenset()).teaches("ml101-grading")
