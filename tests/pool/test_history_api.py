"""What was: pages of leases, usage in sums and as a table, the audit trail; and who may see it."""

from __future__ import annotations

import csv
import io
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest

from gpu_kernels.pool.ledger.state.rows import Slice
from gpu_kernels.pool.service import usage
from gpu_kernels.pool.service.accounting import Period, harmless, summed, table
from tests.pool.controller import Agent, ThreadedController, error_of, reserve, token

HOUR = 3_600_000
MONDAY = 1_795_392_000_000
"""2026-11-23T00:00Z"""


class Asker:
    def __init__(self, controller: ThreadedController, name: str) -> None:
        self.url = f"{controller.url}/api/v1"
        self.headers = {"Authorization": f"token {token(name)}"}

    def get(self, path: str, **query: Any) -> httpx.Response:
        return httpx.get(self.url + path, params=query, headers=self.headers)

    def json(self, path: str, **query: Any) -> Any:
        response = self.get(path, **query)
        assert response.status_code == 200, response.text
        return response.json()


@pytest.fixture
def past(controller: ThreadedController, agent: Agent) -> ThreadedController:
    """Ada and Bob used a slice each, and Ada holds one now; nothing ran in Eve's."""
    for user in ("ada", "bob", "eve"):
        client = controller.client(user)
        lease = reserve(client)
        agent.report([lease] if user != "eve" else [])
        agent.report([lease] if user != "eve" else [])
        client.release(lease.id, lease.holder)
        agent.carry_out()
    reserve(controller.client("ada"), "b.ipynb")
    return controller


def account(**fields: Any) -> Slice:
    known: dict[str, Any] = {
        "lease_id": "f00", "gpu_id": 1, "gpu_uuid": "GPU-1", "gpu_class": "V100", "user": "ada",
        "course": "ml101", "mib": 1024, "thousandths": 500, "started_at": MONDAY, "active_at": MONDAY + HOUR,
        "ended_at": MONDAY + 3 * HOUR,
    }  # fmt: skip
    return Slice(**{**known, **fields})


class TestSums:
    def test_what_was_held_and_what_was_used_within_the_period(self) -> None:
        period = Period(MONDAY, MONDAY + 2 * HOUR, ZoneInfo("UTC"))
        (row,) = summed([account(), account(lease_id="f01", active_at=None)], period, ["course"])
        assert (row.course, row.user, row.leases) == ("ml101", None, 2)
        assert (row.gpu_hours, row.held_gpu_hours, row.gib_hours) == (0.5, 2.0, 1.0)

    def test_weeks_begin_on_monday_of_the_zone(self) -> None:
        period = Period(MONDAY - 24 * HOUR, MONDAY + 24 * HOUR, ZoneInfo("Europe/Berlin"))
        part = account(started_at=MONDAY - 3 * HOUR, active_at=MONDAY - 3 * HOUR, ended_at=None)
        rows = {row.week: row.gpu_hours for row in summed([part], period, ["week"])}
        assert rows == {"2026-W47": 1.0, "2026-W48": 12.5}

    def test_an_open_account_counts_until_the_end_of_the_period(self) -> None:
        period = Period(MONDAY, MONDAY + 11 * HOUR, ZoneInfo("UTC"))
        assert summed([account(ended_at=None)], period, [])[0].gpu_hours == 5.0


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", "  =1", "\uff1dx"])
def test_a_formula_is_disarmed_in_a_table(text: str) -> None:
    assert harmless(text) == f"'{text}"
    assert harmless("ada") == "ada"


