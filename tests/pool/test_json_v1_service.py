"""What the service sends of GPU servers, usage, the audit trail and itself, and how it refuses what GPU
servers send, is JSON v1 to the byte: agents, clients and scripts of other versions read it.

``json_v1/`` has it as it was first released, with what differs from run to run put aside (``steady``).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.json import encode

from gpu_kernels import __version__
from gpu_kernels.pool.ledger.state.rows import Event
from gpu_kernels.pool.service.accounting import Period, summed, timeline
from gpu_kernels.pool.service.events import Topics
from gpu_kernels.pool.service.feed import Told
from gpu_kernels.pool.service.identity import Identity
from tests.pool.controller import ADDRESS, GPU, Agent, ThreadedController, reserve, token
from tests.pool.test_history_api import HOUR, MONDAY, account

RECORDED = Path(__file__).parent / "json_v1"
LONG = "x" * 70
REGISTRATION = {"boot_id": "1", "address": ADDRESS, "version": "1", "gpus": [GPU]}
REPORT = {"boot_id": "1", "target_seq": 0, "leases": []}
LIVES = {"id": "f00", "epoch": 1}
WRONG_REGISTRATIONS: list[Any] = [
    {}, [], None, "text", {**REGISTRATION, "boot_id": ""}, {**REGISTRATION, "boot_id": LONG},
    {**REGISTRATION, "boot_id": "a\nb"}, {**REGISTRATION, "boot_id": "a\n"}, {**REGISTRATION, "boot_id": 1},
    {**REGISTRATION, "address": "http://x"}, {**REGISTRATION, "address": ADDRESS + "\n"},
    {**REGISTRATION, "address": "tcp://" + "h" * 255 + ":1"}, {**REGISTRATION, "version": None},
    {**REGISTRATION, "gpus": {}}, {**REGISTRATION, "gpus": [[]]}, {**REGISTRATION, "gpus": [GPU] * 65},
    {**REGISTRATION, "gpus": [GPU, GPU]}, {**REGISTRATION, "fences_after": -1},
    {**REGISTRATION, "fences_after": 2e6}, {**REGISTRATION, "fences_after": "1"},
    {**REGISTRATION, "fences_after": float("nan")}, {**REGISTRATION, "fences_after": True},
    {**REGISTRATION, "mood": "new", "colour": 1}, {**REGISTRATION, "gpus": [{**GPU, "colour": 1}]},
    *(
        {**REGISTRATION, "gpus": [{**GPU, **wrong}]}
        for wrong in (
            {"uuid": ""}, {"uuid": "u" * 97}, {"uuid": "\u202e"}, {"index": -1}, {"index": 1024},
            {"index": 1.0}, {"index": True}, {"index": 10**30}, {"gpu_class": "GPU"}, {"gpu_class": "1/2"},
            {"gpu_class": ""}, {"device": "abacus"}, {"device": None}, {"name": ""}, {"name": "n" * 129},
            {"total_mib": 0}, {"total_mib": 10**12}, {"allocatable_mib": 0}, {"allocatable_mib": 40000},
            {"total_mib": "33000"}, {"allocatable_mib": None},
        )
    ),
    {name: value for name, value in REGISTRATION.items() if name != "gpus"},
    {**REGISTRATION, "gpus": [{name: value for name, value in GPU.items() if name != "index"}]},
    {**REGISTRATION, "boot_id": 1, "version": 2, "gpus": [{**GPU, "index": "0", "total_mib": 0}, 7]},
]  # fmt: skip
WRONG_REPORTS: list[Any] = [
    {}, [], 7, {**REPORT, "boot_id": ""}, {**REPORT, "boot_id": LONG}, {**REPORT, "boot_id": "\x00"},
    {**REPORT, "target_seq": -1}, {**REPORT, "target_seq": 2**62 + 1}, {**REPORT, "target_seq": 2**70},
    {**REPORT, "target_seq": "0"}, {**REPORT, "target_seq": 0.0}, {**REPORT, "target_seq": 0.5},
    {**REPORT, "incarnation": LONG}, {**REPORT, "incarnation": "a\nb"}, {**REPORT, "incarnation": None},
    {**REPORT, "full": 1}, {**REPORT, "full": "true"}, {**REPORT, "epoch": -1},
    {**REPORT, "epoch": 2**61 + 1}, {**REPORT, "wait": -1}, {**REPORT, "wait": 1e10},
    {**REPORT, "wait": float("inf")},
    {**REPORT, "wait": float("nan")}, {**REPORT, "wait": None}, {**REPORT, "mood": "new"},
    {**REPORT, "leases": None}, {**REPORT, "leases": {}}, {**REPORT, "leases": ["f00"]},
    {**REPORT, "leases": [{}]}, {**REPORT, "leases": [{**LIVES, "mood": 1}]},
    {**REPORT, "leases": [LIVES] * 20_001}, {**REPORT, "outside": None}, {**REPORT, "outside": [{}]},
    {**REPORT, "outside": [{"gpu": "GPU-1", "mib": 1}] * 65}, {**REPORT, "outside": [{"gpu": "", "mib": 1}]},
    {**REPORT, "outside": [{"gpu": "u" * 97, "mib": 1}]}, {**REPORT, "outside": [{"gpu": "u", "mib": -1}]},
    {**REPORT, "outside": [{"gpu": "u\n", "mib": 1}]},
    *(
        {**REPORT, "leases": [LIVES, {**LIVES, **wrong}]}
        for wrong in (
            {"id": ""}, {"id": LONG}, {"id": "a\n"}, {"id": 7}, {"id": None}, {"epoch": -1}, {"epoch": 2**63},
            {"epoch": "1"}, {"epoch": None}, {"state": "s" * 33}, {"state": "a\tb"}, {"state": None},
            {"used_mib": -1}, {"used_mib": 2**62 + 1}, {"used_mib": 1.5}, {"peak_mib": "1"},
            {"sessions": None}, {"launches": True},
        )
    ),
    {name: value for name, value in REPORT.items() if name != "leases"},
    {**REPORT, "leases": [{**LIVES, "epoch": -1}] * 7},
    {**REPORT, "leases": [{**LIVES, "epoch": -1}] * 2100},
    {"boot_id": 1, "target_seq": "0", "leases": [{}], "outside": [{}], "mood": 1},
]  # fmt: skip


def steady(text: str) -> str:
    """Without what differs from run to run: instants, seconds, names that are drawn, the version."""
    text = re.sub(r'"\d{4}-\d\d-\d\dT[^"]*"', '"(an instant)"', text)
    text = re.sub(r'("(?:silent_for|ago|expires_in|held|\w*hours)":)\d[\d.e-]*', r"\1(seconds)", text)
    text = re.sub(r'"(gpu-agent-)?[0-9a-f]{12,}"', r'"\1(hex)"', text)
    return text.replace(f'"{__version__}"', '"(version)"')


def same(name: str, text: str) -> None:
    assert text == (RECORDED / f"{name}.json").read_text().removesuffix("\n"), name


class Asker:
    def __init__(self, controller: ThreadedController) -> None:
        self.url = controller.url

    def __call__(self, who: str, method: str, path: str, body: Any = None, status: int = 200) -> str:
        content = None if body is None and method != "PUT" else json.dumps(body)
        response = httpx.request(
            method, self.url + path, headers={"Authorization": f"token {token(who)}"}, content=content
        )
        assert response.status_code == status, response.text
        return steady(response.text)


@pytest.fixture
def ask(controller: ThreadedController) -> Asker:
    return Asker(controller)


def test_what_is_told_of_gpu_servers(controller: ThreadedController, ask: Asker) -> None:
    agent = Agent(controller.client("gpu-server"))
    same("registered", ask("gpu-server", "PUT", "/api/v1/agents/gpu1", REGISTRATION))
    same("told_in_full", ask("gpu-server", "POST", "/api/v1/agents/gpu1/report", REPORT))
    lease = reserve(controller.client("ada"))
    agent.report([lease])
    agent.report([lease])
    ask("gpu-server", "PUT", "/api/v1/agents/gpu1", {**REGISTRATION, "address": "tcp://8.8.8.8:1"}, 403)
    same("agents", ask("root", "GET", "/api/v1/agents"))
    standing = {"standing": "draining", "drain_by": "2030-01-01T08:00Z", "ends_at": "2031-01-01"}
    same("standing", ask("root", "PUT", "/api/v1/agents/gpu1/standing", standing))
    same("declared_lost", ask("root", "POST", "/api/v1/agents/gpu1/lost"))
    same("audit", ask("root", "GET", "/api/v1/audit?subject=gpu1"))
    same("audit_page", ask("root", "GET", "/api/v1/audit?limit=1&kind=draining"))
    same("usage", ask("ada", "GET", "/api/v1/usage?by=course,user"))
    same("timeline", ask("eve", "GET", "/api/v1/usage/timeline"))


def test_what_is_told_of_gpu_servers_tokens(controller: ThreadedController, ask: Asker) -> None:
    same("made_agent_token", ask("root", "POST", "/api/v1/agent-tokens", {"agent": "gpu1"}, 201))
    same("agent_tokens", ask("root", "GET", "/api/v1/agent-tokens"))
    (token_id,) = (one.id for one in controller.client("root").agent_tokens())
    same("agent_token", ask("root", "DELETE", f"/api/v1/agent-tokens/{token_id}"))


def test_what_the_service_says_of_itself(ask: Asker) -> None:
    same("health", ask("ada", "GET", "/health"))
    same("versions", ask("ada", "GET", "/api"))


def test_sums_and_steps() -> None:
    period = Period.read("2026-11-23", "2026-11-24", "UTC", MONDAY + 100 * HOUR)
    parts = [account(), account(lease_id="f01", user="bob", gpu_class="A100", active_at=None)]
    same("sums", encode(summed(parts, period, ["user", "gpu_class", "week"])).decode())
    same("steps", encode(timeline(parts, period, 6 * HOUR)).decode())


def test_what_is_told_of_a_change() -> None:
    ada = Identity("ada", frozenset({"ml101"}), frozenset())
    event = Event(id=7, at=MONDAY, actor="root", kind="revoked", subject="f00", detail={"reason": "exam"})
    told = []
    for pool, user, course in ((True, "ada", "ml101"), (False, "ada", "ml101"), (False, None, "ml101")):
        message = Topics("ada", frozenset(), pool, ada).message(Told(event, user, course))
        assert message is not None
        told.append(message.decode())
    same("changes", "".join(told))


@pytest.mark.parametrize(
    ("name", "method", "path", "bodies"),
    [
        ("wrong_registrations", "PUT", "/api/v1/agents/gpu1", WRONG_REGISTRATIONS),
        ("wrong_reports", "POST", "/api/v1/agents/gpu1/report", WRONG_REPORTS),
    ],
)
def test_what_is_refused_of_a_gpu_server(
    ask: Asker, name: str, method: str, path: str, bodies: list[Any]
) -> None:
    """Which field, what was read, what is allowed: one line a body."""
    same(name, "\n".join(ask("gpu-server", method, path, body, 400) for body in bodies))
