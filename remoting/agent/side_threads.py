"""Threads in which what strangers pass us may be let go of.

Whoever may write to a unix socket may put descriptors beside the bytes. Where they are not taken, the kernel
closes them as the bytes are received or the socket is closed, in the thread that does that; and the last
close of a TCP socket with SO_LINGER waits for as long as its owner has said. So a loop neither receives from
such a socket nor closes it itself, unless the kernel refuses descriptors there (SO_PASSRIGHTS, since Linux
6.16).
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

SO_PASSRIGHTS = 83
THREADS, THREADS_OF_AN_ACCOUNT = 256, 32
LONGEST_S = 0.5
"""A thread that is held up for longer is sent a signal, which ends the wait of all that it closes."""


def refuse_descriptors(of: socket.socket) -> None:
    """Let the kernel refuse who sends descriptors there, and to what a listener accepts, if it can."""
    with contextlib.suppress(OSError):
        of.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, 0)


def may_carry_descriptors(connected: socket.socket) -> bool:
    if connected.family != socket.AF_UNIX:
        return False
    try:
        return connected.getsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS) != 0
    except OSError:
        return True


def account_of(connected: socket.socket) -> int:
    """The local account at the other end of a unix socket."""
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    return int(uid)


class SideThreads:
    """Of one event loop. An account that holds up all that it may have waits for itself alone."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, "side")
        self._turns: dict[int, asyncio.Semaphore] = {}
        self._users: dict[int, int] = {}

    def end(self) -> None:
        """Its threads end with what they do."""
        self._pool.shutdown(wait=False)

    async def receive(self, connected: socket.socket, most: int) -> bytes:
        """As the loop's ``sock_recv``."""
        if not may_carry_descriptors(connected):
            return await asyncio.get_running_loop().sock_recv(connected, most)
        while True:
            await _readable(connected)
            with contextlib.suppress(BlockingIOError):
                return await self._aside(account_of(connected), lambda: connected.recv(most))

    async def close(self, held: socket.socket) -> None:
        """Close it, also where the caller is cancelled meanwhile."""
        if may_carry_descriptors(held):
            await self._aside(account_of(held), held.close)
        else:
            held.close()

    async def _aside(self, account: int, call: Callable[[], T]) -> T:
        """Waits for the end also when it is cancelled: nothing may close what is being received from."""
        work = asyncio.ensure_future(self._in_turn(account, call))
        cancelled: asyncio.CancelledError | None = None
        while not work.done():
            try:
                await asyncio.wait({work})
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            work.exception()
            raise cancelled
        return work.result()

    async def _in_turn(self, account: int, call: Callable[[], T]) -> T:
        turns = self._turns.setdefault(account, asyncio.Semaphore(THREADS_OF_AN_ACCOUNT))
        self._users[account] = self._users.get(account, 0) + 1
        try:
            async with turns:
                return await self._in_thread(call)
        finally:
            self._users[account] -= 1
            if not self._users[account]:
                del self._users[account], self._turns[account]

    async def _in_thread(self, call: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        thread: list[int] = []

        def run() -> T:
            thread.append(threading.get_ident())
            return call()

        running = loop.run_in_executor(self._pool, run)
        while not (await asyncio.wait({running}, timeout=LONGEST_S))[0]:
            # Without a handler the signal would pass unseen. One that comes late ends no more than a wait.
            loop.add_signal_handler(signal.SIGURG, lambda: None)
            for ident in thread:
                signal.pthread_kill(ident, signal.SIGURG)
        return running.result()


async def _readable(connected: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(connected, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connected)