class TestUsage:
    def test_everyone_sees_what_they_used_themselves(self, past: ThreadedController) -> None:
        sums = Asker(past, "ada").json("/usage", by="user,course")["sums"]
        assert [(row["user"], row["course"], row["leases"]) for row in sums] == [("ada", "ml101", 2)]
        assert sums[0]["held_gpu_hours"] >= sums[0]["gpu_hours"] >= 0

    def test_instructors_see_their_course_and_admins_everything(self, past: ThreadedController) -> None:
        def users(who: str, **query: str) -> list[str]:
            return sorted(row["user"] for row in Asker(past, who).json("/usage", by="user", **query)["sums"])

        assert users("grace", course="ml101") == users("dean", course="ml101") == ["ada", "bob"]
        assert users("grace", course="ml101", user="bob") == ["bob"]
        assert users("root") == ["ada", "bob", "eve"]
        assert users("root", course="cv202") == ["eve"]

    def test_who_sees_others_may_ask_for_the_own_alone(self, past: ThreadedController) -> None:
        reserve(past.client("grace"), "own.ipynb")
        for who, query in (("grace", {"course": "ml101"}), ("root", {})):
            table = csv.DictReader(io.StringIO(Asker(past, who).get("/usage.csv", own=1, **query).text))
            assert {row["user"] for row in table} <= {who}
            sums = Asker(past, who).json("/usage", own=1, by="user", **query)["sums"]
            assert [row["user"] for row in sums] == ([who] if who == "grace" else [])
        assert error_of(Asker(past, "ada").get("/usage", own=1, user="bob"))["code"] == "forbidden"

    def test_others_usage_is_refused(self, past: ThreadedController) -> None:
        for who, query in (
            ("ada", {"user": "bob"}),
            ("grace", {"user": "bob"}),
            ("grace", {"user": "eve", "course": "cv202"}),
            ("dean", {}),
            ("guest", {}),
            ("gpu-server", {}),
        ):
            for path in ("/usage", "/usage.csv"):
                assert error_of(Asker(past, who).get(path, **query))["code"] == "forbidden", (who, query)
        assert Asker(past, "ada").json("/usage", course="cv202")["sums"] == []

    @pytest.mark.parametrize(
        ("query", "text"),
        [
            ({"from": "yesterday"}, "must be a date such as 2026-11-21"),
            ({"from": "2026-02-31"}, "'from' is no day or time that there is: '2026-02-31'"),
            ({"from": "2026-11-21", "to": "2026-11-20"}, "'from' must be before 'to'"),
            ({"from": "2020-01-01"}, "by at most 400 days"),
            ({"time_zone": "Europe/Atlantis"}, "must be one such as Europe/Berlin, not 'Europe/Atlantis'"),
            ({"time_zone": "../../etc/passwd"}, "must match"),
            ({"by": "colour"}, "must name some of course, user, gpu_class, week"),
        ],
    )
    def test_a_query_that_makes_no_sense_is_refused(
        self, controller: ThreadedController, query: dict[str, str], text: str
    ) -> None:
        error = error_of(Asker(controller, "root").get("/usage", **query))
        assert error["code"] == "bad_request"
        assert text in error["message"]

    def test_the_table_has_a_line_for_each_slice(self, past: ThreadedController) -> None:
        response = Asker(past, "root").get("/usage.csv")
        assert response.headers["content-type"] == "text/csv; charset=UTF-8"
        assert "attachment" in response.headers["content-disposition"]
        rows = list(csv.DictReader(io.StringIO(response.text)))
        assert sorted(row["user"] for row in rows) == ["ada", "ada", "bob", "eve"]
        by_user = {row["user"]: row for row in rows}
        assert by_user["eve"]["active_at"] == ""
        assert float(by_user["eve"]["gpu_hours"]) == 0
        assert by_user["bob"]["thousandths"] == "20"

    def test_a_long_table_is_streamed_page_by_page(
        self, past: ThreadedController, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(usage, "MOST_ROWS", 1)
        rows = list(csv.DictReader(io.StringIO(Asker(past, "root").get("/usage.csv").text)))
        assert len({row["lease"] for row in rows}) == 4

    def test_a_table_that_breaks_off_does_not_look_whole(
        self, past: ThreadedController, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails_later(*arguments: Any, **named: Any) -> Any:
            monkeypatch.setattr(usage, "table", lambda *a, **n: 1 / 0)
            return table(*arguments, **named)

        monkeypatch.setattr(usage, "MOST_ROWS", 1)
        monkeypatch.setattr(usage, "table", fails_later)
        with pytest.raises(httpx.RemoteProtocolError):
            Asker(past, "root").get("/usage.csv")

    def test_what_is_too_much_to_sum_up_is_refused(
        self, past: ThreadedController, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(usage, "MOST_ROWS", 1)
        monkeypatch.setattr(usage, "MOST_SUMMED", 2)
        assert error_of(Asker(past, "root").get("/usage"))["code"] == "too_many"


class TestOthersLeases:
    def test_admins_see_a_users_leases_and_instructors_those_of_their_course(
        self, past: ThreadedController
    ) -> None:
        (held,) = past.client("ada").list()
        for who, arguments in (
            ("root", {"user": "ada"}),
            ("grace", {"course": "ml101", "user": "ada"}),
            ("dean", {"course": "ml101"}),
        ):
            told = past.client(who).list(**arguments)
            assert [(lease.id, lease.secret) for lease in told] == [(held.id, None)]
            seen = past.client(who).get(held.id)
            assert (seen.id, seen.secret) == (held.id, None)

    def test_others_do_not(self, past: ThreadedController) -> None:
        (held,) = past.client("ada").list()
        for who, query in (
            ("grace", {"user": "ada"}),
            ("bob", {"user": "ada"}),
            ("ada", {"course": "ml101"}),
        ):
            assert error_of(Asker(past, who).get("/leases", **query))["code"] == "forbidden"
        for who in ("bob", "eve", "gpu-server"):
            assert error_of(Asker(past, who).get(f"/leases/{held.id}"))["code"] == "unknown_lease"


class TestPages:
    def test_pages_tell_each_lease_once_newest_first(self, past: ThreadedController) -> None:
        asker, told, after = Asker(past, "root"), [], None
        while True:
            page = asker.get("/leases", all=1, ended=1, limit=1, **({"after": after} if after else {}))
            told += page.json()["leases"]
            after = page.json()["next"]
            if after is None:
                assert "link" not in page.headers
                break
            assert page.headers["link"] == (
                f'</api/v1/leases?all=1&ended=1&limit=1&after={after}>; rel="next"'
            )
        assert [lease["user"] for lease in told] == ["ada", "eve", "bob", "ada"]
        assert [lease["state"] for lease in told] == ["reserved", "released", "released", "released"]
        assert [len(lease["slices"]) for lease in told] == [1, 1, 1, 1]
        assert [lease["ended_at"] is None for lease in told] == [True, False, False, False]
        assert told[1]["ended_at"] >= told[1]["created_at"]

    def test_the_client_follows_them(self, past: ThreadedController) -> None:
        assert len(past.client("root").list(everyone=True, ended=True)) == 4
        assert [lease.user for lease in past.client("ada").list()] == ["ada"]

    @pytest.mark.parametrize("cursor", ["nonsense", "W10", "WzEsMl0", "a" * 2000])
    def test_a_cursor_that_nobody_gave_is_refused(self, controller: ThreadedController, cursor: str) -> None:
        for path in ("/leases", "/audit"):
            query = {"after": cursor, **({"all": "1", "ended": "1"} if path == "/leases" else {})}
            error = error_of(Asker(controller, "root").get(path, **query))
            assert error["code"] == "bad_request"


class TestAudit:
    def test_it_says_who_did_what(self, past: ThreadedController) -> None:
        past.client("root").set_limit("ml101", {"V100": 50})
        root = Asker(past, "root")
        newest = root.json("/audit", limit=1)["events"][0]
        assert (newest["actor"], newest["kind"], newest["subject"]) == ("root", "limit", "ml101")
        grants = root.json("/audit", kind="reserved")["events"]
        assert [event["actor"] for event in grants] == ["ada", "eve", "bob", "ada"]
        trail = root.json("/audit", subject=grants[0]["subject"])["events"]
        assert {event["kind"] for event in trail} >= {"reserved"}

    def test_it_is_for_the_pools_admins(self, controller: ThreadedController) -> None:
        for who in ("ada", "grace", "dean", "gpu-server"):
            assert error_of(Asker(controller, who).get("/audit"))["code"] == "forbidden"


class TestServers:
    def put(self, controller: ThreadedController, who: str, **body: Any) -> httpx.Response:
        url = f"{controller.url}/api/v1/agents/gpu1/standing"
        return httpx.put(url, json=body, headers={"Authorization": f"token {token(who)}"})

    def test_nothing_new_goes_to_a_cordoned_server(
        self, controller: ThreadedController, agent: Agent
    ) -> None:
        told = self.put(controller, "root", standing="cordoned", ends_at="2030-01-01").json()
        assert (told["standing"], told["ends_at"]) == ("cordoned", "2030-01-01T00:00:00.000+00:00")
        url, headers = f"{controller.url}/api/v1/leases", {"Authorization": f"token {token('ada')}"}
        body = {"size": "0.1 V100", "key": "k", "slot": {"server": "", "path": "a"}, "holder": "h"}
        assert httpx.post(url, json=body, headers=headers).status_code == 409
        self.put(controller, "root", standing="open")
        assert httpx.post(url, json=body, headers=headers).status_code == 201

    def test_a_server_that_is_gone_gives_its_slices_back(
        self, controller: ThreadedController, agent: Agent
    ) -> None:
        lease = reserve(controller.client("ada"))
        agent.report([lease])
        url = f"{controller.url}/api/v1/agents/gpu1/lost"
        told = httpx.post(url, headers={"Authorization": f"token {token('root')}"}).json()
        assert told == {"name": "gpu1", "leases": 1}
        assert controller.client("ada").get(lease.id).state == "freed"

    def test_only_the_pools_admins_may(self, controller: ThreadedController, agent: Agent) -> None:
        assert error_of(self.put(controller, "gpu-server", standing="open"))["code"] == "forbidden"
        assert error_of(self.put(controller, "root", standing="asleep"))["code"] == "bad_request"
        url = f"{controller.url}/api/v1/agents/gpu9/lost"
        answer = httpx.post(url, headers={"Authorization": f"token {token('root')}"})
        assert error_of(answer)["code"] == "unknown_agent"
