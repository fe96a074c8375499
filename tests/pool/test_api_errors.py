"""What the API says to those who may not, and to what makes no sense: one shape for every error."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from gpu_kernels.errors import InvalidRequest, TooLarge
from gpu_kernels.pool.service.identity import AGENT, USE
from gpu_kernels.pool.service.operations import Operation, operations_of
from gpu_kernels.pool.service.parsing import read_body
from gpu_kernels.pool.service.routes import ROUTES, example_of
from gpu_kernels.pool.service.schemas.leases import Renew, Reserve
from gpu_kernels.resources.agents import AgentReport
from tests.pool.controller import ADDRESS, GPU, Agent, ThreadedController, error_of, token


def addresses() -> list[tuple[str, str]]:
    """Every endpoint: method and address with something in its place for names."""
    return sorted((method, example_of(path)) for path, handler in ROUTES for method in operations_of(handler))


def made_of(method: str, path: str) -> Operation:
    return next(operations_of(handler)[method] for known, handler in ROUTES if example_of(known) == path)


def takes_a_body(method: str, path: str) -> bool:
    return made_of(method, path).body is not None


@pytest.mark.parametrize(("method", "path"), addresses())
def test_no_token_and_wrong_tokens_get_in_nowhere(
    controller: ThreadedController, method: str, path: str
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
    controller: ThreadedController, method: str, path: str
) -> None:
    headers = {"Authorization": f"token {token('guest')}", "X-Forwarded-For": "192.0.2.1"}
    bodies = {
        "/leases/f00/release": {"holder": "k"},
        "/leases/f00/revoke": {"reason": "r"},
        "/leases/release": {"server": ""},
        "/leases/renew": {"leases": []},
        "/courses/gpu1": {"limit": {}},
        "/courses/gpu1/end-idle": {"idle": 600},
        "/accounts/gpu1": {"kind": "course"},
        "/class-hours": {
            "course": "ml101",
            "size": "0.1 V100",
            "seats": 1,
            "weekdays": ["monday"],
            "start": "10:00",
            "minutes": 60,
            "last_date": "2030-01-01",
        },
    }
    response = httpx.request(
        method, f"{controller.url}/api/v1{path}", headers=headers, json=bodies.get(path, {})
    )
    if (method, path) == ("GET", "/courses"):
        assert [course["name"] for course in response.json()["courses"]] == ["ml101"]
    elif (method, path) == ("GET", "/class-hours"):
        assert response.json()["class_hours"] == []
    else:
        assert error_of(response)["code"] in (
            "forbidden",
            "not_a_member",
            "unknown_lease",
            "unknown_class_hour",
        )


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe", b'{"wait": NaN}', b"[" * 100_000, b'{"a": 1}'],
)
@pytest.mark.parametrize(("method", "path"), [address for address in addresses() if takes_a_body(*address)])
def test_bodies_that_make_no_sense_are_refused_in_the_one_shape(
    controller: ThreadedController, method: str, path: str, body: bytes
) -> None:
    name = {AGENT: "gpu-server", USE: "grace"}.get(made_of(method, path).scope or "", "root")
    headers = {"Authorization": f"token {token(name)}"}
    response = httpx.request(method, f"{controller.url}/api/v1{path}", headers=headers, content=body)
    assert response.status_code == 400
    assert error_of(response)["code"] == "bad_request"


def test_bodies_that_are_too_long_are_refused_whether_announced_or_not(
    controller: ThreadedController,
) -> None:
    url = f"{controller.url}/api/v1/leases"
    headers = {"Authorization": f"token {token('ada')}"}
    pieces = (b"x" * 100_000 for _ in range(20))
    for content in (b"x" * 2_000_000, pieces):
        response = httpx.post(url, headers=headers, content=content)
        assert response.status_code == 413
        assert error_of(response)["details"] == {"limit": 1024 * 1024}


def test_a_body_that_is_all_faults_is_refused_without_telling_each() -> None:
    many = b'{"leases":[%s]}' % b",".join([b'{"a":1,"b":2}'] * 9000)
    with pytest.raises(InvalidRequest, match=r"^The body has 36000 faults\.$"):
        read_body(Renew, many)
    with pytest.raises(TooLarge, match="longer than 131072 bytes"):
        read_body(Reserve, b'{%s"z":1}' % b'"a":1,' * 30_000)


def test_an_epoch_leaves_room_for_all_that_come_after_it() -> None:
    with pytest.raises(InvalidRequest, match="'epoch' in the body must be at most"):
        read_body(AgentReport, b'{"boot_id":"1","target_seq":0,"leases":[],"epoch":%d}' % 2**62)


def test_an_instant_that_utc_does_not_have_is_refused(controller: ThreadedController, agent: Agent) -> None:
    headers = {"Authorization": f"token {token('root')}"}
    body = {"standing": "open", "ends_at": "9999-12-31T23:59-12:00"}
    response = httpx.put(f"{controller.url}/api/v1/agents/gpu1/standing", headers=headers, json=body)
    assert (response.status_code, error_of(response)["code"]) == (400, "bad_request")


def test_addresses_and_methods_that_are_not_there(controller: ThreadedController) -> None:
    headers = {"Authorization": f"token {token('ada')}"}
    for path in ("/", "/api/v1", "/api/v1/nothing", "/api/v1/leases/a/b/c", "/apis"):
        response = httpx.get(controller.url + path, headers=headers)
        assert (response.status_code, error_of(response)["code"]) == (404, "not_found")
    for method, path, allowed in (
        ("DELETE", "/pool", "GET"),
        ("PUT", "/leases", "GET, POST"),
        ("PATCH", "/courses/ml101", "GET, PUT"),
        ("BREW", "/health", "GET"),
    ):
        response = httpx.request(method, f"{controller.url}/api/v1{path}", headers=headers)
        assert (response.status_code, error_of(response)["code"]) == (405, "method_not_allowed")
        assert response.headers["allow"] == allowed


def test_versions_are_listed_and_another_one_is_refused(controller: ThreadedController) -> None:
    listed = httpx.get(f"{controller.url}/api").json()["versions"]
    assert [entry["version"] for entry in listed] == ["v1"]
    assert httpx.get(controller.url + listed[0]["document"]).json()["servers"] == [{"url": "/api/v1"}]
    for path in ("/api/v2/pool", "/api/v10", "/api/pool"):
        error = error_of(httpx.get(controller.url + path))
        assert (error["code"], error["details"]) == ("unknown_version", {"versions": ["v1"]})


def test_a_query_where_none_is_known_is_refused(controller: ThreadedController) -> None:
    headers = {"Authorization": f"token {token('ada')}"}
    error = error_of(httpx.get(f"{controller.url}/api/v1/pool?verbose=1", headers=headers))
    assert (error["code"], error["message"]) == ("bad_request", "Unknown in the query: 'verbose'.")
    assert httpx.get(f"{controller.url}/metrics?format=text").status_code == 200


def test_a_fault_has_a_name_that_stands_in_the_log(
    controller: ThreadedController, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(tx: object, sizes: object) -> None:
        raise ZeroDivisionError("secret of the house")

    monkeypatch.setattr("gpu_kernels.pool.ledger.queries.pool_views.pool", broken)
    headers = {"Authorization": f"token {token('ada')}"}
    response = httpx.get(f"{controller.url}/api/v1/pool", headers=headers)
    error = error_of(response)
    assert (response.status_code, error["code"], response.headers["retry-after"]) == (500, "internal", "10")
    assert f"fault {error['details']['fault']}" in caplog.text
    assert "ZeroDivisionError" in caplog.text
    assert "secret of the house" not in response.text


def test_in_tests_an_answer_unlike_its_schema_is_a_fault(
    controller: ThreadedController, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = {"gpus": [], "queued": "many"}
    monkeypatch.setattr("gpu_kernels.pool.ledger.queries.pool_views.pool", lambda tx, sizes: broken)
    headers = {"Authorization": f"token {token('ada')}"}
    assert httpx.get(f"{controller.url}/api/v1/pool", headers=headers).status_code == 500
    assert "Pool.get answers 200 otherwise than its schema says" in caplog.text


def test_an_unknown_or_repeated_query_is_refused(controller: ThreadedController) -> None:
    headers = {"Authorization": f"token {token('ada')}"}
    for query, text in (
        ("everyone=1", "Unknown in the query: 'everyone'; known are after, all, course, ended, limit, user"),
        ("course=a&course=b", "'course' is in the query 2 times"),
        ("course=%ff", "'course' in the query is not UTF-8"),
        ("ended=perhaps", "'ended' in the query must be 1 (true) or 0 (false), not 'perhaps'"),
    ):
        error = error_of(httpx.get(f"{controller.url}/api/v1/leases?{query}", headers=headers))
        assert error["code"] == "bad_request"
        assert text in error["message"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"size": "0.02 GB"}, "'GB' is not a unit here"),
        ({"size": 5}, "'size' in the body must be text, not a number"),
        ({"size": "x" * 300}, "must have at most 256 characters"),
        ({"key": ""}, "'key' in the body must not be empty"),
        ({"key": None}, "'key' in the body must be text, not null"),
        ({"holder": "a\nb"}, "must not hold control characters"),
        ({"holder": "\ud800"}, "is not JSON: unexpected end of hex escape"),
        ({"wait": -1}, "'wait' in the body must be at least 0, not -1"),
        ({"wait": True}, "'wait' in the body must be a number, not true or false"),
        ({"wait": 10**400}, "'wait' in the body must be a finite number, not 1000000"),
        ({"slot": "a.ipynb"}, "'slot' in the body must be a JSON object, not text"),
        ({"slot": {"server": ""}}, "'path' in 'slot' is missing"),
        ({"slot": {"server": "", "path": "", "x": 1}}, "Unknown in 'slot': 'x'; known are path, server"),
        ({"labels": {"a": 5}}, "'a' in 'labels' must be text, not a number"),
        ({"labels": {str(n): "" for n in range(17)}}, "must have at most 16 entries, not 17"),
        ({"user": "bob"}, "Unknown in the body: 'user'; known are course, holder"),
    ],
)
def test_a_wrong_field_is_named(
    controller: ThreadedController, agent: Agent, change: dict[str, Any], text: str
) -> None:
    body = {"size": "0.02 V100", "key": "k", "slot": {"server": "", "path": "a"}, "holder": "h"}
    response = httpx.post(
        f"{controller.url}/api/v1/leases",
        headers={"Authorization": f"token {token('ada')}", "Content-Type": "application/json"},
        content=json.dumps({**body, **change}),
    )
    assert response.status_code == 400
    assert text in error_of(response)["message"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"gpu_class": "GPU"}, "cannot be called 'GPU'"),
        ({"device": "abacus"}, "'device' in entry 0 of 'gpus' must be 'software' or 'nvidia', not 'abacus'"),
        ({"allocatable_mib": 40000}, "is more than 'total_mib'"),
        ({"total_mib": 0}, "'total_mib' in entry 0 of 'gpus' must be at least 1, not 0"),
        ({"index": 1.5}, "'index' in entry 0 of 'gpus' must be an integer, not a number"),
    ],
)
def test_a_gpu_that_cannot_be_is_refused(
    controller: ThreadedController, change: dict[str, Any], text: str
) -> None:
    error = error_of(register(controller, "gpu1", gpus=[{**GPU, **change}]))
    assert error["code"] == "bad_request"
    assert text in error["message"]


def test_agents_names_and_addresses_are_checked(controller: ThreadedController) -> None:
    for name, wrong, text in (
        ("gpu1", {"address": "http://x"}, "must be tcp://HOST:PORT or unix:///PATH"),
        ("gpu 1", {}, "An agent's name has up to 64 letters"),
        ("gpu1", {"gpus": [GPU, GPU]}, "same 'uuid'"),
    ):
        error = error_of(register(controller, name, **wrong))
        assert error["code"] == "bad_request"
        assert text in error["message"]


def register(controller: ThreadedController, name: str, **wrong: Any) -> httpx.Response:
    """As an agent that does not look at what it sends."""
    return httpx.put(
        f"{controller.url}/api/v1/agents/{name}",
        headers={"Authorization": f"token {token('gpu-server')}"},
        json={"boot_id": "1", "address": ADDRESS, "version": "1", "gpus": [GPU], **wrong},
    )
