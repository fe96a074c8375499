"""Accounts over HTTP: who may change what of whose quota, and what everyone sees of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from traitlets import TraitError

from gpu_kernels.client import PoolClient
from gpu_kernels.errors import BudgetSpent, SizeLimit, TooMany
from tests.pool.controller import (
    TOKENS,
    Agent,
    ThreadedController,
    error_of,
    reserve,
    token,
    write_tokens,
)

SCIENCE = {"kind": "faculty", "parent": "uni", "rules": {"max_leases": 3}}


class Api:
    """The API as one user calls it."""

    def __init__(self, controller: ThreadedController, name: str) -> None:
        self._http = httpx.Client(
            base_url=f"{controller.url}/api/v1", headers={"Authorization": f"token {token(name)}"}
        )

    def __call__(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        return self._http.request(method, path, json=body)

    def put(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        response = self("PUT", path, body)
        assert response.status_code == 200, response.text
        return dict(response.json())

    def get(self, path: str) -> dict[str, Any]:
        response = self("GET", path)
        assert response.status_code == 200, response.text
        return dict(response.json())

    def refused(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        return error_of(self(method, path, body))


@pytest.fixture
def root(controller: ThreadedController, agent: Agent) -> Api:
    """An admin of a university with one faculty, to which ml101 belongs."""
    api = Api(controller, "root")
    api.put("/accounts/uni", {"kind": "institution", "rules": {"max_leases": 5}})
    api.put("/accounts/science", SCIENCE)
    api.put("/accounts/ml101", {"kind": "course", "parent": "science"})
    return api


@pytest.fixture
def ada(controller: ThreadedController, agent: Agent) -> PoolClient:
    return controller.client("ada")


def test_an_account_tells_what_is_in_force_and_how_it_stands(root: Api, ada: PoolClient) -> None:
    root.put("/accounts/ml101/quota/V100", {"nominal": 50, "lending_limit": 0, "hard_limit": 100})
    reserve(ada, size="0.06 V100")
    account = root.get("/accounts/ml101")
    assert account["path"] == ["uni", "science", "ml101"]
    assert account["rules_in_force"] == {"max_leases": 3}
    assert account["classes"]["V100"] == {
        "own": True, "nominal": 50, "borrowing_limit": None, "lending_limit": 0, "hard_limit": 100,
        "guaranteed": 50, "most": 100, "use": 60, "borrowed": 10, "room": 40, "notes": [],
    }  # fmt: skip
    science = root.get("/accounts/science")["classes"]["V100"]
    assert (science["use"], science["room"], science["guaranteed"]) == (60, None, 50)
    names = [each["name"] for each in root.get("/accounts")["accounts"]]
    assert names == ["uni", "cv202", "science", "ml101"]


def test_members_see_the_quota_the_rules_and_their_budgets(root: Api, controller: ThreadedController) -> None:
    root.put("/accounts/science/rules", {"max_leases": 3, "user_hours_per_week": 4})
    course = Api(controller, "ada").get("/courses/ml101")
    assert course["rules"] == {"max_leases": 3, "user_hours_per_week": 4.0}
    (budget,) = course["budgets"]
    assert (budget["rule"], budget["whose"], budget["spent"], budget["most"]) == (
        "user_hours_per_week", "user", 0.0, 4.0,
    )  # fmt: skip
    assert budget["until"].endswith("+00:00")
    assert course["quota"]["V100"]["room"] == 100
    assert course["faults"] == []


def test_a_limit_below_the_use_is_said(root: Api, ada: PoolClient, controller: ThreadedController) -> None:
    reserve(ada, size="0.1 V100")
    course = Api(controller, "grace").put("/courses/ml101", {"limit": {"V100": {"thousandths": 20}}})
    assert course["quota"]["V100"]["room"] == -80
    assert "more than the 0.02 V100" in course["quota"]["V100"]["notes"][0]


class TestWhoMay:
    def test_an_instructor_tightens_rules_and_nothing_else(
        self, root: Api, controller: ThreadedController
    ) -> None:
        for name in ("grace", "dean"):
            teacher = Api(controller, name)
            told = teacher.put("/courses/ml101/rules", {"max_leases": 2})
            assert (told["rules"], told["taught_rules"]) == ({}, {"max_leases": 2})
            error = teacher.refused("PUT", "/courses/ml101/rules", {"max_leases": 14})
            assert "would allow more: max_leases" in error["message"]
            for method, path, body in (
                ("PUT", "/accounts/ml101/quota/V100", {"nominal": 900}),
                ("DELETE", "/accounts/ml101/quota/V100", None),
                ("PUT", "/accounts/ml101", {"kind": "course", "weight": 9.0}),
                ("PUT", "/accounts/ml101/rules", {"max_leases": 1}),
                ("PUT", "/courses/cv202/rules", {"max_leases": 2}),
                ("POST", "/courses/cv202/end-idle", {"idle": 600}),
                ("PUT", "/accounts/science/rules", {}),
                ("PUT", "/accounts/mine", {"kind": "course"}),
                ("DELETE", "/accounts/ml101", None),
                ("GET", "/accounts/science", None),
            ):
                assert teacher.refused(method, path, body)["code"] == "forbidden", path

    def test_an_instructor_stays_within_what_is_above(
        self, root: Api, controller: ThreadedController
    ) -> None:
        root.put("/accounts/science/rules", {"course_limit": {"": 200}})
        teacher = Api(controller, "grace")
        teacher.put("/courses/ml101", {"limit": {"V100": {"thousandths": 200}}})
        too_much = {"limit": {"V100": {"thousandths": 201}}}
        error = teacher.refused("PUT", "/courses/ml101", too_much)
        assert error["message"].startswith(
            "ml101 may not hold 0.201 V100: what stands above it allows each course 0.2 V100."
        )
        root.put("/courses/ml101", too_much)
        teacher.put("/courses/ml101", too_much)

    def test_a_right_above_an_account_is_one_for_what_is_below_it(
        self, root: Api, controller: ThreadedController, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scopes = ["custom:gpu:admin:quota!group=science"]
        monkeypatch.setitem(TOKENS, "dean-of-science", {"scopes": scopes})
        write_tokens(Path(controller.app.state_dir) / "tokens.json")
        dean = Api(controller, "dean-of-science")
        dean.put("/accounts/physics", {"kind": "faculty", "parent": "science"})
        dean.put("/accounts/lasers", {"kind": "course", "parent": "physics"})
        dean.put("/accounts/lasers/quota/V100", {"nominal": 10})
        dean.put("/accounts/ml101/rules", {"max_leases": 9})
        assert {a["name"] for a in dean.get("/accounts")["accounts"]} == {
            "science", "physics", "lasers", "ml101",
        }  # fmt: skip
        for method, path, body in (
            ("PUT", "/accounts/science/quota/V100", {"nominal": 900}),
            ("PUT", "/accounts/ml101", {"kind": "course", "parent": "uni"}),
            ("PUT", "/accounts/ml101", {"kind": "course"}),
            ("PUT", "/accounts/cv202", {"kind": "course", "parent": "science"}),
            ("PUT", "/accounts/new", {"kind": "course"}),
        ):
            assert dean.refused(method, path, body)["code"] == "forbidden", path

    def test_a_student_sees_no_accounts(self, root: Api, controller: ThreadedController) -> None:
        student = Api(controller, "ada")
        for path in ("/accounts", "/accounts/ml101", "/accounts/nobody"):
            assert student.refused("GET", path)["code"] == "forbidden"
        assert student.refused("POST", "/groups/read")["code"] == "forbidden"


@pytest.mark.parametrize(
    ("path", "body", "code", "why"),
    [
        ("/accounts/x", {"kind": "course", "parent": "ml101"}, "bad_request", "which is a course"),
        ("/accounts/x", {"kind": "course", "parent": "none"}, "bad_request", "there is no such account"),
        ("/accounts/x", {"kind": "team"}, "bad_request", "kind"),
        ("/accounts/science", {"kind": "faculty", "parent": "science"}, "bad_request", "itself belongs to"),
        ("/accounts/nobody/quota/V100", {"nominal": 1}, "unknown_account", "no account nobody"),
        ("/accounts/ml101/quota/V100", {"nominal": 5, "lending_limit": 9}, "bad_request", "cannot lend"),
        ("/accounts/ml101/quota/V100", {"nominal": -1}, "bad_request", "nominal"),
        ("/accounts/ml101/rules", {"max_lease": 1}, "bad_request", "max_lease"),
        ("/accounts/ml101/rules", {"max_size": {"a b": 1}}, "bad_request", "max_size"),
        ("/accounts/uni/quota/V100", {"borrowing_limit": 1}, "bad_request", "nobody to borrow from"),
    ],
)
def test_bad_input_is_refused_with_the_reason(
    root: Api, path: str, body: dict[str, Any], code: str, why: str
) -> None:
    error = root.refused("PUT", path, body)
    assert (error["code"], why in error["message"]) == (code, True), error


def test_an_account_that_holds_something_is_not_removed(root: Api, ada: PoolClient, agent: Agent) -> None:
    lease = reserve(ada)
    assert "it holds 0.02 V100" in root.refused("DELETE", "/accounts/ml101")["message"]
    assert "ml101 belongs to it" in root.refused("DELETE", "/accounts/science")["message"]
    ada.release(lease.id, lease.holder)
    agent.carry_out()
    assert root("DELETE", "/accounts/ml101").json() == {"removed": "ml101"}
    assert root.refused("GET", "/accounts/ml101")["code"] == "unknown_account"
    assert root("DELETE", "/accounts/cv202/quota/V100").json()["classes"] == {}


def test_without_a_hub_there_are_no_groups_to_read(root: Api) -> None:
    assert "it has no hub" in root.refused("POST", "/groups/read")["message"]
    assert root.get("/health")["groups"] is None


class TestRulesHold:
    def test_one_kernel_more_than_allowed_is_refused(self, root: Api, ada: PoolClient) -> None:
        root.put("/accounts/ml101/rules", {"max_leases": 1})
        first = reserve(ada, "a.ipynb")
        with pytest.raises(TooMany, match="1 at once is the limit for each user"):
            reserve(ada, "b.ipynb")
        assert reserve(ada, "a.ipynb", "0.04 V100").state == "reserved", "a change of kernel is none more"
        assert ada.get(first.id).state in ("reserved", "draining")

    def test_a_slice_larger_than_allowed_is_refused(self, root: Api, ada: PoolClient) -> None:
        root.put("/accounts/ml101/rules", {"max_size": {"": 50}})
        with pytest.raises(SizeLimit, match=r"0\.05 V100 at most"):
            reserve(ada, size="0.06 V100")
        reserve(ada, size="0.05 V100")

    def test_a_spent_budget_is_refused_until_it_begins_anew(
        self, root: Api, ada: PoolClient, controller: ThreadedController
    ) -> None:
        root.put("/accounts/uni/rules", {"user_hours_per_week": 0})
        with pytest.raises(BudgetSpent, match="Your GPU budget in ml101 is used up: 0 of 0 GPU-hours"):
            reserve(ada)
        root.put("/accounts/uni/rules", {"user_hours_per_week": 1})
        reserve(ada)


def test_courses_go_by_the_names_that_a_course_tool_gives_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scopes = ["custom:gpu:use"]
    monkeypatch.setitem(TOKENS, "ada", {"groups": ["nbgrader-ml101"], "scopes": scopes})
    monkeypatch.setitem(TOKENS, "grace", {"groups": ["formgrade-ml101", "nbgrader-cv202"], "scopes": scopes})
    monkeypatch.setitem(TOKENS, "eve", {"groups": ["ml101", "ml101-instructors"], "scopes": scopes})
    monkeypatch.setitem(
        TOKENS, "dean", {"scopes": ["custom:gpu:admin:quota!group=nbgrader-ml101", "custom:gpu:use"]}
    )
    with ThreadedController(tmp_path / "nbgrader", course_groups="nbgrader") as controller:
        Agent(controller.client("gpu-server")).register()
        ada, grace, dean = (Api(controller, name) for name in ("ada", "grace", "dean"))
        assert reserve(controller.client("ada")).course == "ml101"
        assert [course["name"] for course in grace.get("/courses")["courses"]] == ["cv202", "ml101"]
        assert grace.get("/courses/ml101")["instructor"] is True
        assert ada.get("/courses/ml101")["instructor"] is False
        limit = {"limit": {"V100": {"thousandths": 50}}}
        assert dean.put("/courses/ml101", limit)["instructor"] is True
        assert dean.refused("PUT", "/courses/cv202", limit)["code"] == "not_a_member"
        assert Api(controller, "eve").refused("GET", "/courses/ml101")["code"] == "not_a_member"


@pytest.mark.parametrize(
    ("trait", "value", "why"),
    [
        ("course_groups", "moodle", "'moodle' is no preset"),
        ("course_groups", [["x", "student"]], "which part is the course"),
        ("time_zone", "Mars/Olympus", "time_zone"),
        ("groups_interval", 0, "groups_interval must be more than 0"),
    ],
)
def test_a_bad_setting_is_refused_at_the_start(tmp_path: Path, trait: str, value: Any, why: str) -> None:
    with pytest.raises(TraitError, match=why):
        ThreadedController(tmp_path / "state", **{trait: value})
