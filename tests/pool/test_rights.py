"""Every call of the API, asked by everybody: who may do what, as one table."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gpu_kernels.errors import Forbidden, TooMany
from gpu_kernels.pool.app import GROUP_READS
from gpu_kernels.pool.service.groups import GroupReader
from gpu_kernels.pool.service.operations import operations_of
from gpu_kernels.pool.service.routes import ROUTES, example_of
from tests.pool.controller import ADDRESS, GPU, Agent, ThreadedController, reserve, token

LAST = (datetime.date.today() + datetime.timedelta(days=60)).isoformat()
HOUR = {"course": "ml101", "size": "0.02 V100", "seats": 1, "weekdays": ["monday"], "start": "10:00"}
BODIES: dict[str, Any] = {
    "POST /leases": {"size": "0.02 V100", "key": "k", "slot": {"server": "", "path": "b"}, "holder": "h"},
    "POST /leases/renew": {"leases": [{"id": "f00", "epoch": 1}]},
    "POST /leases/release": {"server": "", "user": "bob"},
    "POST /leases/{lease_id}/release": {"holder": "nobody"},
    "POST /leases/{lease_id}/revoke": {"reason": "exam"},
    "PUT /courses/{name}": {"limit": {"V100": {"thousandths": 100}}},
    "PUT /courses/{name}/rules": {},
    "POST /courses/{name}/end-idle": {"idle": 3600},
    "POST /class-hours": {**HOUR, "minutes": 60, "last_date": LAST},
    "PATCH /class-hours/{class_hour_id}": {"seats": 1},
    "PUT /accounts/{name}": {"kind": "course", "parent": None},
    "PUT /accounts/{name}/rules": {},
    "PUT /accounts/{name}/quota/{gpu_class}": {"nominal": 1},
    "PUT /agents/{name}": {"boot_id": "1", "address": ADDRESS, "version": "1", "gpus": [GPU]},
    "POST /agents/{name}/report": {"boot_id": "1", "target_seq": 0, "leases": []},
    "PUT /agents/{name}/standing": {"standing": "open"},
    "POST /agent-tokens": {"agent": "gpu9"},
}
QUERIES = {
    "GET /leases": "?all=1",
    "GET /usage": "?user=bob",
    "GET /usage/timeline": "?user=bob",
    "GET /usage.csv": "?user=bob",
    "GET /events": "?topics=pool",
}
"""Each asks for others': what is one's own is told to whoever has a right to use slices."""

ANYBODYS = {"GET /courses", "GET /class-hours"}
"""Of one's own courses: an empty list where one has none."""
OF_A_COURSE = {"GET /courses/{name}", "GET /courses/{name}/class-hours", "GET /class-hours/{class_hour_id}"}
SCRAPES = {"GET /health", "GET /metrics"}
SEES_A_COURSE = OF_A_COURSE | {
    "GET /leases/{lease_id}", "GET /pool", "GET /accounts", "GET /accounts/{name}",
}  # fmt: skip
READS = ANYBODYS | SCRAPES | SEES_A_COURSE | {
    "GET /leases", "GET /usage", "GET /usage.csv", "GET /usage/timeline",
}  # fmt: skip
MACHINES = {
    "POST /leases/release", "POST /leases/{lease_id}/revoke", "GET /leases/{lease_id}/why",
    "POST /courses/{name}/end-idle", "GET /agents", "PUT /agents/{name}/standing", "POST /agents/{name}/lost",
    "GET /agent-tokens", "POST /agent-tokens", "DELETE /agent-tokens/{token_id}", "GET /events", "GET /audit",
    "GET /state",
}  # fmt: skip
ALLOWED: dict[str, set[str]] = {
    "guest": ANYBODYS | OF_A_COURSE,
    "panel": READS,
    "part": ANYBODYS | SEES_A_COURSE,
    "machinist": READS | MACHINES,
    "gpu-server": ANYBODYS | {"GET /health", "GET /pool", "PUT /agents/{name}", "POST /agents/{name}/report"},
    "other-server": ANYBODYS | {"GET /health", "GET /pool"},
}


def calls() -> Iterator[tuple[str, str, str]]:
    for path, handler in ROUTES:
        for method in operations_of(handler):
            yield f"{method} {path}", method, path


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[ThreadedController]:
    state = tmp_path / "state"
    with ThreadedController(state, metrics_without_token=False, max_requests=1e6, max_reads=1e6) as running:
        Agent(running.client("gpu-server")).register()
        yield running


@pytest.fixture
def lease(controller: ThreadedController) -> str:
    """Ada's: somebody else's for all who ask here."""
    return reserve(controller.client("ada")).id


@pytest.fixture
def ids(controller: ThreadedController, lease: str) -> dict[str, str]:
    """What there is, by how addresses call it."""
    hour = controller.client("grace").add_class_hour(**HOUR, minutes=60, last_date=LAST)
    spare = controller.client("root").add_agent_token("gpu1")
    return {"lease_id": lease, "class_hour_id": hour.id, "token_id": spare.id}


