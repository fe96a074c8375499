"""The API over real HTTP: who may do what, the shapes of answers and errors, long polls, secrets."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from gpu_kernels.client import PoolClient, Slot
from gpu_kernels.errors import (
    AgentReplaced,
    CourseLimit,
    Forbidden,
    InvalidRequest,
    InvalidSize,
    KeyReused,
    NotAMember,
    PoolError,
    UnknownAgent,
    UnknownCourse,
    UnknownLease,
)
from gpu_kernels.pool.service.application import ROUTES
from tests.pool.controller import GPU, Agent, ThreadedController, reserve, token


@pytest.fixture
def ada(controller: ThreadedController, agent: Agent) -> PoolClient:
    return controller.client("ada")


def addresses() -> list[tuple[str, str]]:
    """Every endpoint: method and address with something in its place for names."""
    found = []
    for pattern, handler in ROUTES:
        path = pattern.replace(r"(?P<lease_id>[A-Za-z0-9_-]{1,64})", "f00").replace(
            r"(?P<name>[^/]{1,255})", "gpu1"
        )
        found += [(m, path) for m in ("GET", "POST", "PUT") if m.lower() in vars(handler)]
    return sorted(found)


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The error, after a check of the one shape."""
    assert response.headers["content-type"].startswith("application/json")
    body = response.json()
    assert set(body) == {"error"}
    error = body["error"]
    assert set(error) == {"code", "message", "retry_after", "details"}
    assert error["message"]
    assert isinstance(error["details"], dict)
    assert response.status_code >= 400
    return dict(error)


