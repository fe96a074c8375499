"""The data port: reads one bounded Hello from whoever connects, and passes the connection to its worker.

Everything a peer sends is hostile until the secret has proved the lease. A connection that has not been
handed over yet is *pending*: there are at most so many of them, each for a bounded time. What goes wrong with
one connection is told to it and logged, and touches no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gpu_kernels.limits.connections import ConnectionLimit, Full
from gpu_kernels.limits.logs import RateLimitedLogger
from gpu_kernels.remoting.agent.settings import Limits
from gpu_kernels.remoting.agent.side_threads import (
    SideThreads,
    account_of,
    may_carry_descriptors,
    refuse_descriptors,
)
from gpu_kernels.remoting.agent.slice_file import SliceFile
from gpu_kernels.remoting.agent.ticket_office import TicketOffice
from gpu_kernels.remoting.agent.worker import WorkerGone
from gpu_kernels.remoting.hello import (
    HELLO_BYTES,
    Hello,
    Refusal,
    Status,
    answer,
    begins_like_a_hello,
    parse_hello,
    without_secret,
)

LINGER_S = 1.0
LINGER_BYTES = 65536
ACCEPT_PAUSE_S = 0.2
TOO_MANY = "Too many connections to the GPU server are being opened at once: try again in some seconds."

HandOver = Callable[[bytes, socket.socket], Awaitable[None]]


@dataclass(frozen=True)
class SliceFileOf:
    """What is asked of a worker, if it has one."""

    file: SliceFile | None


@dataclass(frozen=True)
class PassageTo:
    """A way for descriptors: a socket of whose ends a worker has one, and the client the other."""

    may_be_given: Callable[[], bool]
    hand_over: HandOver


Serve = Callable[[Hello, Callable[[str], None]], Awaitable[str | SliceFileOf | PassageTo | HandOver]]
"""What the agent does with a Hello: the text of a status query, a slice file, a passage, or a function that
hands the answered connection over. It calls its second argument with the lease that the Hello proves, as soon
as that is known. Raises ``Refusal``.
"""


class _Connection:
    """One accepted connection; it is answered once."""

    def __init__(self, connected: socket.socket, peer: str, threads: SideThreads) -> None:
        self.socket = connected
        self.threads = threads
        self.peer = peer
        self.task: asyncio.Task[None] | None = None
        self.evicted = False
        self._answered = False

    async def accept(self, within_s: float) -> None:
        """Answer that it is accepted, and make it fit for the worker, who gets it next."""
        self._answered = True
        if self.socket.family != socket.AF_UNIX:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with asyncio.timeout(within_s):
            await asyncio.get_running_loop().sock_sendall(self.socket, answer(Status.OK))
        self.socket.setblocking(True)

    @property
    def is_unix(self) -> bool:
        return self.socket.family == socket.AF_UNIX

    @property
    def is_here(self) -> bool:
        """Whether the peer is on this host, and so may have descriptors."""
        return self.is_unix or self.socket.getpeername()[0] == self.socket.getsockname()[0]

    async def give(self, descriptor: int | None, within_s: float) -> None:
        """Answer a peer on this host with the descriptor: along with the answer, or by the way of
        ``ticket_office``. ``None``: there is none."""
        self._answered = True
        if descriptor is None:
            await self.answer_and_linger(answer(Status.OK))
        elif self.is_unix:
            # A connection that was just opened has room for eight bytes.
            socket.send_fds(self.socket, [answer(Status.OK)], [descriptor], socket.MSG_NOSIGNAL)
        else:
            async with TicketOffice(descriptor, self.threads) as office:
                async with asyncio.timeout(within_s):
                    loop = asyncio.get_running_loop()
                    await loop.sock_sendall(self.socket, answer(Status.OK, office.text))
                    await office.serve()

    async def answer_and_linger(self, data: bytes) -> None:
        """Answer, and close without losing the answer: a reset would, if the peer has sent more than we
        read."""
        self._answered = True
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(LINGER_S):
                await loop.sock_sendall(self.socket, data)
                self.socket.shutdown(socket.SHUT_WR)
                left = LINGER_BYTES
                while left > 0 and (part := await self.threads.receive(self.socket, min(left, 4096))):
                    left -= len(part)

    def refuse_at_once(self, data: bytes) -> None:
        """Make room: answer if that takes no wait. Who called closes it, or the end of its task does."""
        self.evicted = True
        if not self._answered:
            with contextlib.suppress(OSError):
                self.socket.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        if self.task is not None:
            self.task.cancel()


class DataPort:
    def __init__(self, limits: Limits, serve: Serve, log: logging.Logger) -> None:
        self._limits = limits
        self._serve = serve
        self._log = log
        self._strangers = RateLimitedLogger(log, "data port")
        # A proved one is busy until its worker has it, and so never gives way.
        self._pending: ConnectionLimit[_Connection] = ConnectionLimit(
            of_peer=limits.pending_of_a_peer,
            of_owner=limits.pending_of_a_peer,
            unproved=limits.pending,
            proved=limits.pending,
            in_all=limits.pending,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._listeners: list[socket.socket] = []
        self._threads = SideThreads()

    def listen(self, listener: socket.socket) -> None:
        """Accept from this listening socket until ``close``, which closes it."""
        listener.setblocking(False)
        self._listeners.append(listener)
        self._keep(asyncio.ensure_future(self._accept(listener)))

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*self._closing, *map(self._threads.close, self._listeners))
        self._threads.end()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while listener.family == socket.AF_UNIX and len(self._closing) >= self._limits.pending:
                await asyncio.wait(self._closing, return_when=asyncio.FIRST_COMPLETED)
            try:
                connection, name = await loop.sock_accept(listener)
            except OSError as error:
                # No descriptors left, or the peer gave up: those that are served go on.
                self._strangers.line(logging.WARNING, f"cannot accept a connection: {error}")
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            self._let_in(_Connection(connection, _peer(connection, name), self._threads))

    def _let_in(self, connection: _Connection) -> None:
        try:
            evicted = self._pending.enter(connection, connection.peer)
        except Full:
            evicted = connection
        if evicted is not None:
            self._strangers.line(logging.WARNING, f"too many connections; refused one of {evicted.peer}")
            evicted.refuse_at_once(answer(Status.TOO_MANY, TOO_MANY))
        if evicted is connection:
            self._close(connection)
            return
        connection.task = asyncio.ensure_future(self._converse(connection))
        connection.task.add_done_callback(lambda _: self._close(connection))
        self._keep(connection.task)

    def _close(self, connection: _Connection) -> None:
        """It is pending until it is closed."""
        if not may_carry_descriptors(connection.socket):
            connection.socket.close()
            self._pending.leave(connection)
            return
        closing = asyncio.ensure_future(self._threads.close(connection.socket))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        closing.add_done_callback(lambda _: self._pending.leave(connection))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _converse(self, connection: _Connection) -> None:
        """One connection from its first byte until it is to be closed here, or its worker has it."""
        try:
            try:
                await self._open(connection)
            except Refusal as refusal:
                self._strangers.line(logging.WARNING, f"refused {connection.peer}: {refusal.log_text}")
                await connection.answer_and_linger(answer(refusal.status, refusal.text))
            except OSError as error:
                self._strangers.line(logging.WARNING, f"lost {connection.peer}: {error}")
        except asyncio.CancelledError:
            if not connection.evicted:
                raise
        except Exception:
            self._log.exception("a connection of %s failed in a way that it should not", connection.peer)

    async def _open(self, connection: _Connection) -> None:
        data = await self._read_hello(connection.socket)

        def proved(lease_id: str) -> None:
            try:
                self._pending.prove(connection, lease_id)
            except Full:
                raise Refusal(Status.TOO_MANY, TOO_MANY) from None

        outcome = await self._serve(parse_hello(data), proved)
        if isinstance(outcome, SliceFileOf | PassageTo):
            try:
                await self._give(connection, outcome, data)
            except TimeoutError:
                late = f"{connection.peer} did not fetch its descriptor in time, and copies"
                self._strangers.line(logging.WARNING, late)
            return
        if isinstance(outcome, str):
            await connection.answer_and_linger(answer(Status.OK, outcome))
            return
        await connection.accept(self._limits.hello_bytes_within_s)
        try:
            await outcome(without_secret(data), connection.socket)
        except (Refusal, WorkerGone) as error:
            # It is answered already: what we wrote now would be read as the worker's words.
            raise ConnectionError(str(error)) from error

    async def _give(self, connection: _Connection, what: SliceFileOf | PassageTo, hello: bytearray) -> None:
        within_s = self._limits.hello_bytes_within_s
        if isinstance(what, SliceFileOf):
            given = what.file if what.file and connection.is_here and what.file.may_be_given() else None
            await connection.give(given.descriptor if given else None, within_s)
        elif connection.is_here and what.may_be_given():
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            refuse_descriptors(ours)  # descriptors go to the worker alone
            try:
                with theirs:
                    await what.hand_over(without_secret(hello), theirs)
                await connection.give(ours.fileno(), within_s)
            except WorkerGone:
                await connection.give(None, within_s)
            finally:
                await self._threads.close(ours)
        else:
            await connection.give(None, within_s)

    async def _read_hello(self, connection: socket.socket) -> bytearray:
        """Exactly the Hello: what follows is the worker's to read. Raises ``Refusal``."""
        data = bytearray()
        try:
            async with asyncio.timeout(self._limits.hello_bytes_within_s):
                while len(data) < HELLO_BYTES:
                    part = await self._threads.receive(connection, HELLO_BYTES - len(data))
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
    # Descriptors stay with what is only looked at: nothing is closed here.
    try:
        return bool(connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return False


def _peer(connection: socket.socket, name: object) -> str:
    """Who counts as one peer: an address without its port, or a local account."""
    if connection.family == socket.AF_UNIX:
        return f"local uid {account_of(connection)}"
    return str(name[0]) if isinstance(name, tuple) else "unknown"