def answer(
    controller: ThreadedController, who: str | None, call: str, method: str, path: str, ids: dict[str, str]
) -> int:
    there = {**ids, "name": "ml101" if path.startswith(("/courses", "/accounts")) else "gpu1"}
    for name, value in there.items():
        path = path.replace(f"{{{name}}}", value)
    address = example_of(path) + QUERIES.get(call, "")
    headers = {} if who is None else {"Authorization": f"token {token(who)}"}
    url = f"{controller.url}/api/v1{address}"
    with httpx.stream(method, url, headers=headers, json=BODIES.get(call), timeout=60) as response:
        return response.status_code


@pytest.mark.parametrize("who", sorted(ALLOWED))
def test_each_may_do_what_the_right_says_and_nothing_else(
    controller: ThreadedController, ids: dict[str, str], who: str
) -> None:
    """The panel's right is to look: with one for more, a hub's admin panel could make accounts."""
    told = {call: answer(controller, who, call, *rest, ids) for call, *rest in calls()}
    assert 400 not in told.values(), {call: status for call, status in told.items() if status == 400}
    hidden = {call for call, status in told.items() if status == 404 and "_id}" in call}
    refused = {call for call, status in told.items() if status == 403} | hidden
    assert set(told) - refused - ALLOWED[who] == set(), "may do more"
    assert refused & ALLOWED[who] == set(), "may do less"


def test_nobody_without_a_token_does_anything(controller: ThreadedController, ids: dict[str, str]) -> None:
    """On the controller's machine too: a hub's students may have their servers there."""
    assert {call: answer(controller, None, call, *rest, ids) for call, *rest in calls()} == {
        call: 401 for call, *_ in calls()
    }


def test_metrics_are_for_the_machine_where_the_setting_says_so(tmp_path: Path) -> None:
    with ThreadedController(tmp_path / "state", metrics_without_token=True) as running:
        for path in ("/health", "/metrics"):
            assert httpx.get(running.url + path).status_code == 200


def test_under_a_hub_metrics_need_a_token_unless_said_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpu_kernels.pool.settings import PoolSettings

    assert PoolSettings().metrics_without_token
    monkeypatch.setenv("JUPYTERHUB_SERVICE_NAME", "gpu")
    assert not PoolSettings().metrics_without_token


def test_who_may_look_sees_all_leases_and_no_secret(controller: ThreadedController, lease: str) -> None:
    seen = controller.client("panel").list(everyone=True)
    assert lease in [one.id for one in seen]
    assert [one.secret for one in seen] == [None] * len(seen)


def test_a_token_for_one_server_keeps_no_lease_of_another(controller: ThreadedController) -> None:
    from gpu_kernels.client import Slot

    eve, lab = controller.client("eve"), controller.client("eve-lab")
    one = eve.ask("0.02 V100", key="1", slot=Slot("lab", "a"), holder="h")
    two = eve.ask("0.02 V100", key="2", slot=Slot("", "a"), holder="h")
    wanted = [(one.id, one.epoch), (two.id, two.epoch)]
    renewal = lab.renew(wanted)
    assert list(renewal.left) == [one.id]
    assert [(lost.id, lost.state) for lost in renewal.lost] == [(two.id, "unknown")]
    assert set(eve.renew(wanted).left) == {one.id, two.id}
    eve.release_server("lab")
    eve.release_server("")


def test_reads_that_cost_much_have_a_rate_limit_of_their_own(tmp_path: Path) -> None:
    with ThreadedController(tmp_path / "state", max_reads=2.0) as running:
        Agent(running.client("gpu-server")).register()
        ada, root = running.client("ada"), running.client("root")
        ada.usage()
        ada.timeline()
        for attempt in (ada.usage, ada.timeline, ada.usage_table, lambda: ada.list(ended=True)):
            with pytest.raises(TooMany, match="Rate limit: at most 2 such requests per minute"):
                attempt()
        root.usage()
        root.state()
        for attempt in (root.audit, root.state, root.usage):
            with pytest.raises(TooMany, match="Rate limit"):
                attempt()
        reserve(ada)  # another limit, and so other requests go on
        with pytest.raises(Forbidden):
            ada.audit()


class NoGroups:
    """A hub without groups, which counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def read(self) -> dict[str, dict[str, str]]:
        self.asked += 1
        return {}


def test_one_user_has_the_hub_asked_for_all_its_groups_only_so_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: any instructor, in a loop; each time the hub told all of its groups."""
    hub, controller = NoGroups(), ThreadedController(tmp_path / "state")
    monkeypatch.setattr(controller.app, "_group_reader", lambda desk: GroupReader(hub, desk, 3600.0))
    with controller:
        dean, root = controller.client("dean"), controller.client("root")
        for _ in range(int(GROUP_READS)):
            dean.read_groups()
        with pytest.raises(TooMany, match="Rate limit: at most 12 such requests per minute"):
            dean.read_groups()
        root.read_groups()
        assert hub.asked <= GROUP_READS + 2  # and once by itself