class TestErrors:
    @pytest.mark.parametrize(("method", "path"), addresses())
    def test_no_token_and_wrong_tokens_get_in_nowhere(
        self, controller: ThreadedController, method: str, path: str
    ) -> None:
        url = f"{controller.url}/api/v1{path}"
        outside = {"X-Forwarded-For": "192.0.2.1"}
        for header in (
            {},
            {"Authorization": "token nobody-has-this"},
            {"Authorization": f"token {token('late')}"},
            {"Authorization": f"basic {token('ada')}"},
            {"Authorization": "token " + "x" * 5000},
        ):
            response = httpx.request(method, url, headers={**header, **outside}, content=b"{}")
            assert response.status_code == 401
            assert error_of(response)["code"] == "unauthenticated"

    @pytest.mark.parametrize(("method", "path"), addresses())
    def test_a_token_without_rights_may_do_nothing(
        self, controller: ThreadedController, method: str, path: str
    ) -> None:
        headers = {"Authorization": f"token {token('guest')}", "X-Forwarded-For": "192.0.2.1"}
        bodies = {
            "/leases/f00/release": {"holder": "k"},
            "/leases/f00/revoke": {"reason": "r"},
            "/leases/release": {"server": ""},
            "/leases/renew": {"leases": []},
            "/courses/gpu1": {"limit": {}},
        }
        response = httpx.request(
            method, f"{controller.url}/api/v1{path}", headers=headers, json=bodies.get(path, {})
        )
        if (method, path) == ("GET", "/courses"):
            assert [course["name"] for course in response.json()["courses"]] == ["ml101"]
            return
        assert error_of(response)["code"] in ("forbidden", "not_a_member", "unknown_lease")

    @pytest.mark.parametrize(
        "body",
        [b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe", b'{"wait": NaN}', b"[" * 100_000, b'{"a": 1}'],
    )
    @pytest.mark.parametrize(("method", "path"), [a for a in addresses() if a[0] != "GET"])
    def test_bodies_that_make_no_sense_are_refused_in_the_one_shape(
        self, controller: ThreadedController, method: str, path: str, body: bytes
    ) -> None:
        name = "gpu-server" if "agents" in path else "root" if "revoke" in path else "grace"
        headers = {"Authorization": f"token {token(name)}"}
        response = httpx.request(method, f"{controller.url}/api/v1{path}", headers=headers, content=body)
        assert response.status_code == 400
        assert error_of(response)["code"] == "invalid_request"

    def test_bodies_that_are_too_long_are_refused_whether_announced_or_not(
        self, controller: ThreadedController
    ) -> None:
        url = f"{controller.url}/api/v1/leases"
        headers = {"Authorization": f"token {token('ada')}"}
        pieces = (b"x" * 100_000 for _ in range(20))
        for content in (b"x" * 2_000_000, pieces):
            response = httpx.post(url, headers=headers, content=content)
            assert response.status_code == 413
            assert error_of(response)["details"] == {"limit": 1024 * 1024}

    def test_addresses_and_methods_that_are_not_there(self, controller: ThreadedController) -> None:
        headers = {"Authorization": f"token {token('ada')}"}
        for path in ("/", "/api/v1", "/api/v1/nothing", "/api/v1/leases/a/b/c", "/api/v2/pool"):
            response = httpx.get(controller.url + path, headers=headers)
            assert (response.status_code, error_of(response)["code"]) == (404, "not_found")
        for method, path in (("DELETE", "/pool"), ("PUT", "/leases"), ("PATCH", "/courses/ml101")):
            response = httpx.request(method, f"{controller.url}/api/v1{path}", headers=headers)
            assert (response.status_code, error_of(response)["code"]) == (405, "method_not_allowed")

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"size": "0.02 GB"}, "'GB' is not a unit here"),
            ({"size": 5}, "'size' in the body must be text, not a number"),
            ({"size": "x" * 300}, "must have at most 256 characters"),
            ({"key": ""}, "'key' in the body must not be empty"),
            ({"key": None}, "'key' in the body must be text, not null"),
            ({"holder": "a\nb"}, "must not hold control characters"),
            ({"holder": "\ud800"}, "must not hold control characters"),
            ({"wait": -1}, "'wait' in the body must be 0 to 1e+09, not -1"),
            ({"wait": True}, "'wait' in the body must be a number, not true or false"),
            ({"wait": 10**400}, "must be 0 to 1e+09"),
            ({"slot": "a.ipynb"}, "'slot' must be a JSON object, not text"),
            ({"slot": {"server": ""}}, "'path' in 'slot' is missing"),
            ({"slot": {"server": "", "path": "", "x": 1}}, "Unknown in 'slot': 'x'; known are path, server"),
            ({"labels": {"a": 5}}, "'a' in 'labels' must be text, not a number"),
            ({"labels": {str(n): "" for n in range(17)}}, "must have at most 16 entries, not 17"),
            ({"user": "bob"}, "Unknown in the body: 'user'; known are course, holder"),
        ],
    )
    def test_a_wrong_field_is_named(
        self, controller: ThreadedController, agent: Agent, change: dict[str, Any], text: str
    ) -> None:
        body = {"size": "0.02 V100", "key": "k", "slot": {"server": "", "path": "a"}, "holder": "h"}
        response = httpx.post(
            f"{controller.url}/api/v1/leases",
            headers={"Authorization": f"token {token('ada')}", "Content-Type": "application/json"},
            content=_json({**body, **change}),
        )
        assert response.status_code == 400
        assert text in error_of(response)["message"]

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"gpu_class": "GPU"}, "cannot be called 'GPU'"),
            ({"device": "abacus"}, "'device' is 'software' or 'nvidia', not 'abacus'"),
            ({"allocatable_mib": 40000}, "is more than 'total_mib'"),
            ({"total_mib": 0}, "'total_mib' in entry 0 of 'gpus' must be 1 to"),
            ({"index": 1.5}, "'index' in entry 0 of 'gpus' must be an integer, not a number"),
        ],
    )
    def test_a_gpu_that_cannot_be_is_refused(
        self, controller: ThreadedController, change: dict[str, Any], text: str
    ) -> None:
        agent = Agent(controller.client("gpu-server"))
        with pytest.raises(InvalidRequest, match=text):
            agent.register(**change)

    def test_agents_names_and_addresses_are_checked(self, controller: ThreadedController) -> None:
        client = controller.client("gpu-server")
        with pytest.raises(InvalidRequest, match="must be tcp://HOST:PORT or unix:///PATH"):
            client.register_agent("gpu1", boot_id="1", address="http://x", version="1", gpus=[GPU])
        with pytest.raises(InvalidRequest, match="An agent's name has up to 64 letters"):
            client.register_agent("gpu 1", boot_id="1", address="tcp://x:1", version="1", gpus=[GPU])
        with pytest.raises(InvalidRequest, match="same 'uuid'"):
            client.register_agent("gpu1", boot_id="1", address="tcp://x:1", version="1", gpus=[GPU, GPU])


