"""What instructors do themselves: rules of their own, idle leases ended, usage over time; and who may."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_kernels.client import PoolClient
from gpu_kernels.errors import CoursePaused, SizeLimit, TooMany
from gpu_kernels.pool.ledger.commands.idle import end_idle
from gpu_kernels.pool.service.accounting import Period, timeline
from gpu_kernels.resources.usage import Steps
from tests.pool.controller import Agent, ThreadedController, reserve
from tests.pool.rig import MemoryRig
from tests.pool.test_api_accounts import Api
from tests.pool.test_history_api import HOUR, MONDAY, account

MINUTE = 60_000


@pytest.fixture
def grace(controller: ThreadedController, agent: Agent) -> Api:
    """The instructor of ml101."""
    return Api(controller, "grace")


@pytest.fixture
def ada(controller: ThreadedController) -> PoolClient:
    """A student of ml101."""
    return controller.client("ada")


class TestRules:
    def test_a_pause_holds_at_once_and_takes_nothing_away(self, grace: Api, ada: PoolClient) -> None:
        lease = reserve(ada)
        grace.put("/courses/ml101/rules", {"paused": "The exam is on until 12:00."})
        with pytest.raises(CoursePaused, match="The exam is on until 12:00"):
            reserve(ada, "b.ipynb")
        assert ada.get(lease.id).in_force
        grace.put("/courses/ml101/rules", {})
        reserve(ada, "b.ipynb")

    def test_what_is_not_on_offer_is_refused_with_what_is(self, grace: Api, ada: PoolClient) -> None:
        grace.put("/courses/ml101/rules", {"sizes": ["0.02 V100", "0.05 V100"]})
        with pytest.raises(SizeLimit, match=r"0\.1 V100 is not on offer in ml101, which has 0\.02"):
            reserve(ada, size="0.1 V100")
        reserve(ada, size="1/20 V100")
        assert ada.course("ml101").rules["sizes"] == ["0.02 V100", "0.05 V100"]

    def test_an_override_is_one_students_and_nobody_else_sees_it(self, grace: Api, ada: PoolClient) -> None:
        own = {"ada": {"max_leases": 2, "until": "2999-01-01T00:00Z"}}
        grace.put("/courses/ml101/rules", {"max_leases": 1, "overrides": own})
        assert ada.course("ml101").rules == {"max_leases": 2}
        assert grace.get("/courses/ml101")["rules"]["overrides"]["ada"]["max_leases"] == 2
        reserve(ada, "a.ipynb")
        reserve(ada, "b.ipynb")
        with pytest.raises(TooMany, match="2 at once is the limit"):
            reserve(ada, "c.ipynb")

    def test_what_is_said_before_an_admin_tightens_does_not_undo_it(
        self, grace: Api, ada: PoolClient, controller: ThreadedController
    ) -> None:
        root = Api(controller, "root")
        grace.put(
            "/courses/ml101/rules",
            {"paused": None, "max_leases": 9, "overrides": {"ada": {"max_leases": 9}}},
        )
        reserve(ada)
        root.put("/accounts/ml101", {"kind": "course", "rules": {"overrides": {"ada": {"max_leases": 1}}}})
        with pytest.raises(TooMany, match="1 at once is the limit"):
            reserve(ada, "b.ipynb")
        for rules in ({"overrides": None}, {"overrides": {"ada": {"max_leases": 9}}}):
            assert grace.refused("PUT", "/courses/ml101/rules", rules)["details"]["rules"] == ["overrides"]
        root.put("/accounts/ml101", {"kind": "course", "rules": {"paused": "The exam is on."}})
        with pytest.raises(CoursePaused, match="The exam is on"):
            reserve(ada, "b.ipynb")

    def test_what_an_admin_removes_takes_what_was_taught_with_it(
        self, grace: Api, controller: ThreadedController
    ) -> None:
        root = Api(controller, "root")
        grace.put("/courses/ml101/rules", {"max_leases": 1})
        root("DELETE", "/accounts/ml101")
        root.put("/accounts/ml101", {"kind": "course"})
        assert root.get("/accounts/ml101")["taught_rules"] == {}

    @pytest.mark.parametrize(
        "rules",
        [
            {"course_limit": {"V100": 1}},
            {"sizes": ["much"]},
            {"paused": ""},
            {"overrides": {"ada": {"idle": 5}}},
            {"overrides": {"ada": {"max_leases": 1e9}}},
            {"overrides": {"ada": {"until": "soon"}}},
            {"overrides": {f"{'a' * 200}{n}": {"max_leases": 1} for n in range(400)}},
        ],
    )
    def test_nonsense_is_refused_and_changes_nothing(self, grace: Api, rules: dict[str, Any]) -> None:
        before = grace.get("/accounts/ml101")
        assert grace.refused("PUT", "/courses/ml101/rules", rules)["code"] in ("bad_request", "forbidden")
        assert grace.get("/accounts/ml101") == before


class TestRevoke:
    def test_an_instructor_takes_back_a_lease_of_the_course(self, grace: Api, ada: PoolClient) -> None:
        lease = reserve(ada)
        grace("POST", f"/leases/{lease.id}/revoke", {"reason": "the exam begins"})
        assert ada.get(lease.id).reason == "Taken back: the exam begins"

    def test_nobody_else_does(self, ada: PoolClient, controller: ThreadedController, grace: Api) -> None:
        lease = reserve(ada)
        for name in ("bob", "ada"):
            body = {"reason": "mine"}
            assert Api(controller, name).refused("POST", f"/leases/{lease.id}/revoke", body)["code"] == (
                "forbidden"
            )
        assert grace.refused("POST", "/leases/0/revoke", {"reason": "?"})["code"] == "forbidden"
        assert ada.get(lease.id).in_force


def test_only_what_lies_idle_is_ended() -> None:
    rig = MemoryRig({"ml101": {"V100": 1000}, "cv202": {"V100": 1000}})
    rig.agent()
    busy, idle, other = (
        rig.reserve("busy.ipynb"),
        rig.reserve("idle.ipynb"),
        rig.reserve("other.ipynb", user="eve", groups=["cv202"]),
    )
    for launches in range(1, 34):
        rig.now += MINUTE // 3
        for lease in (busy, idle, other):
            rig.renew(lease, user=lease["user"])
        rig.report(done=0, alive=[{**busy, "launches": launches}, idle, other])
    ended = rig.write(lambda tx: end_idle(tx, "ml101", 10 * MINUTE, actor="grace"))
    assert [lease.path for lease in ended] == ["idle.ipynb"]
    assert "Taken back by grace: it had run nothing for 1" in (ended[0].reason or "")
    assert (rig.state(busy), rig.state(other)) == ("active", "active")
    assert rig.mismatch() == 0


def test_usage_over_time_is_the_average_of_each_step() -> None:
    period = Period.read("2026-11-23", "2026-11-23T04:30Z", "UTC", MONDAY + 9 * HOUR)
    half, open_end = account(), account(lease_id="f01", thousandths=100, active_at=None, ended_at=None)
    before = account(lease_id="f02", started_at=MONDAY - HOUR, active_at=MONDAY - HOUR, ended_at=MONDAY)
    assert timeline([half, open_end, before], period, HOUR) == {
        "V100": Steps((600, 600, 600, 100, 100), (0, 500, 500, 0, 0))
    }
    assert timeline([half], period, 2 * HOUR)["V100"].used == (250, 250, 0)


@given(
    st.lists(st.tuples(st.integers(-50, 150), st.integers(0, 120), st.integers(1, 1000)), max_size=6),
    st.integers(1, 40),
)
def test_usage_over_time_adds_up_to_the_usage(slices: list[tuple[int, int, int]], step: int) -> None:
    period = Period(1000, 1100, ZoneInfo("UTC"))
    parts = [
        account(
            lease_id=str(n),
            started_at=1000 + at,
            active_at=1000 + at,
            ended_at=1000 + at + life,
            thousandths=t,
        )
        for n, (at, life, t) in enumerate(slices)
    ]
    edges = [*range(1000, 1100, step), 1100]
    expected = tuple(
        sum(
            p.thousandths for p in parts for ms in range(begin, end) if p.started_at <= ms < (p.ended_at or 0)
        )
        // (end - begin)
        for begin, end in pairwise(edges)
    )
    nothing = (0,) * len(expected)
    found = timeline(parts, period, step).get("V100", Steps(nothing, nothing))
    assert found == Steps(expected, expected)


def test_usage_over_time_is_asked_for_in_bounds(grace: Api, ada: PoolClient) -> None:
    lease = reserve(ada)
    assert isinstance(lease.ends_in, float)
    found = grace.get("/usage/timeline?course=ml101&step=86400")
    assert found["step"] == 86400
    assert list(found["classes"]) == ["V100"]
    assert len(found["classes"]["V100"]["held"]) == 30
    error = grace.refused("GET", "/usage/timeline?course=ml101&step=60")
    assert "more than 1000 steps" in error["message"]
    assert ada.timeline(step=86400).classes
