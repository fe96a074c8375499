"""A tornado server that strangers cannot hold up: times, a connection limit, and a bound of unsent bytes.

A connection is unproved until a handler says whose it is (``prove``), and has ``Times.header`` seconds for
each header and ``Times.body`` for each body. Once proved it counts for its owner, and may be idle for
``Times.idle``. Whoever does not take what was written within ``Times.answer`` is cut off; so is who has
waited longest, when all together have left more than ``most_unsent`` bytes untaken. What a connection limit
is, and who gives way, says ``connections``.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tornado.http1connection import HTTP1ConnectionParameters
from tornado.httpserver import HTTPServer
from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPServerRequest,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.iostream import IOStream

from gpu_kernels.limits.acceptor import AT_ONCE, Acceptor
from gpu_kernels.limits.connections import ConnectionLimit, Full
from gpu_kernels.limits.descriptors import Shares
from gpu_kernels.limits.logs import RateLimitedLogger

SHED = 32
"""Idle connections that are ended when the process has no descriptor left."""


@dataclass(frozen=True, slots=True)
class Times:
    """In seconds. ``header``: of an unproved connection, from its begin or its last answer until the next
    header is there; ``idle``: the same once it is proved; ``body``; ``answer``: until what was written has
    been taken.
    """

    header: float = 20.0
    body: float = 20.0
    idle: float = 75.0
    answer: float = 30.0


USUAL = Times()


class Client:
    """One accepted connection; equal to itself alone."""

    __slots__ = ("params", "peer", "stream", "unsent")

    def __init__(self, stream: IOStream, params: HTTP1ConnectionParameters, peer: str) -> None:
        self.stream, self.params, self.peer = stream, params, peer
        self.unsent = 0


class Front(HTTPServer):
    """``HTTPServer`` with bounds. To be used on one event loop, without TLS: a proxy in front has that."""

    def initialize(  # type: ignore[override]
        self,
        application: Any,
        *,
        shares: Shares,
        log: logging.Logger,
        times: Times = USUAL,
        of_owner: int = 192,
        most_unsent: int = 256 * 1024 * 1024,
        **arguments: Any,
    ) -> None:
        """``shares``: how many connections there may be; ``of_owner``: of one owner; ``log``: where it is
        told that there were too many. Further arguments are ``HTTPServer``'s.
        """
        super().initialize(
            application, idle_connection_timeout=times.header, body_timeout=times.body, **arguments
        )
        self.times = times
        self.limit: ConnectionLimit[Client] = ConnectionLimit(
            of_peer=shares.of_peer,
            of_owner=min(of_owner, shares.proved),
            unproved=shares.unproved,
            proved=shares.proved,
            reserve=shares.reserve,
        )
        # It takes two turns of the loop until a handler holds a connection: nobody is pushed out before.
        self._at_once = max(1, min(AT_ONCE, shares.of_peer // 3))
        self._most_unsent, self._unsent = most_unsent, 0
        self._untaken: dict[Client, None] = {}
        self._fresh = self.conn_params
        self._clients: dict[IOStream, Client] = {}
        self._acceptors: list[tuple[Acceptor, socket.socket]] = []
        self._strangers = RateLimitedLogger(log, "connections")

    def add_sockets(self, sockets: Iterable[socket.socket]) -> None:
        """Accept from these listening sockets, until ``stop``, which closes them."""
        for listening in sockets:
            acceptor = Acceptor(listening, self._let_in, self._is_short, self._at_once)
            self._acceptors.append((acceptor, listening))

    def stop(self) -> None:
        for acceptor, listening in self._acceptors:
            acceptor.close()
            listening.close()
        self._acceptors.clear()
        super().stop()

    def _let_in(self, accepted: socket.socket, address: Any) -> None:
        peer = str(address[0]) if isinstance(address, tuple) else "local"
        params = copy.copy(self._fresh)
        stream = IOStream(accepted, max_buffer_size=self.max_buffer_size, read_chunk_size=params.chunk_size)
        client = Client(stream, params, peer)
        try:
            gives_way = self.limit.enter(client, peer)
        except Full:
            self._strangers.line(logging.WARNING, f"too many; refused one of {peer}")
            stream.close()
            return
        if gives_way is not None:
            self._end(gives_way, "too many; the oldest idle one gives way")
        self._clients[stream] = client
        self.conn_params = params
        self.handle_stream(stream, address)

    def _is_short(self, error: OSError) -> None:
        shed = self.limit.shed(SHED)
        self._strangers.line(
            logging.ERROR, f"cannot accept one ({error}); {len(shed)} idle ones give way, and others wait"
        )
        for client in shed:
            client.stream.close()

    def _end(self, client: Client, why: str) -> None:
        self._strangers.line(logging.WARNING, f"ended one of {client.peer}: {why}")
        self.limit.leave(client)
        client.stream.close()

    def start_request(self, server_conn: Any, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        """Called by tornado when it begins to wait for a request."""
        client = self._clients[server_conn.stream]
        self.limit.rest(client)
        if self.limit.is_reserved(client):
            # Its answer is taken; the next call may come by another connection.
            self.limit.leave(client)
            asyncio.get_running_loop().call_soon(client.stream.close)
        return super().start_request(server_conn, Exchange(request_conn, client, self))

    def on_close(self, server_conn: Any) -> None:
        """Called by tornado once for each connection."""
        client = self._clients.pop(server_conn.stream)
        self.limit.leave(client)
        super().on_close(server_conn)

    def prove(self, client: Client, owner: str, *, vital: bool) -> None:
        """Raises ``Full``."""
        gives_way = self.limit.prove(client, owner, reserved=vital)
        client.params.header_timeout = self.times.idle
        if gives_way is not None:
            self._end(gives_way, f"{owner} has too many; the oldest idle one gives way")

    def watch(self, client: Client, size: int) -> None:
        """See to it that what has been written is taken, ``size`` bytes more than before."""
        stream = client.stream
        if not stream.writing():
            return
        client.unsent += size
        self._unsent += size
        self._untaken[client] = None

        def taken(_: object) -> None:
            timer.cancel()
            self._count_out(client, size)

        def too_slow() -> None:
            self._end(client, f"it has not taken {size} bytes in {self.times.answer:g} s")

        timer = asyncio.get_running_loop().call_later(self.times.answer, too_slow)
        stream.write(b"").add_done_callback(taken)
        while self._unsent > self._most_unsent and self._untaken:
            slowest = next(iter(self._untaken))
            self._end(slowest, f"{self._unsent} bytes wait to be taken, and it has waited longest")
            self._count_out(slowest, slowest.unsent)

    def _count_out(self, client: Client, size: int) -> None:
        size = min(size, client.unsent)
        client.unsent -= size
        self._unsent -= size
        if client.unsent <= 0:
            self._untaken.pop(client, None)


class Exchange(HTTPConnection):
    """One request and its answer, as handlers know it: tornado's connection, watched."""

    def __init__(self, inner: HTTPConnection, client: Client, front: Front) -> None:
        self._inner, self.client, self.front = inner, client, front

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write_headers(
        self,
        start_line: RequestStartLine | ResponseStartLine,
        headers: HTTPHeaders,
        chunk: bytes | None = None,
    ) -> asyncio.Future[None]:
        if self.front.limit.is_reserved(self.client):
            headers["Connection"] = "close"
        written = self._inner.write_headers(start_line, headers, chunk)
        self.front.watch(self.client, len(chunk or b""))
        return written

    def write(self, chunk: bytes) -> asyncio.Future[None]:
        written = self._inner.write(chunk)
        self.front.watch(self.client, len(chunk))
        return written

    def finish(self) -> None:
        self._inner.finish()
        self.front.watch(self.client, 0)


@contextmanager
def authenticating(request: HTTPServerRequest) -> Iterator[None]:
    """While a handler finds out who asks: the connection does not give way, and does again where nobody's
    name has come of it. A server without bounds has nothing to do.
    """
    exchange = request.connection
    if not isinstance(exchange, Exchange):
        yield
        return
    limit, client = exchange.front.limit, exchange.client
    limit.hold(client)
    try:
        yield
    finally:
        if not limit.is_proved(client):
            limit.rest(client)


def prove(request: HTTPServerRequest, owner: str, *, vital: bool = False) -> None:
    """The connection is the owner's from now on. ``vital``: it may take of the reserve.

    Called by handlers once they know who asks. Raises ``Full``.
    """
    exchange = request.connection
    if isinstance(exchange, Exchange):
        exchange.front.prove(exchange.client, owner, vital=vital)
