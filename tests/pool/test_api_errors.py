"""What the API says to those who may not, and to what makes no sense: one shape for every error."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from gpu_kernels.errors import InvalidRequest
from gpu_kernels.pool.service.application import ROUTES
from tests.pool.controller import GPU, Agent, ThreadedController, error_of, token


def addresses() -> list[tuple[str, str]]:
    """Every endpoint: method and address with something in its place for names."""
    found = []
    for pattern, handler in ROUTES:
        path = pattern.replace(r"(?P<lease_id>[A-Za-z0-9_-]{1,64})", "f00").replace(
            r"(?P<name>[^/]{1,255})", "gpu1"
        )
        found += [(m, path) for m in ("GET", "POST", "PUT") if m.lower() in vars(handler)]
    return sorted(found)


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
    controller: ThreadedController, method: str, path: str, body: bytes
) -> None:
    name = "gpu-server" if "agents" in path else "root" if "revoke" in path else "grace"
    headers = {"Authorization": f"token {token(name)}"}
    response = httpx.request(method, f"{controller.url}/api/v1{path}", headers=headers, content=body)
    assert response.status_code == 400
    assert error_of(response)["code"] == "invalid_request"


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


def test_addresses_and_methods_that_are_not_there(controller: ThreadedController) -> None:
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
        ({"device": "abacus"}, "'device' is 'software' or 'nvidia', not 'abacus'"),
        ({"allocatable_mib": 40000}, "is more than 'total_mib'"),
        ({"total_mib": 0}, "'total_mib' in entry 0 of 'gpus' must be 1 to"),
        ({"index": 1.5}, "'index' in entry 0 of 'gpus' must be an integer, not a number"),
    ],
)
def test_a_gpu_that_cannot_be_is_refused(
    controller: ThreadedController, change: dict[str, Any], text: str
) -> None:
    agent = Agent(controller.client("gpu-server"))
    with pytest.raises(InvalidRequest, match=text):
        agent.register(**change)


def test_agents_names_and_addresses_are_checked(controller: ThreadedController) -> None:
    client = controller.client("gpu-server")
    with pytest.raises(InvalidRequest, match="must be tcp://HOST:PORT or unix:///PATH"):
        client.register_agent("gpu1", boot_id="1", address="http://x", version="1", gpus=[GPU])
    with pytest.raises(InvalidRequest, match="An agent's name has up to 64 letters"):
        client.register_agent("gpu 1", boot_id="1", address="tcp://x:1", version="1", gpus=[GPU])
    with pytest.raises(InvalidRequest, match="same 'uuid'"):
        client.register_agent("gpu1", boot_id="1", address="tcp://x:1", version="1", gpus=[GPU, GPU])
