"""Reading the hub's groups: every page, and nothing of an answer that is not whole."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from gpu_kernels.errors import AuthenticationUnavailable
from gpu_kernels.pool.ledger import Ledger
from gpu_kernels.pool.ledger.commands.group_properties import Properties
from gpu_kernels.pool.ledger.stores.memory import MemoryStore
from gpu_kernels.pool.service import groups
from gpu_kernels.pool.service.desk import Desk
from gpu_kernels.pool.service.groups import GroupReader, HubGroups, HubUnreadable
from gpu_kernels.pool.service.waiting import Bells

GROUPS = [{"name": f"g{n}", "properties": {"gpu_limit": f"V100: {n}"}, "users": []} for n in range(450)]


class WholeHub(RequestHandler):
    """Answers as JupyterHub does: pages of at most ``limit``."""

    def get(self) -> None:
        assert self.request.headers["Authorization"] == "token secret"
        assert "pagination" in self.request.headers["Accept"]
        offset, limit = int(self.get_argument("offset")), int(self.get_argument("limit"))
        following = offset + limit
        more = {"offset": following, "limit": limit, "url": "..."} if following < len(GROUPS) else None
        items = self.items(GROUPS[offset:following])
        self.finish({"items": items, "_pagination": {"offset": offset, "next": more}})

    def items(self, page: list[dict[str, Any]]) -> list[Any]:
        return page


class HubWithoutProperties(WholeHub):
    """The token may list groups and not read them."""

    def items(self, page: list[dict[str, Any]]) -> list[Any]:
        return [{"name": group["name"]} for group in page]


class HubOfStrangers(WholeHub):
    def items(self, page: list[dict[str, Any]]) -> list[Any]:
        return ["no group"]


class HubThatGoesRound(WholeHub):
    def get(self) -> None:
        self.finish({"items": [], "_pagination": {"next": {"offset": 0}}})


class HubThatForbids(RequestHandler):
    def get(self) -> None:
        self.send_error(403)


class HubThatFails(RequestHandler):
    def get(self) -> None:
        self.send_error(503)


class HubThatTalksOnAndOn(RequestHandler):
    def get(self) -> None:
        self.finish(json.dumps({"items": [], "x": "y" * 5000}))


class HubThatSpeaksNoJson(RequestHandler):
    def get(self) -> None:
        self.finish("<html>")


@asynccontextmanager
async def hub(handler: type[RequestHandler]) -> AsyncIterator[HubGroups]:
    sockets = bind_sockets(0, "127.0.0.1")
    server = HTTPServer(Application([("/hub/api/groups", handler)], log_function=lambda _: None))
    server.add_sockets(sockets)
    try:
        yield HubGroups(f"http://127.0.0.1:{sockets[0].getsockname()[1]}/hub/api", "secret")
    finally:
        server.stop()
        await server.close_all_connections()


async def test_all_pages_are_read() -> None:
    async with hub(WholeHub) as source:
        told = await source.read()
    assert len(told) == 450
    assert told["g449"] == {"gpu_limit": "V100: 449"}


@pytest.mark.parametrize(
    ("handler", "why"),
    [
        (HubWithoutProperties, "lacks the scope read:groups"),
        (HubOfStrangers, "otherwise than a hub does"),
        (HubThatGoesRound, "its pages do not go on"),
        (HubThatForbids, "lacks the scopes list:groups and read:groups"),
        (HubThatFails, "it answers 503"),
        (HubThatTalksOnAndOn, "is longer than 4096 bytes"),
        (HubThatSpeaksNoJson, "JSONDecodeError"),
    ],
)
async def test_an_answer_that_is_not_whole_is_none(
    handler: type[RequestHandler], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if handler is HubThatTalksOnAndOn:
        monkeypatch.setattr(groups, "MOST_BYTES", 4096)
    async with hub(handler) as source:
        with pytest.raises(HubUnreadable, match=why) as caught:
            await source.read()
    assert "secret" not in str(caught.value)


async def test_a_hub_that_is_away() -> None:
    async with hub(WholeHub) as source:
        pass
    with pytest.raises(HubUnreadable, match="ConnectError"):
        await source.read()


class FakeHub:
    """A source that a test edits, or takes away."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[str, object]] = {}
        self.away = False

    async def read(self) -> Mapping[str, Properties]:
        if self.away:
            raise HubUnreadable("it answers 503")
        return dict(self.groups)


@pytest.fixture
def desk() -> AsyncIterator[Desk]:
    ledger = Ledger(MemoryStore(lambda: 1_800_000_000_000))
    ledger.start({"ml101": {"V100": 100}})
    desk = Desk(ledger, Bells())
    yield desk  # type: ignore[misc]
    desk.close()


async def test_while_the_hub_is_away_what_was_read_last_stays_and_is_said(desk: Desk) -> None:
    source, now = FakeHub(), [100.0]
    reader = GroupReader(source, desk, 30.0, monotonic=lambda: now[0])
    assert (reader.state.age, reader.state.fault) == (None, None)
    source.groups = {"ds200": {"gpu_limit": "V100: 0.5", "gpu_idle": "soon"}}
    assert await reader.once() == 1
    now[0] += 40
    source.away = True
    with pytest.raises(AuthenticationUnavailable, match="what it told last stays in force"):
        await reader.once()
    assert (reader.state.age, reader.state.fault, reader.state.faulty) == (40.0, "it answers 503", 1)
    limit = await desk.read(lambda tx: tx.book.quotas["ds200", "V100"].hard_limit)
    assert limit == 500
    source.away, source.groups = False, {}
    assert await reader.once() == 0
    assert (reader.state.age, reader.state.fault) == (0.0, None)
    assert await desk.read(lambda tx: ("ds200", "V100") in tx.book.quotas) is False
