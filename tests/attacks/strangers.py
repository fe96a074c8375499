"""Connections of strangers: many, silent, half said, never read."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

WITHIN_S = 100.0


def connect(url: str, said: bytes = b"", receive_buffer: int = 0) -> socket.socket:
    """A connection on which that has been said, and no more is."""
    address = urlsplit(url)
    connection = socket.socket()
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(WITHIN_S)
    connection.connect((address.hostname, address.port))
    if said:
        connection.sendall(said)
    return connection


@contextlib.contextmanager
def idle_connections(url: str, number: int, said: bytes = b"") -> Iterator[list[socket.socket]]:
    """So many connections at once; whichever the server ends stays open at this end."""
    held: list[socket.socket] = []
    try:
        while len(held) < number:
            with contextlib.suppress(ConnectionError):
                held.append(connect(url, said))
        yield held
    finally:
        for connection in held:
            connection.close()


def is_ended(connection: socket.socket) -> bool:
    """Whether the server has ended it, by now and without an answer that one would have to read first."""
    if not select.select([connection], [], [], 0)[0]:
        return False
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except ConnectionError:
        return True


def answer_until_end(connection: socket.socket) -> bytes:
    """What the server says until it ends the connection. Raises ``TimeoutError`` when it does not."""
    said, end = b"", time.monotonic() + WITHIN_S
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            said += part
            if time.monotonic() > end:
                raise TimeoutError
    return said
