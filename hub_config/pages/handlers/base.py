"""What every page has in common: who looks, how the controller is asked for them, and what is told when that
fails.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from jupyterhub.services.auth import HubOAuthenticated
from tornado.web import Finish, HTTPError, RequestHandler

from gpu_kernels.client import AsyncPoolClient
from gpu_kernels.errors import PoolError, PoolUnavailable, RateLimited, TooMany, Unauthenticated
from gpu_kernels.hub_config.pages.handlers.addresses import Addresses
from gpu_kernels.hub_config.pages.handlers.reasons import Reasons
from gpu_kernels.hub_config.pages.handlers.visitors import Visitors
from gpu_kernels.hub_config.pages.texts import Language, Texts, noted
from gpu_kernels.hub_config.pages.wording import Wording

log = logging.getLogger("gpu_kernels.hub_config.pages")
_ = noted

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' {hub} data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""No script and no style but those of files of this service, and the hub's logo."""
AWAY = _("The GPU pool does not answer. Kernels that run are not affected. Try again in a minute.")
TIMEOUT_S = 10.0
MOST_FRAGMENTS = 20


@dataclass(frozen=True)
class Lab:
    """What the pages are about, and where they are."""

    controller: str
    texts: Texts
    zone: ZoneInfo
    prefix: str
    reasons: Reasons = field(default_factory=Reasons)
    visitors: Visitors = field(default_factory=Visitors)


class PageHandler(HubOAuthenticated, RequestHandler):  # type: ignore[misc]
    """Base of all pages. ``self.pool`` asks the controller with the visitor's own token."""

    fragments: ClassVar[frozenset[str]] = frozenset()
    """Parts that can be asked for alone: templates in the folder that is called like the page."""

    def initialize(self, lab: Lab) -> None:
        self.lab = lab
        self.hub_auth = self.settings["hub_auth"]

    def set_default_headers(self) -> None:
        hub = self.settings["hub_auth"].hub_host
        self.set_header("Content-Security-Policy", POLICY.format(hub=hub))
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "same-origin")
        self.set_header("Cache-Control", "no-store")
        self.clear_header("Server")

    async def prepare(self) -> None:
        """Finds out who asks. Who has not signed in is sent to, but not from a form: that would lose it."""
        await self.lab.visitors.find(self, self.hub_auth)
        if self.current_user is not None:
            return
        if self.request.method == "GET" and not self.wants_parts:
            self.redirect(self.get_login_url())
        else:
            self.show_error(403, "signed_out")
        raise Finish

    @property
    def wants_parts(self) -> bool:
        """Whether a script asks, for parts of a page that is open."""
        return "fragment" in self.request.query_arguments

    def shows(self, fragment: str) -> bool:
        """Whether this answer has that part."""
        return not self.wants_parts or fragment in self.get_query_arguments("fragment")

    @cached_property
    def token(self) -> str:
        return str(self.hub_auth.get_token(self))

    @cached_property
    def pool(self) -> AsyncPoolClient:
        return AsyncPoolClient(self.lab.controller, self.token, TIMEOUT_S)

    def on_finish(self) -> None:
        if "pool" in self.__dict__:
            asyncio.ensure_future(self.pool.aclose())  # noqa: RUF006 - it ends by itself, whoever looks

    def may(self, scope: str) -> bool:
        """Whether a link is worth showing; the controller decides what it leads to."""
        held = (self.current_user or {}).get("scopes") or ()
        return any(str(name).partition("!")[0] == scope for name in held)

    # --- what is shown

    @cached_property
    def language(self) -> Language:
        return self.lab.texts.language(self.request.headers.get("Accept-Language", "")[:400])

    @cached_property
    def say(self) -> Wording:
        return Wording(self.language, self.lab.zone)

    def text(self, message: str, **values: object) -> str:
        return self.say.text(message, **values)

    @cached_property
    def addresses(self) -> Addresses:
        return Addresses(self.lab.prefix, self.hub_auth.hub_host, self.hub_auth.hub_prefix)

    def common(self) -> dict[str, Any]:
        user = self.current_user
        return {
            "say": self.say,
            "to": self.addresses,
            "lang": self.language.name,
            "user": user["name"] if user else None,
            "sees_pool": user is not None and self.may("custom:gpu:admin:pool"),
            "xsrf": (self.xsrf_token or b"").decode("ascii") if user else "",
            "path": self.request.path,
        }

    def show(self, template: str, *, status: int = 200, **values: Any) -> None:
        """Answer with the page, or with those of its fragments that a script asks for."""
        self.set_status(status)
        context = self.common() | values
        if not self.wants_parts:
            self.finish(self.language.templates.get_template(template).render(context))
            return
        folder = template.removesuffix(".html")
        parts = {
            name: self.language.templates.get_template(f"{folder}/{name}.html").render(context)
            for name in self.get_query_arguments("fragment")[:MOST_FRAGMENTS]
            if name in self.fragments
        }
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(parts))

    # --- what goes wrong

    def show_error(self, status: int, kind: str, message: str = "", retry_after: float | None = None) -> None:
        self.set_status(status)
        if retry_after is not None:
            self.set_header("Retry-After", str(max(1, round(retry_after))))
        if self.wants_parts:
            self.set_header("Content-Type", "application/json")
            self.finish(json.dumps({"error": {"kind": kind, "message": message}}))
            return
        page = self.language.templates.get_template("error.html")
        values = {"status": status, "kind": kind, "message": message, "retry_after": retry_after}
        self.finish(page.render(self.common() | values))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs.get("exc_info", (None, None, None))[1]
        try:
            if isinstance(error, PoolError):
                self._show_refusal(error)
            elif isinstance(error, HTTPError) and status_code in (500, 502, 503):
                # The library asks the hub who somebody is, and says so when it does not answer.
                self.show_error(503, "hub_away", retry_after=10)
            else:
                kind = "not_found" if status_code == 404 else "refused" if status_code < 500 else "fault"
                self.show_error(status_code, kind)
        except Exception:
            log.exception("the page that says what went wrong cannot be made")
            self.set_header("Content-Type", "text/plain; charset=UTF-8")
            self.finish("The GPU lab's pages have a fault; their log says more.\n")

    def _show_refusal(self, error: PoolError) -> None:
        if isinstance(error, Unauthenticated):
            self.hub_auth.clear_cookie(self)
            self.show_error(403, "signed_out", error.message)
            return
        if isinstance(error, (TooMany, RateLimited)) and self.wants_parts:
            self.show_error(error.status, "too_many", error.message, error.retry_after)
            return
        away = error.status == 503
        # What the client says of a controller that does not answer is written for notebooks.
        message = self.text(AWAY) if type(error) is PoolUnavailable else error.message
        self.show_error(error.status, "pool_away" if away else "refused", message, error.retry_after)

    def log_exception(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, PoolError):
            if error.status >= 500:
                log.warning("%s: %s", self.request.path, error.log_message)
            return
        super().log_exception(kind, error, trace)


class Nowhere(PageHandler):
    """Every address that is none."""

    async def get(self, *parts: str) -> None:
        raise HTTPError(404)

    post = get
