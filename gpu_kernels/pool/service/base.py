"""What every handler shares: authentication, bounded bodies, and one shape for every error."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, urlencode

from msgspec.json import encode
from tornado.httputil import HTTPServerRequest
from tornado.web import Finish, HTTPError, RequestHandler, stream_request_body

from gpu_kernels.errors import (
    Forbidden,
    InvalidRequest,
    LedgerUnavailable,
    MethodNotAllowed,
    NotFound,
    PoolError,
    RateLimited,
    Refused,
    UnknownVersion,
)
from gpu_kernels.limits.connections import Full
from gpu_kernels.limits.front import authenticating, prove
from gpu_kernels.limits.turns import Turns
from gpu_kernels.pool.policy.addresses import Addresses
from gpu_kernels.pool.service.authentication import Authenticator
from gpu_kernels.pool.service.desk import WHO, Desk, stopping
from gpu_kernels.pool.service.groups import GroupReader
from gpu_kernels.pool.service.history import History
from gpu_kernels.pool.service.identity import AGENT, Identity
from gpu_kernels.pool.service.metrics import Metrics
from gpu_kernels.pool.service.operations import operation_of, operations_of
from gpu_kernels.pool.service.pace import Pace
from gpu_kernels.pool.service.parsing import too_large
from gpu_kernels.pool.service.proofs import Proofs
from gpu_kernels.pool.service.waiting import Bells, rung
from gpu_kernels.resources.base import MAX_BODY, Resource

log = logging.getLogger("gpu_kernels.pool")

MAX_LONG_POLL = 30.0
VERSIONS = ("v1",)
"""Of the API, oldest first."""


@dataclass(frozen=True)
class Service:
    """What the handlers work with. ``sizes`` are on offer by GPU class, '' standing for every other class.

    ``turns``: of requests, by who asks; ``vital_turns``: of those that keep leases alive or end them, which
    wait for no others.

    ``pace`` limits requests for leases, ``reads`` those that go through the history, ``group_reads`` those to
    read the hub's groups. ``addresses``: where GPU servers may be. ``groups``: reads the hub's groups, where
    there is a hub. ``local_trusted``: whether this machine's programs need no token for health and metrics.
    ``check_answers``: compare each answer with its schema, for tests; one that differs is a fault.
    """

    desk: Desk
    history: History
    bells: Bells
    authenticator: Authenticator
    proofs: Proofs
    metrics: Metrics
    pace: Pace
    reads: Pace
    group_reads: Pace
    addresses: Addresses
    max_wait: float = 600.0
    sizes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    check_answers: bool = False
    local_trusted: bool = False
    groups: GroupReader | None = None
    turns: Turns = field(default_factory=Turns)
    vital_turns: Turns = field(default_factory=Turns)


@stream_request_body
class Handler(RequestHandler):
    """Base of all handlers. Bodies are taken in piece by piece, so that one that is too long is refused
    early.
    """

    identity: Identity
    anonymous = False
    vital = False
    """Whether it must get in however much others ask for: what keeps leases alive, or ends them."""

    def initialize(self, service: Service) -> None:
        self.service = service
        self._body = bytearray()
        self._too_long = False
        self._reads_body = False
        self._bell: asyncio.Event | None = None
        self._party = f"address {self.request.remote_ip}"
        self._turn: asyncio.Future[bool] | None = None
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
            raise too_large(MAX_BODY)
        if self.service.bells.closed:
            raise stopping()
        if not self.anonymous:
            if (elsewhere := self.service.desk.deposed) is not None:
                raise elsewhere.with_traceback(None)
            await self._authenticate()
            WHO.set(self.identity.name)
        self._reads_body = True

    async def _authenticate(self) -> None:
        """Find out who asks; the connection counts for them from then on. Raises ``RateLimited`` too."""
        with authenticating(self.request):
            self.identity = await self.identify()
            name = owner = self.identity.name
            if self.identity.may_somewhere(AGENT):
                owner = f"GPU server {name}"  # a user may be called the same
            self._party = f"owner {owner}"
            try:
                prove(self.request, owner, vital=self.vital)
            except Full:
                raise RateLimited(
                    f"{name} has as many connections to the GPU pool as it may have now.\n"
                    "What runs is not affected. Close notebooks or programs that you do not need, and try "
                    "again in a few seconds.",
                    log_message=f"no room for a connection of {owner}",
                    retry_after=5.0,
                ) from None

    async def identify(self) -> Identity:
        """Whose the request's token is. Raises what ``Authenticator.identify`` does."""
        header, peer = self.request.headers.get("Authorization"), self.request.remote_ip or ""
        return await self.service.authenticator.identify(header, peer)

    @property
    def _turns(self) -> Turns:
        return self.service.vital_turns if self.vital else self.service.turns

    async def its_turn(self) -> None:
        """Wait until those who wait for longer, or have asked for less, have had their turns. Raises
        ``Finish`` where the client has gone meanwhile. By now the body is there: a slow one keeps nobody
        waiting.
        """
        self._turn = self._turns.ask(self._party)
        if not await self._turn:
            raise Finish

    def data_received(self, chunk: bytes) -> None:
        if len(self._body) + len(chunk) > MAX_BODY:
            self._too_long = True
            self._body.clear()
        if not self._too_long:
            self._body += chunk

    def raw_body(self) -> bytes:
        """The whole body. Raises ``TooLarge``."""
        if self._too_long:
            raise too_large(MAX_BODY)
        return bytes(self._body)

    def require(self, scope: str, *, course: str | None = None, server: str | None = None) -> None:
        """Refuse a token that lacks ``scope``."""
        if not self.identity.may(scope, course=course, server=server):
            where = f" for {course}" if course is not None else ""
            raise Forbidden(
                f"{self.identity.name} may not do this{where}: the token lacks the scope {scope}.",
                details={"scope": scope},
            )

    def require_somewhere(self, scope: str) -> None:
        """Refuse a token that lacks ``scope`` wholly; what a filtered one is for is checked once that is
        known.
        """
        if not self.identity.may_somewhere(scope):
            self.require(scope)

    async def require_trusted(self, *scopes: str) -> None:
        """For what anyone on this machine may see where ``Service.local_trusted`` says so: refuse others
        without one of ``scopes``, and who of them looks too often.
        """
        if self.service.local_trusted and _is_local(self.request):
            return
        await self._authenticate()
        if not self._may_any(scopes):
            raise Forbidden(f"{self.identity.name} may not see this: it needs the scope {scopes[0]}.")
        self.service.pace.take(f"{self.identity.name} looks")

    def _may_any(self, scopes: Sequence[str]) -> bool:
        """A GPU server's right always has a name for a filter, and is for any server's here."""
        identity = self.identity
        return any(
            identity.may_somewhere(AGENT) if scope == AGENT else identity.may(scope) for scope in scopes
        )

    def answer(self, body: Resource | Mapping[str, Any], status: int = 200) -> None:
        """Answer in JSON; by ``Service.check_answers`` only what the operation's schema says."""
        content = encode(body)
        if self.service.check_answers:
            made = operation_of(type(self), self.request.method)
            assert made is not None
            made.check_answer(status, content)
        self.set_status(status)
        self.set_header("Content-Type", "application/json; charset=UTF-8")
        self.finish(content)

    def link_next(self, cursor: str | None) -> None:
        """Say in the header `Link` where the next page is, as other APIs do."""
        if cursor is not None:
            others = [(name, value) for name, value in parse_qsl(self.request.query) if name != "after"]
            query = urlencode([*others, ("after", cursor)])
            self.set_header("Link", f'<{self.request.path}?{query}>; rel="next"')

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
        if self._turn is not None:
            self._turns.give_up(self._party, self._turn)
        if self._bell is not None:
            self._bell.set()

    def break_off(self) -> None:
        """End the connection: an answer that has begun and is not whole must not look like one that is."""
        self._finished = True
        self.request.connection.stream.close()  # type: ignore[union-attr]

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
            self._log_refusal(value)
        elif not isinstance(value, HTTPError):
            where = (self.request.method, self.request.path, self.fault)
            log.error("%s %s failed, fault %s", *where, exc_info=(kind, value, trace))

    def _log_refusal(self, error: PoolError) -> None:
        """Lines are limited by the place that they come from: what strangers cause hides no user's."""
        what = (self.request.method, self.request.path, error.code, one_line(error.log_message))
        if hasattr(self, "identity"):
            log.info("%s %s: %s: %s", *what)
        else:
            log.info("%s %s: %s: %s", *what)

    @cached_property
    def fault(self) -> str:
        """Names a fault of the service, in the answer and in the log."""
        return secrets.token_hex(4)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Every error leaves in the one shape, whatever raised it."""
        cause = kwargs.get("exc_info", (None, None, None))[1]
        if isinstance(cause, Finish):
            return
        error = cause if isinstance(cause, PoolError) else self._from_status(status_code)
        if isinstance(error, Refused):
            self.service.metrics.refusals.labels(error.code).inc()
        self.set_status(error.status)
        if not self._reads_body:  # the server ends the connection then, and clients must know
            self.set_header("Connection", "close")
        if error.retry_after is not None:
            self.set_header("Retry-After", str(max(1, round(error.retry_after))))
        self.set_header("Content-Type", "application/json; charset=UTF-8")
        made = operation_of(type(self), self.request.method)
        if self.service.check_answers and made is not None:
            made.check_error(error)
        self.finish(encode(error.to_json()))

    def _from_status(self, status: int) -> PoolError:
        """The error for what the web server itself refuses, or for a fault."""
        where = self.request.path[:200]
        if status == 404:
            return NotFound(f"There is nothing at {where}.", details={"versions": list(VERSIONS)})
        if status == 405:
            allowed = list(operations_of(type(self)))
            self.set_header("Allow", ", ".join(allowed))
            what = f"{self.request.method} does nothing at {where}; it takes {', '.join(allowed)}."
            return MethodNotAllowed(what, details={"allowed": allowed})
        if 400 <= status < 500:
            return InvalidRequest("The request cannot be read.")
        return PoolError(
            f"The GPU pool failed to handle this request; its log says why (fault {self.fault}).\n"
            "Try again, or choose 'Python 3' to work without a GPU.",
            retry_after=10.0,
            details={"fault": self.fault},
        )


class Nowhere(Handler):
    """Every address that is not one of the API's."""

    anonymous = True

    async def prepare(self) -> None:
        raise HTTPError(404)


class OtherVersion(Handler):
    """Every address of a version that this controller does not speak."""

    anonymous = True

    async def prepare(self) -> None:
        version = str(self.path_kwargs["version"])[:20]
        raise UnknownVersion(
            f"This pool controller has no API of version {version!a}; it has {', '.join(VERSIONS)}.",
            details={"versions": list(VERSIONS)},
        )


def one_line(text: str) -> str:
    """What a client wrote may be in it: nothing of that may look like another line of the log."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _is_local(request: HTTPServerRequest) -> bool:
    """Whether the request comes from this machine, and not through a proxy that stands on it."""
    if any(name.lower().startswith(("x-forwarded", "forwarded", "x-real")) for name in request.headers):
        return False
    try:
        return ipaddress.ip_address(request.remote_ip or "").is_loopback
    except ValueError:
        return False
