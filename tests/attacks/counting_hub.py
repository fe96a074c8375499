"""A hub's word on tokens, which counts how often it is asked for."""

from __future__ import annotations

import asyncio
import threading

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from tests.pages.site import whose


class CountingHub:
    """``GET /hub/api/user`` of a hub that knows the tests' tokens, counts, and may be ``away``."""

    def __init__(self) -> None:
        self.asked, self.away = 0, False
        self._started, self._stop = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._run(),), daemon=True)
        self._thread.start()
        assert self._started.wait(60)

    async def _run(self) -> None:
        hub, self._loop = self, asyncio.get_running_loop()

        class User(RequestHandler):
            def get(self) -> None:
                hub.asked += 1
                found = whose(self.request.headers["Authorization"].removeprefix("token "))
                if hub.away:
                    self.set_status(503)
                elif found is None:
                    self.set_status(403)
                else:
                    scopes = [*found.get("scopes", ()), "access:services!service=gpu-lab"]
                    self.finish({"kind": "user", "groups": [], **found, "scopes": scopes})

        server, sockets = (
            HTTPServer(Application([("/hub/api/user", User)], log_function=lambda _: None)),
            bind_sockets(0, "127.0.0.1"),
        )
        server.add_sockets(sockets)
        self.url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}/hub/api"
        self._started.set()
        await self._stop.wait()
        server.stop()
        await server.close_all_connections()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)
