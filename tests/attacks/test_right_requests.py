"""One user's right requests, many at the same time: nobody else waits for all of them."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from gpu_kernels.limits.turns import EACH_TURN
from gpu_kernels.pool.service.base import Handler
from tests.attacks.strangers import connect
from tests.pool.controller import Agent, ThreadedController, reserve, token

MANY = 90
"""Requests of one user at the same time: fewer than one may have at the ledger, so that none is refused."""


def asking(name: str, method: str = "GET", path: str = "/leases", body: str = "") -> bytes:
    lines = [f"{method} /api/v1{path} HTTP/1.1", "Host: pool", f"Authorization: token {token(name)}"]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", body]).encode()


def answered(connection: socket.socket) -> bytes:
    """The status line of the next answer, which has a length and is read to its end."""
    said = b""
    while b"\r\n\r\n" not in said:
        said += connection.recv(65536)
    head, _, body = said.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return head.partition(b"\r\n")[0]


@contextmanager
def standing_still(controller: ThreadedController) -> Iterator[None]:
    """The controller's loop does nothing: what comes meanwhile is there for one turn of it."""
    still, go_on = threading.Event(), threading.Event()

    def stand() -> None:
        still.set()
        go_on.wait(60)

    controller._loop.call_soon_threadsafe(stand)
    assert still.wait(60)
    try:
        yield
    finally:
        go_on.set()


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[ThreadedController]:
    with ThreadedController(tmp_path / "state") as controller:
        Agent(controller.client("gpu-server")).register()
        yield controller


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who was answered, in order."""
    names: list[str] = []
    finish = Handler.on_finish

    def finished(self: Handler) -> None:
        names.append(self.identity.name)
        finish(self)

    monkeypatch.setattr(Handler, "on_finish", finished)
    return names


@pytest.mark.parametrize("flood", ["lists", "renewals"])
def test_a_users_flood_of_right_requests_holds_nobody_up(
    controller: ThreadedController, order: list[str], flood: str
) -> None:
    lease = reserve(controller.client("ada"))
    renewal = json.dumps({"leases": [{"id": lease.id, "epoch": lease.epoch}]})
    renew = "POST", "/leases/renew", renewal
    crowds = asking("eve", *renew) if flood == "renewals" else asking("eve")
    with ExitStack() as stack:
        crowd = [stack.enter_context(connect(controller.url, asking("eve"))) for _ in range(MANY)]
        ada, bob = (stack.enter_context(connect(controller.url, asking(name))) for name in ("ada", "bob"))
        everybody = [*crowd, ada, bob]
        for connection in everybody:
            assert answered(connection).endswith(b"200 OK")
        with standing_still(controller):
            before = len(order)
            for connection in crowd:
                connection.sendall(crowds)
            ada.sendall(asking("ada", *renew))
            bob.sendall(asking("bob"))
        for connection in everybody:
            assert answered(connection).endswith(b"200 OK")
    assert order.index("ada", before) - before <= 4 * EACH_TURN
    assert order.index("bob", before) - before <= 4 * EACH_TURN
