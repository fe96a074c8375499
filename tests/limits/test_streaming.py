"""A reader that takes nothing is ended, with the connection."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application

from gpu_kernels.streaming import StreamingHandler


class Endless(StreamingHandler):
    broken_off = asyncio.Event()

    async def get(self) -> None:
        await self.stream(self._tell())

    async def _tell(self) -> None:
        try:
            while True:
                self.write("x" * 1_000_000)
                async with asyncio.timeout(0.3):
                    await self.flush()
        except TimeoutError:
            self.break_off()
            self.broken_off.set()


def read_to_end(connection: socket.socket) -> None:
    """What has been sent until it ended, and its end."""
    with contextlib.suppress(ConnectionError):
        while connection.recv(1_000_000):
            pass


async def test_the_connection_of_a_reader_that_takes_nothing_ends() -> None:
    listening, port = bind_unused_port()
    server = HTTPServer(Application([("/", Endless)], log_function=lambda _: None))
    server.add_socket(listening)
    with socket.create_connection(("127.0.0.1", port)) as deaf:
        deaf.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.wait_for(Endless.broken_off.wait(), 60)
        await asyncio.wait_for(asyncio.to_thread(read_to_end, deaf), 60)
    server.stop()
