"""The lab pages before a real controller, in one process. Only the hub's word on who somebody is comes from
the same table of tokens as the controller's.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from datetime import date, timedelta
from html import unescape
from pathlib import Path
from typing import Any, Self
from zoneinfo import ZoneInfo

import httpx
from jupyterhub.services.auth import HubOAuth
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler, StaticFileHandler, create_signed_value

from gpu_kernels.hub_config.pages import app
from gpu_kernels.hub_config.pages.handlers.base import Lab
from gpu_kernels.hub_config.pages.handlers.static import HubFiles
from gpu_kernels.hub_config.pages.texts import Texts
from gpu_kernels.limits.front import USUAL, Times
from tests.pool.controller import TOKENS, token

SECRET = b"a secret of the tests, 32 bytes."
PREFIX = "/services/gpu-lab/"
NAVIGATE = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "same-origin"}
FETCH = {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"}


class HubUser(RequestHandler):
    """``GET /hub/api/user``: the hub says whose token it is. ``away``: it answers nothing of use."""

    away = False

    def get(self) -> None:
        if HubUser.away:
            self.set_status(503)
            return
        found = self.settings["whose"](self.request.headers.get("Authorization", "").removeprefix("token "))
        if found is None:
            self.set_status(403)
            return
        scopes = [*found.get("scopes", ()), "access:services!service=gpu-lab"]
        groups = found.get("groups", [])
        self.finish(
            {"kind": "user", "name": found["name"], "groups": groups, "scopes": scopes, "admin": False}
        )


class HubLogo(StaticFileHandler):
    """``GET /hub/logo``"""

    def parse_url_path(self, url_path: str) -> str:
        return "jupyterhub-80.png"


def whose(of: str) -> dict[str, Any] | None:
    """The owner of a token, as the controllers of the tests know them."""
    name = of.removeprefix("token-of-")
    return {"name": name, **TOKENS[name]} if name in TOKENS else None


class Site:
    """The pages, listening on a free port. Use it as a context manager."""

    def __init__(
        self,
        controller: str,
        folder: Path,
        whose: Callable[[str], dict[str, Any] | None] = whose,
        zone: str = "UTC",
        times: Times = USUAL,
    ) -> None:
        self.lab = Lab(controller, Texts(folder), ZoneInfo(zone), PREFIX)
        self._whose, self._times = whose, times
        self._started = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._run(),), daemon=True)

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        hub = HTTPServer(Application([("/hub/api/user", HubUser)], whose=self._whose))
        hub_sockets = bind_sockets(0, "127.0.0.1")
        hub.add_sockets(hub_sockets)
        auth = HubOAuth(
            api_url=f"http://127.0.0.1:{hub_sockets[0].getsockname()[1]}/hub/api",
            api_token="the service's own",
            base_url=PREFIX,
            hub_host="",
            oauth_client_id="service-gpu-lab",
            access_scopes={"access:services!service=gpu-lab"},
        )
        self.forget = auth.cache.clear
        """What the hub said of visitors, which is believed for minutes otherwise."""
        self.cookie_name = auth.cookie_name
        application = app.make_application(self.lab, SECRET, auth)
        application.add_handlers(".*", [(r"/hub/(logo)", HubLogo, {"path": f"{HubFiles.FOLDER}/images"})])
        self.front = server = app.make_server(application, self._times)
        sockets = bind_sockets(0, "127.0.0.1")
        server.add_sockets(sockets)
        self.url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
        self._started.set()
        await self._stop.wait()
        server.stop()
        hub.stop()
        await server.close_all_connections()
        await hub.close_all_connections()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(60), "the pages did not start"
        return self

    def __exit__(self, *exception: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)
        assert not self._thread.is_alive()

    def visitor(self, name: str) -> Visitor:
        return Visitor(self, token(name))


class Visitor:
    """Somebody who has signed in, at a browser."""

    def __init__(self, site: Site, token: str) -> None:
        signed = create_signed_value(SECRET, site.cookie_name, token).decode()
        self._xsrf = ""
        self.http = httpx.Client(
            base_url=site.url, cookies={site.cookie_name: signed}, timeout=60, trust_env=False
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.http.close()

    def see(self, page: str, **options: Any) -> httpx.Response:
        return self.http.get(PREFIX + page, headers=NAVIGATE, **options)

    def parts(self, page: str, *names: str) -> dict[str, str]:
        """Fragments, as the script asks for them."""
        headers = {**FETCH, "X-XSRFToken": self.xsrf()}
        answer = self.http.get(PREFIX + page, params=[("fragment", name) for name in names], headers=headers)
        parts: dict[str, str] = answer.raise_for_status().json()
        return parts

    def xsrf(self) -> str:
        """The token that its pages have, read once."""
        if not self._xsrf:
            found = re.search(r'data-xsrf="([^"]*)"', self.see("no/such/page").text)
            assert found is not None
            self._xsrf = found[1]
        return self._xsrf

    def post(self, page: str, **fields: Any) -> httpx.Response:
        """Send a form of the page. Field names may have points."""
        return self.http.post(PREFIX + page, data={"_xsrf": self.xsrf(), **fields}, headers=NAVIGATE)


def plain(page: httpx.Response) -> str:
    """A page's text, without tags."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page.text)).split())


def in_days(days: int) -> str:
    return (date.today() + timedelta(days=days)).isoformat()
