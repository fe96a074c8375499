"""The client has a method for every call of the API, and the API takes what the methods send."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from gpu_kernels.client import AsyncPoolClient, Event, PoolClient, Slot
from gpu_kernels.client.api import Api, Method, ScriptMethod
from gpu_kernels.client.requests import Request
from gpu_kernels.errors import Forbidden
from gpu_kernels.pool.service.operations import operations_of
from gpu_kernels.pool.service.routes import ROUTES, pattern_of
from gpu_kernels.resources.accounts import Removed
from gpu_kernels.resources.agents import AgentReport, Registration
from tests.pool.controller import Agent, ThreadedController, reserve, token
from tests.pool.test_reserve import GRANTED, lease_of

NOT_CALLS = {
    ("GET", "/events"),
    ("GET", "/health"),
    ("GET", "/metrics"),
    ("GET", "/courses/{name}/class-hours"),
}
"""``follow`` reads the first; the next are for machines that are no clients; ``class_hours`` asks for the
last by another address.
"""
GIVEN: dict[str, Any] = {
    "slot": Slot("", "a"),
    "lease": lease_of({**GRANTED, "state": "queued"}),
    "leases": [],
    "registration": Registration("1", "tcp://gpu1:7000", "1", ()),
    "report": AgentReport(boot_id="1", target_seq=0, leases=()),
    "limit": {},
    "rules": {},
    "seconds": 1.0,
    "subject": None,
    "kind": None,
}


def first_request(name: str) -> Request[Any]:
    """What a method sends at first, with something for each argument that it needs."""
    method = inspect.getattr_static(Api, name)
    signature = inspect.signature(method.makes)
    needed = [
        p for p in signature.parameters.values() if p.default is p.empty and p.kind is not p.VAR_KEYWORD
    ]
    positional = [GIVEN.get(p.name, "x") for p in needed if p.kind is not p.KEYWORD_ONLY]
    named = {p.name: GIVEN.get(p.name, "x") for p in needed if p.kind is p.KEYWORD_ONLY}
    made = method.makes(*positional, **named)
    return made if isinstance(made, Request) else next(made)


def methods() -> list[str]:
    return [name for name, value in vars(Api).items() if isinstance(value, Method | ScriptMethod)]


def address_of(request: Request[Any]) -> tuple[str, str]:
    path = next(path for path, _ in ROUTES if re.fullmatch(pattern_of(path), request.path))
    return request.method, path


def test_every_call_has_a_method() -> None:
    calls = {(method, path) for path, handler in ROUTES for method in operations_of(handler)}
    assert {address_of(first_request(name)) for name in methods()} == calls - NOT_CALLS


@pytest.mark.parametrize("name", methods())
def test_every_method_says_what_it_does(name: str) -> None:
    assert inspect.getattr_static(Api, name).makes.__doc__


def test_admins_calls(controller: ThreadedController, agent: Agent) -> None:
    root, ada = controller.client("root"), controller.client("ada")
    lease = reserve(ada)
    assert root.agents()[0].standing == "open"
    assert root.set_standing("gpu1", "draining", drain_by="2030-01-01").standing == "draining"
    assert [row.leases for row in ada.usage().sums] == [1]
    assert lease.id in ada.usage_table()
    assert ada.why(lease.id).state == "reserved"
    assert root.audit(kind="draining", limit=1).items[0].subject == "gpu1"
    assert [event.kind for event in root.all_events(subject=lease.id)] == ["reserved"]
    assert root.put_account("science", kind="faculty").name == "science"
    assert root.set_quota("science", "V100", nominal=100).nominal == 100
    assert root.set_rules("science", {}).name == "science"
    assert root.remove_quota("science", "V100").name == "science"
    assert root.remove_account("science") == Removed("science")
    assert "ml101" in {account.name for account in root.accounts()}
    assert root.state()
    assert root.declare_lost("gpu1").leases == 1
    with pytest.raises(Forbidden):
        ada.audit()


def take(events: Any, count: int) -> list[tuple[str, str | None]]:
    found: list[Event] = [next(events) for _ in range(count)]
    return [(event.name, event.change and event.change.kind) for event in found]


def test_following_goes_on_over_a_restart_of_the_controller(tmp_path: Path) -> None:
    with ThreadedController(tmp_path / "state") as first:
        Agent(first.client("gpu-server")).register()
        port = int(first.url.rpartition(":")[2])
        events = PoolClient(first.url, token("ada")).follow()
        assert take(events, 1) == [("ready", None)]
        reserve(first.client("ada"))
        assert take(events, 1) == [("change", "reserved")]
    with ThreadedController(tmp_path / "state", port=port) as second:
        reserve(second.client("ada"), "b.ipynb")
        assert take(events, 2) == [("ready", None), ("change", "reserved")]
        events.close()


def test_following_ends_with_a_refusal(controller: ThreadedController) -> None:
    with pytest.raises(Forbidden):
        next(controller.client("ada").follow("pool"))


async def test_following_in_asyncio(controller: ThreadedController, agent: Agent) -> None:
    async with AsyncPoolClient(controller.url, token("root")) as root:
        seen = []
        async for event in root.follow("pool", after=0):
            seen.append(event)
            if event.change is not None and event.change.kind == "registered":
                break
        assert seen[0].name == "ready"
        assert seen[-1].change.subject == "gpu1"
