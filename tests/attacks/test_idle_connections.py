"""Connections that say nothing, half of something, or take nothing: the pool goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from gpu_kernels.errors import RateLimited
from tests.attacks.strangers import answer_until_end, connect, idle_connections, is_ended
from tests.pool.controller import (
    Agent,
    ControllerProcess,
    ThreadedController,
    error_of,
    reserve,
    token,
    until,
)

MANY = 2000
HALVES = {
    "nothing": b"",
    "half a header": b"POST /api/v1/leases HTTP/1.1\r\nHost: x\r\nContent-Le",
    "half a body of nobody's": b"POST /api/v1/nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
    "half a body with a token": (
        "POST /api/v1/leases HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
        f"Authorization: token {token('ada')}\r\n\r\n{{"
    ).encode(),
}


@pytest.mark.slow
@pytest.mark.parametrize("hard", [1024, 4096])
def test_renewals_and_reports_get_in_beside_thousands_of_idle_connections(tmp_path: Path, hard: int) -> None:
    with ControllerProcess(tmp_path / "state", descriptors=(1024, hard), lease_ttl=30) as controller:
        agent = Agent(controller.client("gpu-server"))
        agent.register()
        lease = reserve(controller.client("ada"))
        agent.carry_out()
        with idle_connections(controller.url, MANY) as held:
            assert controller.process is not None
            assert psutil.Process(controller.process.pid).num_fds() < hard
            assert any(map(is_ended, held)), "the oldest idle ones have given way"
            for _ in range(3):  # each by a connection of its own, which has to get in
                renewed = controller.client("ada").renew([(lease.id, lease.epoch)])
                assert list(renewed.left) == [lease.id]
                agent.client = controller.client("gpu-server")
                agent.report([lease])
            assert controller.client("bob").pool()
        assert controller.client("ada").get(lease.id).in_force
        assert (controller.state / "log").stat().st_size < 50_000


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[ThreadedController]:
    """A controller that gives half a second for all that strangers may take their time with."""
    times = {"header_time": 0.5, "body_time": 0.5, "answer_time": 0.5}
    with ThreadedController(tmp_path / "state", **times) as controller:
        yield controller


@pytest.mark.parametrize("half", HALVES)
def test_who_says_half_of_something_is_ended_in_time(hasty: ThreadedController, half: str) -> None:
    with connect(hasty.url, HALVES[half]) as connection:
        assert b"200" not in answer_until_end(connection).partition(b"\r\n")[0]
    until(lambda: len(hasty.app.front.limit) == 0, "nothing of it is left")


def test_a_known_connection_may_be_idle_for_longer_than_a_strangers(hasty: ThreadedController) -> None:
    headers = {"Authorization": f"token {token('ada')}"}
    with httpx.Client(base_url=hasty.url, headers=headers, timeout=60, trust_env=False) as ada:
        assert ada.get("/api/v1/leases").status_code == 200
        with connect(hasty.url) as stranger:
            answer_until_end(stranger)
        until(lambda: len(hasty.app.front.limit) == 1, "the stranger has gone")
        assert ada.get("/api/v1/leases").status_code == 200


def test_who_asks_and_takes_no_answer_is_ended(hasty: ThreadedController) -> None:
    ask = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
    with connect(hasty.url, ask * 200, receive_buffer=2048) as deaf:
        until(lambda: len(hasty.app.front.limit) == 1, "it has come")
        until(lambda: len(hasty.app.front.limit) == 0, "it was ended, unread")
        assert len(answer_until_end(deaf)) < 200 * len(httpx.get(f"{hasty.url}/api/v1/openapi.json").content)


def test_all_who_take_nothing_hold_a_bounded_number_of_bytes(tmp_path: Path) -> None:
    with ThreadedController(tmp_path / "state") as controller:
        front = controller.app.front
        front._most_unsent = 1_000_000
        size = len(httpx.get(f"{controller.url}/api/v1/openapi.json").content)
        ask = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
        with idle_connections(controller.url, 2 * front._most_unsent // size, ask * 60) as deaf:
            until(lambda: any(map(is_ended, deaf)) or len(front.limit) < len(deaf), "one has given way")
            assert front._unsent <= front._most_unsent
            assert httpx.get(f"{controller.url}/api/v1/openapi.json").status_code == 200


def test_one_user_cannot_have_all_connections_and_still_renews(tmp_path: Path) -> None:
    with ThreadedController(tmp_path / "state", connections_of_a_user=4) as controller:
        Agent(controller.client("gpu-server")).register()
        lease = reserve(controller.client("ada"))
        queued = reserve(controller.client("ada"), "all.ipynb", "0.1 V100", wait=60, wait_for_course=True)
        assert queued.state == "queued"
        waiting = [
            threading.Thread(target=controller.client("ada").get, args=(queued.id,), kwargs={"wait": 30.0})
            for _ in range(4)
        ]
        for thread in waiting:
            thread.start()
        until(lambda: controller.long_polls() == 4, "all of them wait")
        headers = {"Authorization": f"token {token('ada')}"}
        refused = httpx.get(f"{controller.url}/api/v1/leases", headers=headers)
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "5")
        assert error_of(refused)["code"] == RateLimited.code
        assert controller.client("ada").renew([(lease.id, lease.epoch)]).renewed
        assert controller.client("bob").list() == []
        controller.client("ada").release(queued.id, queued.holder)
        for thread in waiting:
            thread.join(60)


def test_ones_own_idle_connections_give_way_to_ones_newest(tmp_path: Path) -> None:
    with ThreadedController(tmp_path / "state", connections_of_a_user=3) as controller:
        clients = [controller.client("ada") for _ in range(6)]
        for client in clients:
            assert client.list() == []
        until(lambda: len(controller.app.front.limit) == 3, "the older ones have gone")
        assert clients[0].list() == [], "and come again"
