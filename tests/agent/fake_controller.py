"""A controller for one agent, over HTTP, that does as a test tells it: also what a real one never should."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from gpu_kernels.spawner.ports import port_for_server

GPU = "gpu of the agent"
"""In a grant: the agent's first GPU, whatever its UUID is."""


@dataclass(frozen=True)
class Granted:
    """What the owner of a lease knows of it."""

    id: str
    epoch: int
    secret: bytes


@dataclass
class FakeController:
    """``async with`` starts it; ``grant`` and ``end`` change the set that the agent is told."""

    reports: list[dict[str, Any]] = field(default_factory=list)
    registrations: list[dict[str, Any]] = field(default_factory=list)
    refuse_with: tuple[int, str] | None = None
    replies: list[dict[str, Any]] = field(default_factory=list)
    """Replies to give instead of the true one, first to last."""
    lingers: bool = True
    """Whether a report with ``wait`` is held until something changes."""
    instead_of_lingering: Callable[[float], None] | None = None
    """Called with the ``wait`` of such a report, which is then answered at once."""

    def __post_init__(self) -> None:
        self.target_seq = 0
        self.incarnation = "ledger-1"
        self.leases: dict[str, dict[str, Any]] = {}
        self.came_with: dict[str, int] = {}
        self.changed = asyncio.Condition()
        self._server: HTTPServer | None = None
        self.port = port_for_server()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        await self.come_back()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.go_away()

    async def come_back(self) -> None:
        (listener,) = bind_sockets(self.port, "127.0.0.1")
        routes = [(r"/api/v1/agents/([^/]+)", Registration), (r"/api/v1/agents/([^/]+)/report", Report)]
        self._server = HTTPServer(Application(routes, controller=self))
        self._server.add_sockets([listener])

    async def go_away(self) -> None:
        """Refuse connections and drop those that are open, as a killed process does."""
        if self._server is not None:
            server, self._server = self._server, None
            server.stop()
            async with self.changed:
                self.changed.notify_all()
            await server.close_all_connections()

    async def grant(
        self,
        lease_id: str,
        epoch: int = 1,
        *,
        mib: int = 655,
        ttl: float = 60.0,
        thousandths: int = 20,
        count: int = 1,
        quietly: bool = False,
    ) -> Granted:
        """Put a lease into the set; ``quietly``: without a word to a report that is held."""
        secret = hashlib.sha256(f"{lease_id} {epoch}".encode()).digest()
        self.leases[lease_id] = {
            "id": lease_id,
            "epoch": epoch,
            "secret_sha256": hashlib.sha256(secret).hexdigest(),
            "expires_in": ttl,
            "slices": [
                {"gpu": GPU, "index": i, "mib": mib, "thousandths": thousandths} for i in range(count)
            ],
        }
        self.came_with[lease_id] = self.target_seq + (not quietly)
        if not quietly:
            await self._bump()
        return Granted(lease_id, epoch, secret)

    async def end(self, lease_id: str) -> int:
        """Take a lease out of the set; the number of that change."""
        del self.leases[lease_id]
        await self._bump()
        return self.target_seq

    async def _bump(self) -> None:
        async with self.changed:
            self.target_seq += 1
            self.changed.notify_all()

    def true_reply(self, report: dict[str, Any]) -> dict[str, Any]:
        """The full set, or what is new to an agent that counts by this ledger."""
        uuids = [gpu["uuid"] for gpu in self.registrations[-1]["gpus"]]
        leases = json.loads(json.dumps(list(self.leases.values())))
        for lease in leases:
            for part in lease["slices"]:
                part["gpu"] = uuids[part["index"]] if part["gpu"] == GPU else part["gpu"]
        answer = {"target_seq": self.target_seq, "incarnation": self.incarnation}
        if report["full"] or report["incarnation"] != self.incarnation:
            return {**answer, "leases": leases}
        new = [lease for lease in leases if self.came_with[lease["id"]] > report["target_seq"]]
        others = [[lease["id"], lease["epoch"], lease["expires_in"]] for lease in leases if lease not in new]
        return {**answer, "changes": new, "lives": others}

    async def report_where(
        self, holds: Callable[[dict[str, Any]], bool], within: float = 60.0
    ) -> dict[str, Any]:
        """The first report, old or new, for which ``holds``."""
        async with asyncio.timeout(within), self.changed:
            while not (found := [report for report in self.reports if holds(report)]):
                await self.changed.wait()
        return found[0]

    async def until(self, holds: Callable[[], bool], within: float = 60.0) -> None:
        """Wait until this holds after some request or change."""
        async with asyncio.timeout(within), self.changed:
            await self.changed.wait_for(holds)

    async def next_reports(self, count: int = 1) -> None:
        """Wait for so many more reports."""
        wanted = len(self.reports) + count
        await self.until(lambda: len(self.reports) >= wanted)

    async def carried_out(self, seq: int | None = None) -> None:
        """Wait until the agent has said that it has carried out this change (default: the newest)."""
        wanted = self.target_seq if seq is None else seq
        await self.report_where(lambda report: report["target_seq"] >= wanted)


class Handler(RequestHandler):
    @property
    def controller(self) -> FakeController:
        return self.application.settings["controller"]

    def refused(self) -> bool:
        if self.controller.refuse_with is None:
            return False
        status, code = self.controller.refuse_with
        self.set_status(status)
        self.finish({"error": {"code": code, "message": f"told to say {code}", "retry_after": None}})
        return True

    async def note(self, where: list[dict[str, Any]]) -> dict[str, Any]:
        body = json.loads(self.request.body)
        async with self.controller.changed:
            where.append(body)
            self.controller.changed.notify_all()
        return body


class Registration(Handler):
    async def put(self, name: str) -> None:
        await self.note(self.controller.registrations)
        if not self.refused():
            self.finish({"name": name, "target_seq": self.controller.target_seq, "report_within": 10.0})


class Report(Handler):
    async def post(self, name: str) -> None:
        controller = self.controller
        body = await self.note(controller.reports)
        if self.refused():
            return
        if controller.replies:
            self.finish(controller.replies.pop(0))
            return
        if body["wait"] and controller.instead_of_lingering is not None:
            controller.instead_of_lingering(body["wait"])
        elif body["wait"] and controller.lingers:
            try:
                async with asyncio.timeout(body["wait"]), controller.changed:
                    await controller.changed.wait_for(
                        lambda: body["target_seq"] != controller.target_seq or controller._server is None
                    )
            except TimeoutError:
                pass
        self.finish(controller.true_reply(body))
