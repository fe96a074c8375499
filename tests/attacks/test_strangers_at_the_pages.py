"""The lab pages, as a process of their own, beside strangers at their port."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from gpu_kernels.hub_config.pages.handlers import events
from gpu_kernels.limits.front import Times
from gpu_kernels.pool.ledger.state.rows import Event
from gpu_kernels.pool.service.feed import Told
from gpu_kernels.pool.service.waiting import EVENTS
from gpu_kernels.spawner.ports import free_port
from tests.attacks.counting_hub import CountingHub
from tests.attacks.strangers import answer_until_end, connect, idle_connections, is_ended
from tests.pages.site import PREFIX, Site
from tests.pool.controller import Agent, ThreadedController, token, until

MANY = 2000
PAGE = f"GET {PREFIX} HTTP/1.1\r\nHost: x\r\nAuthorization: token {token('ada')}\r\n\r\n".encode()
HALVES = {
    "nothing": b"",
    "half a header": b"POST /services/gpu-lab/ HTTP/1.1\r\nHost: x\r\nContent-Le",
    "half a body": b"POST /services/gpu-lab/ HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
}


class Pages:
    """`python -m gpu_kernels.hub_config.pages`, as the hub would start it."""

    def __init__(self, folder: Path, controller: str, hub: CountingHub, descriptors: tuple[int, int]) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self.log = folder / "log"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTERHUB")}
        environment |= {
            "JUPYTERHUB_SERVICE_NAME": "gpu-lab",
            "JUPYTERHUB_SERVICE_PREFIX": PREFIX,
            "JUPYTERHUB_SERVICE_URL": self.url,
            "JUPYTERHUB_API_URL": hub.url,
            "JUPYTERHUB_API_TOKEN": "the service's own",
            "JUPYTERHUB_CLIENT_ID": "service-gpu-lab",
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *("prlimit", "--nofile={}:{}".format(*descriptors)),
                    *(sys.executable, "-m", "gpu_kernels.hub_config.pages", "--controller", controller),
                    f"--LabPages.cookie_secret_file={folder / 'cookie'}",
                    "--LabPages.unknown_tokens=20",
                ],
                env=environment,
                stdout=log,
                stderr=log,
            )
        until(self._answers, "the pages answer", 100)

    def _answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.visit().is_success
        except httpx.TransportError:
            return False

    def visit(self, of: str = "ada") -> httpx.Response:
        """Ask for the first page by a connection of its own, as the proxy does."""
        return httpx.get(
            self.url + PREFIX, headers={"Authorization": f"token {token(of)}"}, timeout=60, trust_env=False
        )

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(60)


@contextmanager
def pages(folder: Path, descriptors: tuple[int, int]) -> Iterator[tuple[Pages, CountingHub]]:
    hub = CountingHub()
    with ThreadedController(folder / "state") as controller:
        running = Pages(folder, controller.url, hub, descriptors)
        try:
            yield running, hub
        finally:
            running.close()
            hub.close()


@pytest.mark.slow
def test_visitors_are_served_beside_thousands_of_idle_connections(tmp_path: Path) -> None:
    with (
        pages(tmp_path, (1024, 1024)) as (running, _),
        idle_connections(running.url, MANY) as held,
    ):
        assert psutil.Process(running.process.pid).num_fds() < 1024
        assert any(map(is_ended, held)), "the oldest idle ones have given way"
        for name in ("ada", "bob", "ada"):
            assert running.visit(name).status_code == 200
        assert running.log.stat().st_size < 50_000


def test_the_pages_ask_about_unknown_tokens_at_a_bounded_rate(tmp_path: Path) -> None:
    with pages(tmp_path, (1024, 4096)) as (running, hub):
        known, begun = hub.asked, time.monotonic()
        with httpx.Client(timeout=60, trust_env=False) as stranger:
            statuses = {
                stranger.get(
                    running.url + PREFIX, headers={"Authorization": f"token {secrets.token_hex(16)}"}
                ).status_code
                for _ in range(400)
            }
        assert hub.asked - known <= 20 * (1 + (time.monotonic() - begun) / 60) + 1
        assert 429 in statuses
        assert running.visit().status_code == 200, "whoever is known does not wait"
        assert running.log.stat().st_size < 100_000


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Site]:
    """Pages that give half a second for all that strangers may take their time with."""
    with (
        ThreadedController(tmp_path / "state") as controller,
        Site(controller.url, tmp_path, times=Times(0.5, 0.5, 60.0, 0.5)) as site,
    ):
        yield site


@pytest.mark.parametrize("half", HALVES)
def test_who_says_half_of_something_to_the_pages_is_ended_in_time(hasty: Site, half: str) -> None:
    with connect(hasty.url, HALVES[half]) as connection:
        assert b" 200 " not in answer_until_end(connection).partition(b"\r\n")[0]
    until(lambda: len(hasty.front.limit) == 0, "nothing of it is left")


def test_a_reader_of_the_pages_events_that_takes_nothing_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "FLUSH_WITHIN_S", 0.3)
    told = [
        Told(Event(id=10**6 + n, at=0, actor="a", kind="k" * 9000, subject="s"), "ada", None)
        for n in range(4000)
    ]
    ask = PAGE.replace(PREFIX.encode(), f"{PREFIX}events".encode())
    with (
        ThreadedController(tmp_path / "state") as controller,
        Site(controller.url, tmp_path) as site,
        connect(site.url, ask, receive_buffer=2048) as deaf,
    ):
        Agent(controller.client("gpu-server")).register()  # so that there has been an event
        until(lambda: controller.long_polls() == 1, "its stream has begun")
        service = controller.app.service
        controller._loop.call_soon_threadsafe(service.desk.feed.add, told)
        controller._loop.call_soon_threadsafe(service.bells.ring, [EVENTS])
        until(lambda: len(site.front.limit) == 0, "it was ended, unread")
        until(lambda: controller.long_polls() == 0, "and the controller's stream with it")
        deaf.settimeout(60)
        assert len(answer_until_end(deaf)) < 9000 * len(told)


def test_who_asks_for_pages_and_takes_none_is_ended(hasty: Site) -> None:
    with connect(hasty.url, PAGE * 2, receive_buffer=2048) as deaf:
        until(lambda: len(hasty.front.limit) == 1, "it has come")
        deaf.sendall(PAGE * 998)
        until(lambda: len(hasty.front.limit) == 0, "it was ended, unread")
