"""Connections as an attacker makes them: raw, many, at a bounded rate, and counted."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

CONNECT_WITHIN_S = 10.0
DRIP_S = 3.0
DEAF_S = 45.0
SMALL_BUFFER = 2048


class Opens:
    """Lets so many connections a second be opened, by all attacks together."""

    def __init__(self, a_second: float) -> None:
        self._between = 1 / a_second
        self._next = 0.0
        self._one = asyncio.Lock()

    async def turn(self) -> None:
        """Wait for one's turn; who is cancelled meanwhile takes none."""
        loop = asyncio.get_running_loop()
        async with self._one:
            await asyncio.sleep(self._next - loop.time())
            self._next = max(self._next, loop.time()) + self._between


@dataclass
class Address:
    """Where to knock. ``tally``: what came of it, by attack and event."""

    host: str
    port: int
    opens: Opens
    tally: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, url: str, opens: Opens, tally: Counter[str]) -> Address:
        """Of ``http://HOST:PORT/...`` or ``tcp://HOST:PORT``."""
        host, _, port = url.split("//")[1].split("/")[0].rpartition(":")
        return cls(host.strip("[]"), int(port), opens, tally)

    async def connect(self, attack: str, *, small: bool = False) -> socket.socket:
        """Raises ``OSError`` or ``TimeoutError`` where nobody lets one in."""
        await self.opens.turn()
        connected = socket.socket()
        connected.setblocking(False)
        if small:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        try:
            async with asyncio.timeout(CONNECT_WITHIN_S):
                await asyncio.get_running_loop().sock_connect(connected, (self.host, self.port))
        except BaseException as error:
            connected.close()
            self.tally[f"{attack}: not let in"] += isinstance(error, (OSError, TimeoutError))
            raise
        self.tally[f"{attack}: connections"] += 1
        return connected

    async def hold(
        self, attack: str, count: int, say: Callable[[], bytes], *, drip: bytes = b"", deaf: bool = False
    ) -> None:
        """So many connections at once, each opened again when it is closed, until this is cancelled. Each
        says something and then nothing, or ``drip`` now and then. ``deaf``: it never reads.
        """
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(self._hold_one(attack, say, drip, deaf))

    async def _hold_one(self, attack: str, say: Callable[[], bytes], drip: bytes, deaf: bool) -> None:
        while True:
            with (
                contextlib.suppress(OSError, TimeoutError),
                await self.connect(attack, small=deaf) as connected,
            ):
                if first := say():
                    async with asyncio.timeout(CONNECT_WITHIN_S):
                        await asyncio.get_running_loop().sock_sendall(connected, first)
                if deaf:
                    await asyncio.sleep(DEAF_S)
                else:
                    await self._linger(connected, drip)
                    self.tally[f"{attack}: ended by the other side"] += 1
            await asyncio.sleep(random.uniform(0.5, 1.5))

    async def _linger(self, connected: socket.socket, drip: bytes) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout(DRIP_S):
                    if not await loop.sock_recv(connected, 65536):
                        return
            except TimeoutError:
                if drip:
                    await loop.sock_sendall(connected, drip)

    async def ask(self, attack: str, connected: socket.socket, request: bytes) -> bytes:
        """Send a request and read its answer's first part; b'' where the other side has closed."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_WITHIN_S):
            await loop.sock_sendall(connected, request)
            answer = await loop.sock_recv(connected, 65536)
        kind = answer[9:12].decode(errors="replace") if answer.startswith(b"HTTP/") else "other"
        self.tally[f"{attack}: answers {kind}"] += bool(answer)
        return answer
