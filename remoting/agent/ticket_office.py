"""How a client that speaks TCP gets a descriptor: at an abstract unix socket, for a ticket.

The socket has a name that nobody could guess, and is there before the name is told: whoever else is on this
host, or in another network namespace, cannot stand in its place. The lease's secret is not told there; the
ticket, told over the connection that has proved the lease, is good for one descriptor.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from types import TracebackType

from gpu_kernels.remoting.agent.side_threads import SideThreads, refuse_descriptors

PREFIX = b"\0gpu-kernels slice "
TICKET_BYTES = 32
STRANGER_S = 0.5
"""So long may one that says nothing keep its seat."""
SEATS = 64
"""Connections at a time: the kernel's list of abstract sockets tells everybody on the host where to knock."""


class _Given(Exception):
    """The descriptor is with who had the ticket."""


class TicketOffice:
    """A context manager; the socket is there within. ``text`` is what the client is told."""

    def __init__(self, descriptor: int, threads: SideThreads) -> None:
        self._of = descriptor
        self._threads = threads
        self._visitors: set[socket.socket] = set()
        self._ticket = secrets.token_bytes(TICKET_BYTES)
        self._name = secrets.token_hex(16)
        self.text = self._name + self._ticket.hex()

    async def __aenter__(self) -> TicketOffice:
        with contextlib.ExitStack() as undo:
            self._file = os.dup(self._of)  # the worker may end meanwhile
            undo.callback(os.close, self._file)
            self._listener = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            self._listener.setblocking(False)
            refuse_descriptors(self._listener)
            self._listener.bind(PREFIX + self._name.encode())
            self._listener.listen(16)
            undo.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._file)
        await asyncio.gather(*map(self._threads.close, [self._listener, *self._visitors]))

    async def serve(self) -> None:
        """Wait for the ticket, and give the descriptor for it. The caller bounds the time."""
        try:
            async with asyncio.TaskGroup() as visits:
                await self._receive(visits)
        except* _Given:
            pass

    async def _receive(self, visits: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        seats = asyncio.Semaphore(SEATS)
        while await seats.acquire():
            connected, _ = await loop.sock_accept(self._listener)
            self._visitors.add(connected)
            visits.create_task(self._visit(connected, seats))

    async def _visit(self, connected: socket.socket, seats: asyncio.Semaphore) -> None:
        try:
            await self._answer(connected)
        finally:
            self._visitors.discard(connected)
            await self._threads.close(connected)
            seats.release()

    async def _answer(self, connected: socket.socket) -> None:
        if not secrets.compare_digest(await self._read(connected), self._ticket):
            return
        with contextlib.suppress(OSError):
            socket.send_fds(connected, [b"\0"], [self._file], socket.MSG_NOSIGNAL)
        raise _Given

    async def _read(self, connected: socket.socket) -> bytes:
        """What of a ticket comes in time."""
        data = b""
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(STRANGER_S):
                while len(data) < TICKET_BYTES:
                    part = await self._threads.receive(connected, TICKET_BYTES - len(data))
                    if not part:
                        break
                    data += part
        return data