class TestLeases:
    def test_the_life_of_a_lease(self, ada: PoolClient, agent: Agent) -> None:
        lease = reserve(ada, labels={"kernel": "python3"})
        assert (lease.state, lease.user, lease.course) == ("reserved", "ada", "ml101")
        assert (lease.mib, lease.thousandths, lease.ttl) == (655, 20, 60.0)
        assert (lease.agent, lease.address) == ("gpu1", "tcp://127.0.0.1:9")
        assert lease.labels == {"kernel": "python3"}
        assert [(seen.id, seen.secret) for seen in ada.list()] == [(lease.id, lease.secret)]
        assignment = agent.report()
        assert [target.id for target in assignment.leases] == [lease.id]
        agent.report([lease])
        assert ada.get(lease.id).state == "active"
        assert ada.renew([(lease.id, lease.epoch)]).renewed == {lease.id: 60.0}
        assert ada.release(lease.id, "another kernel").state == "active"
        assert ada.release(lease.id, lease.holder).state == "draining"
        agent.carry_out()
        assert ada.get(lease.id).state == "released"
        assert ada.list() == []

    def test_an_agent_can_check_the_secret_and_does_not_get_it(self, ada: PoolClient, agent: Agent) -> None:
        lease = reserve(ada)
        assert lease.secret is not None
        secret = bytes.fromhex(lease.secret)
        assert len(secret) == 32
        told = agent.report().leases[0]
        assert told.secret_sha256 == hashlib.sha256(secret).hexdigest()
        assert reserve(ada).secret == ada.get(lease.id).secret == lease.secret

    def test_a_secret_is_for_its_owner_while_the_lease_is_in_force(
        self, controller: ThreadedController, ada: PoolClient, agent: Agent
    ) -> None:
        lease = reserve(ada)
        others = [controller.client("grace").list("ml101"), controller.client("root").list(everyone=True)]
        assert [[(seen.id, seen.secret) for seen in view] for view in others] == [[(lease.id, None)]] * 2
        assert ada.release(lease.id, lease.holder).secret is None

    def test_secrets_and_tokens_are_in_no_file_and_no_log(
        self,
        controller: ThreadedController,
        ada: PoolClient,
        agent: Agent,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level(logging.DEBUG)
        lease = reserve(ada)
        agent.report([lease])
        with pytest.raises(PoolError):
            ada.revoke(lease.id, "because")
        assert lease.secret is not None
        logged = caplog.text.encode()
        assert b"/api/v1/leases" in logged
        stored = b"".join(path.read_bytes() for path in (tmp_path / "state").glob("ledger.sqlite*"))
        assert lease.id.encode() in stored
        for secret in (lease.secret.encode(), bytes.fromhex(lease.secret), token("ada").encode()):
            assert secret not in stored
            assert secret not in logged

    def test_another_users_lease_cannot_be_seen_kept_or_ended(
        self, controller: ThreadedController, ada: PoolClient
    ) -> None:
        lease = reserve(ada)
        bob = controller.client("bob")
        for attempt in (
            lambda: bob.get(lease.id),
            lambda: bob.release(lease.id, lease.holder),
        ):
            with pytest.raises(UnknownLease):
                attempt()
        with pytest.raises(Forbidden):
            bob.revoke(lease.id, "mine now")
        with pytest.raises(Forbidden):
            bob.release_server("", user="ada")
        with pytest.raises(Forbidden):
            bob.list(everyone=True)
        with pytest.raises(Forbidden):
            bob.list("ml101")
        assert bob.renew([(lease.id, lease.epoch)]).lost[0].state == "unknown"
        assert bob.release_server("") == []
        assert ada.get(lease.id).state == "reserved"

    def test_the_texts_of_refusals_reach_the_user(self, ada: PoolClient) -> None:
        reserve(ada, size="0.1 V100")
        with pytest.raises(CourseLimit, match=r"ml101 holds 0\.1 of 0\.1 V100 now") as caught:
            reserve(ada, "b.ipynb")
        assert caught.value.retry_after == 30
        with pytest.raises(InvalidSize, match=r"'0\.02 GB' cannot be read"):
            reserve(ada, size="0.02 GB")
        with pytest.raises(NotAMember):
            reserve(ada, course="cv202")
        with pytest.raises(UnknownCourse):
            reserve(ada, course="ghosts")
        with pytest.raises(KeyReused):
            reserve(ada, "a.ipynb", "0.01 V100", key="a.ipynb 0.1 V100")

    def test_two_who_race_for_the_last_slice_do_not_both_get_it(
        self, controller: ThreadedController, agent: Agent
    ) -> None:
        eve = controller.client("eve")
        reserve(eve, size="0.9 V100")
        together = threading.Barrier(8)

        def ask(number: int) -> str:
            together.wait()
            try:
                return reserve(eve, f"{number}.ipynb", "0.1 V100").state
            except PoolError as error:
                return error.code

        with ThreadPoolExecutor(8) as pool:
            answers = sorted(pool.map(ask, range(8)))
        assert answers == ["course_limit"] * 7 + ["reserved"]

    def test_the_same_request_sent_many_times_at_once_is_one_lease(
        self, ada: PoolClient, agent: Agent
    ) -> None:
        with ThreadPoolExecutor(8) as pool:
            leases = list(pool.map(lambda _: reserve(ada).id, range(16)))
        assert len(set(leases)) == 1

    def test_a_queued_lease_wakes_its_owner_when_it_is_granted(
        self, controller: ThreadedController, ada: PoolClient, agent: Agent
    ) -> None:
        eve = controller.client("eve")
        big = reserve(eve, size="1 V100")
        queued = reserve(ada, wait=60)
        assert (queued.state, queued.position, queued.secret) == ("queued", 1, None)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(ada.wait_for, queued, 25)
            eve.release(big.id, big.holder)
            agent.carry_out()
            lease = waiting.result()
        assert lease.state == "reserved"
        assert lease.secret is not None

    def test_waiting_ends_when_its_time_is_over(
        self, controller: ThreadedController, ada: PoolClient, agent: Agent
    ) -> None:
        reserve(controller.client("eve"), size="1 V100")
        queued = reserve(ada, wait=60)
        assert ada.get(queued.id, wait=0.05).state == "queued"
        assert ada.release(queued.id, queued.holder).state == "released"

    def test_a_server_that_stopped_gives_everything_back(
        self, controller: ThreadedController, ada: PoolClient
    ) -> None:
        lab = ada.reserve("0.02 V100", key="1", slot=Slot("lab", "a.ipynb"), holder="h")
        default = ada.reserve("0.02 V100", key="2", slot=Slot("", "a.ipynb"), holder="h")
        assert [lease.id for lease in ada.release_server("lab")] == [lab.id]
        assert [lease.id for lease in ada.list() if lease.in_force] == [default.id]
        released = controller.client("root").release_server("", user="ada")
        assert [lease.id for lease in released] == [default.id]

    def test_an_admin_takes_a_lease_back(
        self, controller: ThreadedController, ada: PoolClient, agent: Agent
    ) -> None:
        lease = reserve(ada)
        taken = controller.client("root").revoke(lease.id, "exam")
        assert (taken.state, taken.reason) == ("quarantined", "Taken back: exam")
        assert ada.renew([(lease.id, lease.epoch)]).lost[0].reason == "Taken back: exam"
        agent.carry_out()
        assert ada.get(lease.id).state == "freed"
        with pytest.raises(UnknownLease):
            controller.client("root").revoke("f00", "exam")


class TestAgents:
    def test_a_report_that_waits_is_answered_when_the_set_changes(
        self, ada: PoolClient, agent: Agent
    ) -> None:
        assert agent.report().leases == ()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(agent.report, wait=10.0)
            lease = reserve(ada)
            assert [target.id for target in waiting.result().leases] == [lease.id]

    def test_a_report_that_is_behind_is_answered_at_once(self, ada: PoolClient, agent: Agent) -> None:
        lease = reserve(ada)
        assert [target.id for target in agent.report(wait=3600).leases] == [lease.id]

    def test_a_report_before_the_registration_and_by_another_token(
        self, controller: ThreadedController, agent: Agent
    ) -> None:
        with pytest.raises(UnknownAgent):
            Agent(controller.client("gpu-server"), "gpu9").report()
        with pytest.raises(UnknownAgent):
            Agent(controller.client("other-server"), "gpu1").report()
        with pytest.raises(Forbidden, match="belongs to another token's owner"):
            Agent(controller.client("other-server"), "gpu1").register()
        with pytest.raises(Forbidden):
            Agent(controller.client("ada"), "gpu1").register()

    def test_an_older_process_is_told_so(self, controller: ThreadedController, agent: Agent) -> None:
        Agent(controller.client("gpu-server"), boot="2").register()
        with pytest.raises(AgentReplaced):
            agent.report()

    def test_admins_see_agents(self, controller: ThreadedController, agent: Agent) -> None:
        headers = {"Authorization": f"token {token('root')}"}
        listed = httpx.get(f"{controller.url}/api/v1/agents", headers=headers).json()["agents"]
        assert [(item["name"], item["answering"]) for item in listed] == [("gpu1", True)]


class TestPoolAndCourses:
    def test_the_pool_shows_what_there_is_and_names_nobody(
        self, controller: ThreadedController, ada: PoolClient
    ) -> None:
        reserve(ada)
        pool = ada.pool()
        assert pool["classes"] == [
            {
                "gpu_class": "V100",
                "gpus": 1,
                "available": 1,
                "allocatable_mib": 32768,
                "used_thousandths": 20,
                "sizes": ["0.02 V100", "0.1 V100", "1 V100"],
            }
        ]
        gpu = pool["gpus"][0]
        assert (gpu["total_mib"], gpu["allocatable_mib"], gpu["used_mib"]) == (33000, 32768, 655)
        assert "ada" not in str(pool)

    def test_who_sees_which_courses(self, controller: ThreadedController, ada: PoolClient) -> None:
        def names(user: str) -> list[tuple[str, bool]]:
            return [(c["name"], c["instructor"]) for c in controller.client(user).courses()]

        assert names("ada") == [("ml101", False)]
        assert names("grace") == [("ml101", True)]
        assert names("root") == [("cv202", True), ("ml101", True)]
        with pytest.raises(NotAMember):
            ada.course("cv202")

    @pytest.mark.parametrize("who", ["grace", "dean", "root"])
    def test_instructors_and_admins_set_a_limit(
        self, controller: ThreadedController, ada: PoolClient, who: str
    ) -> None:
        changed = controller.client(who).set_limit("ml101", {"V100": 40})
        assert changed["limit"] == {"V100": {"thousandths": 40}}
        assert ada.course("ml101")["limit"] == {"V100": {"thousandths": 40}}

    def test_others_set_no_limit(self, controller: ThreadedController, ada: PoolClient) -> None:
        with pytest.raises(Forbidden, match="its instructors may"):
            ada.set_limit("ml101", {"V100": 1000})
        with pytest.raises(Forbidden):
            controller.client("dean").set_limit("cv202", {"V100": 1000})
        with pytest.raises(Forbidden):
            controller.client("grace").set_limit("newcourse", {"V100": 1000})

    def test_an_admin_makes_a_course_by_giving_it_a_limit(self, controller: ThreadedController) -> None:
        controller.client("root").set_limit("nlp303", {"V100": 20, "A100": 0})
        assert controller.client("root").course("nlp303")["limit"] == {
            "A100": {"thousandths": 0},
            "V100": {"thousandths": 20},
        }

    @pytest.mark.parametrize(
        ("limit", "text"),
        [({"GB": 5}, "not the name of a GPU class"), ({"V100": -1}, "must be 0 to")],
    )
    def test_a_limit_that_makes_no_sense_is_refused(
        self, controller: ThreadedController, limit: dict[str, int], text: str
    ) -> None:
        with pytest.raises(InvalidRequest, match=text):
            controller.client("root").set_limit("ml101", limit)


class TestHealthAndMetrics:
    def test_they_are_for_this_machine_and_for_those_with_the_scope(
        self, controller: ThreadedController, agent: Agent
    ) -> None:
        for path in ("/health", "/metrics", "/api/v1/health", "/api/v1/metrics"):
            assert httpx.get(controller.url + path).status_code == 200
            outside = {"X-Forwarded-For": "192.0.2.1"}
            refused = httpx.get(controller.url + path, headers=outside)
            assert error_of(refused)["code"] == "unauthenticated"
            with_scope = {**outside, "Authorization": f"token {token('root')}"}
            assert httpx.get(controller.url + path, headers=with_scope).status_code == 200

    def test_metrics_tell_the_ledger(self, controller: ThreadedController, ada: PoolClient) -> None:
        reserve(ada)
        with pytest.raises(CourseLimit):
            reserve(ada, "b.ipynb", "0.1 V100")
        lines = httpx.get(f"{controller.url}/metrics").text.splitlines()
        for expected in (
            'pool_leases{course="ml101",gpu_class="V100",state="reserved"} 1.0',
            'pool_lease_thousandths{course="ml101",gpu_class="V100",state="reserved"} 20.0',
            'pool_gpu_used_mib{agent="gpu1",gpu="GPU-1",gpu_class="V100"} 655.0',
            'pool_gpu_allocatable_mib{agent="gpu1",gpu="GPU-1",gpu_class="V100"} 32768.0',
            'pool_gpu_available{agent="gpu1",gpu="GPU-1",gpu_class="V100"} 1.0',
            'pool_grants_total{course="ml101",gpu_class="V100"} 1.0',
            'pool_refusals_total{code="course_limit"} 1.0',
            "pool_ledger_mismatch 0.0",
        ):
            assert expected in lines
        assert any(line.startswith("pool_request_seconds_count") for line in lines)


def _json(body: object) -> bytes:
    return json.dumps(body).encode()
