"""What every handler shares: authentication, bounded bodies, and one shape for every error."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tornado.httputil import HTTPServerRequest
from tornado.web import Finish, HTTPError, RequestHandler, stream_request_body

from gpu_kernels.errors import (
    Forbidden,
    InvalidRequest,
    LedgerUnavailable,
    MethodNotAllowed,
    NotFound,
    PoolError,
    Refused,
    TooLarge,
)
from gpu_kernels.pool.service.authentication import Authenticator
from gpu_kernels.pool.service.desk import Desk, stopping
from gpu_kernels.pool.service.identity import Identity
from gpu_kernels.pool.service.metrics import Metrics
from gpu_kernels.pool.service.pace import Pace
from gpu_kernels.pool.service.proofs import Proofs
from gpu_kernels.pool.service.validation import Fields, parse_body
from gpu_kernels.pool.service.waiting import Bells, rung

log = logging.getLogger("gpu_kernels.pool")

MAX_BODY = 1024 * 1024
MAX_LONG_POLL = 30.0


@dataclass(frozen=True)
class Service:
    """What the handlers work with. ``sizes`` are on offer by GPU class, '' standing for every other class."""

    desk: Desk
    bells: Bells
    authenticator: Authenticator
    proofs: Proofs
    metrics: Metrics
    pace: Pace
    max_wait: float = 600.0
    sizes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@stream_request_body
class Handler(RequestHandler):
    """Base of all handlers. Bodies are taken in piece by piece, so that one that is too long is refused
    early.
    """

    identity: Identity
    anonymous = False

    def initialize(self, service: Service) -> None:
        self.service = service
        self._body = bytearray()
        self._too_long = False
        self._bell: asyncio.Event | None = None
        self.gone = False
        """Whether the client has closed the connection: nobody waits for the answer any more."""

    def set_default_headers(self) -> None:
        self.set_header("Server", "gpu-kernels")
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")

    def check_xsrf_cookie(self) -> None:
        """No cookie is ever read, so no other site can act with one."""

    async def prepare(self) -> None:
        length = self.request.headers.get("Content-Length", "0")
        if length.isascii() and length.isdigit() and int(length[:18]) > MAX_BODY:
            raise _too_large()
        if self.service.bells.closed:
            raise stopping()
        if not self.anonymous:
            self.identity = await self.service.authenticator.identify(
                self.request.headers.get("Authorization")
            )

    def data_received(self, chunk: bytes) -> None:
        if len(self._body) + len(chunk) > MAX_BODY:
            self._too_long = True
            self._body.clear()
        if not self._too_long:
            self._body += chunk

    def fields(self) -> Fields:
        """The body's fields."""
        if self._too_long:
            raise _too_large()
        return parse_body(bytes(self._body))

    def require(self, scope: str, *, course: str | None = None, server: str | None = None) -> None:
        """Refuse a token that lacks ``scope``."""
        if not self.identity.may(scope, course=course, server=server):
            where = f" for {course}" if course is not None else ""
            raise Forbidden(
                f"{self.identity.name} may not do this{where}: the token lacks the scope {scope}.",
                details={"scope": scope},
            )

    async def require_trusted(self, *scopes: str) -> None:
        """For what anyone on this machine may see: refuse others without one of ``scopes``."""
        if _is_local(self.request):
            return
        self.identity = await self.service.authenticator.identify(self.request.headers.get("Authorization"))
        if not any(self.identity.may(scope) for scope in scopes):
            raise Forbidden(f"{self.identity.name} may not see this: it needs the scope {scopes[0]}.")

    def seconds_to_wait(self, most: float = MAX_LONG_POLL) -> float:
        """The ``wait`` of a query, at most ``most``."""
        text = self.get_query_argument("wait", "0")
        try:
            seconds = float(text)
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds <= 1e6:
            raise InvalidRequest(f"'wait' must be a number of seconds from 0, not {text[:20]!r}.")
        return min(seconds, most)

    def answer(self, body: Mapping[str, Any], status: int = 200) -> None:
        self.set_status(status)
        self.finish(dict(body))

    def linger_at(self, bell: asyncio.Event) -> None:
        """Note that the answer may take long on purpose; the bell also rings when the client goes away."""
        self._bell = bell

    async def lingered(self, bell: asyncio.Event, seconds: float) -> bool:
        """Wait for the bell; False when the time was over first, or nobody waits for the answer any more.

        Raises ``PoolUnavailable`` when the controller stops.
        """
        if not await rung(bell, seconds) or self.gone:
            return False
        if self.service.bells.closed:
            raise stopping()
        return True

    def on_connection_close(self) -> None:
        self.gone = True
        if self._bell is not None:
            self._bell.set()

    def on_finish(self) -> None:
        if self._bell is None:
            status = str(self.get_status())
            labels = (type(self).__name__, self.request.method or "", status)
            self.service.metrics.requests.labels(*labels).observe(self.request.request_time())

    def log_exception(self, kind: Any, value: Any, trace: Any) -> None:
        """Refusals are no faults of the service; their log text names no secret."""
        if isinstance(value, LedgerUnavailable):
            log.error("%s %s: %s", self.request.method, self.request.path, one_line(value.log_message))
        elif isinstance(value, PoolError):
            text = one_line(value.log_message)
            log.info("%s %s: %s: %s", self.request.method, self.request.path, value.code, text)
        elif not isinstance(value, HTTPError):
            log.error("%s %s failed", self.request.method, self.request.path, exc_info=(kind, value, trace))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Every error leaves in the one shape, whatever raised it."""
        cause = kwargs.get("exc_info", (None, None, None))[1]
        if isinstance(cause, Finish):
            return
        error = cause if isinstance(cause, PoolError) else _from_status(status_code, self.request)
        if isinstance(error, Refused):
            self.service.metrics.refusals.labels(error.code).inc()
        self.set_status(error.status)
        if error.retry_after is not None:
            self.set_header("Retry-After", str(max(1, round(error.retry_after))))
        self.set_header("Content-Type", "application/json; charset=UTF-8")
        self.finish(json.dumps(error.to_json()))


class Nowhere(Handler):
    """Every address that is not one of the API's."""

    anonymous = True

    async def prepare(self) -> None:
        raise HTTPError(404)


def one_line(text: str) -> str:
    """What a client wrote may be in it: nothing of that may look like another line of the log."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _from_status(status: int, request: HTTPServerRequest) -> PoolError:
    if status == 404:
        return NotFound(f"There is nothing at {request.path[:200]}.")
    if status == 405:
        return MethodNotAllowed(f"{request.method} does nothing at {request.path[:200]}.")
    if 400 <= status < 500:
        return InvalidRequest("The request cannot be read.")
    return PoolError(
        "The GPU pool failed to handle this request; its log says why.\n"
        "Try again, or choose 'Python 3' to work without a GPU.",
        retry_after=10.0,
    )


def _too_large() -> TooLarge:
    return TooLarge(f"The request's body is longer than {MAX_BODY} bytes.", details={"limit": MAX_BODY})


def _is_local(request: HTTPServerRequest) -> bool:
    """Whether the request comes from this machine, and not through a proxy that stands on it."""
    if any(name.lower().startswith(("x-forwarded", "forwarded", "x-real")) for name in request.headers):
        return False
    try:
        return ipaddress.ip_address(request.remote_ip or "").is_loopback
    except ValueError:
        return False
