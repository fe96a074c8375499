"""The data port: reads one bounded Hello from whoever connects, and passes the connection to its worker.

Everything a peer sends is hostile until the secret has proved the lease. A connection that has not been
handed over yet is *pending*: there are at most so many of them, in all and of one peer, each for a bounded
time. What goes wrong with one connection is told to it and logged, and touches no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable

from remoting.agent.hello import (
    HELLO_BYTES,
    Hello,
    Refusal,
    Status,
    answer,
    begins_like_a_hello,
    parse_hello,
    without_secret,
)
from remoting.agent.limited_log import LimitedLog
from remoting.agent.settings import Limits
from remoting.agent.worker import WorkerGone

LINGER_S = 1.0
LINGER_BYTES = 65536
ACCEPT_PAUSE_S = 0.2
TOO_MANY = "Too many connections to the GPU server are being opened at once: try again in some seconds."

Serve = Callable[[Hello], Awaitable[str | Callable[[bytes, socket.socket], Awaitable[None]]]]
"""What the agent does with a Hello: the text of a status query, or a function that hands the answered
connection over. Raises ``Refusal``."""


class DataPort:
    def __init__(self, limits: Limits, serve: Serve, log: logging.Logger) -> None:
        self._limits = limits
        self._serve = serve
        self._log = log
        self._strangers = LimitedLog(log, "data port")
        self._pending: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listeners: list[socket.socket] = []

    def listen(self, listener: socket.socket) -> None:
        """Accept from this listening socket until ``close``, which closes it."""
        listener.setblocking(False)
        self._listeners.append(listener)
        self._keep(asyncio.ensure_future(self._accept(listener)))

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for listener in self._listeners:
            listener.close()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, name = await loop.sock_accept(listener)
            except OSError as error:
                # No descriptors left, or the peer gave up: those that are served go on.
                self._strangers.line(logging.WARNING, f"cannot accept a connection: {error}")
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            peer = _peer(connection, name)
            if (
                self._pending.total() >= self._limits.pending
                or self._pending[peer] >= self._limits.pending_of_a_peer
            ):
                self._strangers.line(logging.WARNING, f"too many pending connections; refused one of {peer}")
                _answer_and_close(connection, answer(Status.TOO_MANY, TOO_MANY))
                continue
            self._pending[peer] += 1
            self._keep(asyncio.ensure_future(self._converse(connection, peer)))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _converse(self, connection: socket.socket, peer: str) -> None:
        """One connection from its first byte until it is closed here or its worker has it."""
        try:
            with connection:
                try:
                    await self._open(connection)
                except Refusal as refusal:
                    self._strangers.line(logging.WARNING, f"refused {peer}: {refusal.log_text}")
                    await _refuse(connection, answer(refusal.status, refusal.text))
                except OSError as error:
                    self._strangers.line(logging.WARNING, f"lost {peer}: {error}")
        except Exception:
            self._log.exception("a connection of %s failed in a way that it should not", peer)
        finally:
            self._pending[peer] -= 1
            if not self._pending[peer]:
                del self._pending[peer]

    async def _open(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        data = await self._read_hello(connection)
        outcome = await self._serve(parse_hello(data))
        if isinstance(outcome, str):
            await _refuse(connection, answer(Status.OK, outcome))
            return
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with asyncio.timeout(self._limits.hello_bytes_within_s):
            await loop.sock_sendall(connection, answer(Status.OK))
        connection.setblocking(True)
        try:
            await outcome(without_secret(data), connection)
        except (Refusal, WorkerGone) as error:
            # It is answered already: what we wrote now would be read as the worker's words.
            raise ConnectionError(str(error)) from error

    async def _read_hello(self, connection: socket.socket) -> bytearray:
        """Exactly the Hello: what follows is the worker's to read. Raises ``Refusal``."""
        loop = asyncio.get_running_loop()
        data = bytearray()
        try:
            async with asyncio.timeout(self._limits.hello_bytes_within_s):
                while len(data) < HELLO_BYTES:
                    part = await loop.sock_recv(connection, HELLO_BYTES - len(data))
                    data += part
                    if not part:
                        raise Refusal(Status.MALFORMED, f"The connection ended after {len(data)} bytes.")
                    if not begins_like_a_hello(data):
                        raise Refusal(Status.MALFORMED, "These are not the bytes of a GPU connection.")
        except TimeoutError:
            raise Refusal(
                Status.MALFORMED,
                f"Only {len(data)} of {HELLO_BYTES} bytes came in time.",
            ) from None
        if _more_is_waiting(connection):
            raise Refusal(Status.MALFORMED, "The client must wait for the answer before it sends more.")
        return data


def _more_is_waiting(connection: socket.socket) -> bool:
    try:
        return bool(connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return False


async def _refuse(connection: socket.socket, data: bytes) -> None:
    """Answer, and close without losing the answer: a reset would, if the peer has sent more than we read."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(LINGER_S):
            await loop.sock_sendall(connection, data)
            connection.shutdown(socket.SHUT_WR)
            left = LINGER_BYTES
            while left > 0 and (part := await loop.sock_recv(connection, min(left, 4096))):
                left -= len(part)


def _answer_and_close(connection: socket.socket, data: bytes) -> None:
    with connection, contextlib.suppress(OSError):
        connection.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)


def _peer(connection: socket.socket, name: object) -> str:
    """Who counts as one peer: an address without its port, or a local account."""
    if connection.family == socket.AF_UNIX:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        _, uid, _ = struct.unpack("3i", credentials)
        return f"local uid {uid}"
    return str(name[0]) if isinstance(name, tuple) else "unknown"
