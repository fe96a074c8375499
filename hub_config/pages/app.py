"""`python -m gpu_kernels.hub_config.pages`: serves the lab pages where the hub says."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import secrets
import signal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from jupyterhub.services.auth import HubOAuth
from tornado.netutil import bind_sockets
from tornado.routing import Rule
from tornado.web import Application as WebApplication
from traitlets import Float, TraitError, Unicode, default, validate
from traitlets.config import Application, Config

from gpu_kernels import __version__
from gpu_kernels.client.preload import preload_httpx
from gpu_kernels.hub_config.pages.handlers.base import Lab, Nowhere
from gpu_kernels.hub_config.pages.handlers.routes import ROUTES
from gpu_kernels.hub_config.pages.handlers.signing_in import SigningIn
from gpu_kernels.hub_config.pages.handlers.static import OWN, HubFiles, OwnFiles
from gpu_kernels.hub_config.pages.handlers.too_large import MOST_POSTED, AnnouncesTooMuch, TooLarge
from gpu_kernels.hub_config.pages.handlers.visitors import Visitors
from gpu_kernels.hub_config.pages.texts import Texts
from gpu_kernels.limits.descriptors import raise_soft_limit, shares
from gpu_kernels.limits.front import USUAL, Front, Times
from gpu_kernels.limits.logs import limit_rate
from gpu_kernels.limits.questions import Rates

HERE = Path(__file__).parent


class LabPages(Application):
    """Pages of the GPU lab in JupyterHub: for students, instructors and admins."""

    name = "lab-pages"
    version = __version__
    aliases = {  # noqa: RUF012 - traitlets reads it
        "config": "LabPages.config_file",
        "controller": "LabPages.controller",
        "log-level": "Application.log_level",
    }

    config_file = Unicode(config=True, help="The configuration file.")
    controller = Unicode(
        "http://127.0.0.1:8250",
        config=True,
        help="URL of the pool controller, or of several with commas between, as this service reaches them.",
    )
    time_zone = Unicode(
        "UTC",
        config=True,
        help="The institution's time zone, as the controller's `time_zone`; times are by its clocks.",
    )
    cookie_secret_file = Unicode(
        "lab-pages-cookie",
        config=True,
        help="""File (mode 0600) of the key that cookies are signed with; made at the first start.

        It outlives the process, so that a page that was open while the service restarted goes on.
        """,
    )
    unknown_tokens = Float(
        1200.0,
        min=1.0,
        config=True,
        help="Wrong tokens of one address in a minute about which the hub is asked; of all, twice as many.",
    )
    header_time = Float(
        20.0,
        min=0.1,
        config=True,
        help="Seconds that a connection has for a header, until a visitor is known.",
    )
    body_time = Float(20.0, min=0.1, config=True, help="Seconds that a form has to come.")
    answer_time = Float(
        30.0, min=0.1, config=True, help="Seconds in which a page, or each part of a stream, must be taken."
    )
    translations = Unicode(
        config=True,
        help="Folder of translations: LANGUAGE/LC_MESSAGES/gpu-lab.mo, made from locale/gpu-lab.pot. By "
        "default the package's own.",
    )

    @default("translations")
    def _default_translations(self) -> str:
        return str(HERE / "locale")

    @validate("time_zone")
    def _known_time_zone(self, proposal: Any) -> str:
        try:
            ZoneInfo(proposal["value"])
        except (ZoneInfoNotFoundError, ValueError):
            raise TraitError(f"LabPages.time_zone: there is no time zone {proposal['value']!r}") from None
        return str(proposal["value"])

    def initialize(self, argv: Any = None) -> None:
        self.parse_command_line(argv)
        if self.config_file:
            command_line = Config(self.cli_config)
            self.load_config_file(str(Path(self.config_file).resolve()))
            self.update_config(command_line)

    def start(self) -> None:
        handlers = [*self.log.handlers, *logging.getLogger().handlers]
        limit_rate([*handlers, *filter(None, [logging.lastResort])])
        # What takes a while, and is needed by every visitor, is done before there is one.
        preload_httpx()
        texts = Texts(Path(self.translations))
        texts.prepare()
        gc.collect()
        gc.freeze()  # it would look at all of this again and again, for a tenth of a second
        asyncio.run(self._serve(texts))

    async def _serve(self, texts: Texts) -> None:
        where = urlsplit(os.environ.get("JUPYTERHUB_SERVICE_URL", "http://127.0.0.1:8260"))
        prefix = os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "/")
        visitors = Visitors(Rates(self.unknown_tokens, 2 * self.unknown_tokens))
        lab = Lab(self.controller, texts, ZoneInfo(self.time_zone), prefix, visitors=visitors)
        application = make_application(lab, cookie_secret(Path(self.cookie_secret_file)), HubOAuth.instance())
        server = make_server(application, Times(self.header_time, self.body_time, answer=self.answer_time))
        server.add_sockets(bind_sockets(where.port or 8260, where.hostname or "127.0.0.1"))
        self.log.info("the lab pages listen at %s%s", where.netloc, prefix)
        await told_to_stop()
        server.stop()


def make_server(application: WebApplication, times: Times = USUAL) -> Front:
    """The pages' server. What the proxy says of the browser (its address, https) is believed: nobody else
    comes here.
    """
    return Front(
        application,
        shares=shares(raise_soft_limit()[1]),
        times=times,
        log=logging.getLogger("gpu_kernels.hub_config.pages"),
        xheaders=True,
        max_buffer_size=MOST_POSTED,
        max_body_size=MOST_POSTED,
    )


def make_application(lab: Lab, secret: bytes, auth: HubOAuth) -> WebApplication:
    """The web application. ``auth``: how to ask the hub who somebody is."""
    base = lab.prefix.rstrip("/")
    arguments = {"lab": lab}
    return WebApplication(
        [
            Rule(AnnouncesTooMuch(), TooLarge, arguments),
            (f"{base}/oauth_callback", SigningIn, arguments),
            (f"{base}/static/hub/(.*)", HubFiles, {"path": HubFiles.FOLDER}),
            (f"{base}/static/(.*)", OwnFiles, {"path": str(OWN)}),
            *((base + path, handler, arguments) for path, handler in ROUTES),
        ],
        default_handler_class=Nowhere,
        default_handler_args=arguments,
        cookie_secret=secret,
        hub_auth=auth,
        log_function=quietly,
    )


def cookie_secret(path: Path) -> bytes:
    """The key of the file, made there if there is none; only its owner reads it."""
    if not path.exists():
        draft = path.with_name(f"{path.name}.{os.getpid()}.new")
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))
        draft.rename(path)
    return path.read_bytes()


def quietly(handler: Any) -> None:
    """Nothing a request: what went wrong is logged where it did, and addresses hold people's names."""


async def told_to_stop() -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()
