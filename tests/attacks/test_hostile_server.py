"""A server that accepts a program and then lies: the program gets an error, and neither crashes nor waits."""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.forwarding.minimal_agent import HELLO
from tests.forwarding.recorded import Client, agent, client, gate, native, record
from tests.native_build import Build

__all__ = ["agent", "client", "gate", "native", "record"]

DEVICE_UNAVAILABLE = "46"
START = "print(Cuda(start=False).status('cuInit', UINT(0)))"


@contextmanager
def server(folder: Path, answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Takes every Hello, and says ``answer`` then."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "liar"))
    listener.listen(8)
    kept = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            kept.append(connection)
            connection.recv(HELLO.size, socket.MSG_WAITALL)
            try:
                answer(connection)
            except ConnectionError:
                continue

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"unix://{folder / 'liar'}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for connection in kept:
            connection.close()


def digest(native: Build) -> int:
    found = re.search(r"kCallsDigest = (\w+?)u?;", (native.generated / "calls_wire.h").read_text())
    assert found
    return int(found[1].rstrip("uUlL"), 0)


def reply(payload: bytes, status: int = 0, length: int | None = None) -> bytes:
    return struct.pack("<Ii", len(payload) if length is None else length, status) + payload


WELCOMES = {
    "nothing of the answer": b"",
    "half of the answer": struct.pack("<I", 0),
    "an answer with an endless text": struct.pack("<II", 3, 0xFFFFFFFF),
    "a status that does not exist": struct.pack("<II", 0xFFFFFFFF, 0),
    "a lane with a text": struct.pack("<II", 0, 5) + b"hello",
    "garbage": b"\xff" * 4096,
}


@pytest.mark.parametrize("kind", WELCOMES)
def test_an_answer_that_is_none(kind: str, client: Client, tmp_path: Path) -> None:
    def lie(connection: socket.socket) -> None:
        connection.sendall(WELCOMES[kind])
        connection.shutdown(socket.SHUT_RDWR)

    with server(tmp_path, lie) as address:
        done = client.run(START, GPU_KERNELS_AGENT=address)
    assert done.stdout.split() == [DEVICE_UNAVAILABLE], done.stderr
    assert "gpu-kernels: no GPU" in done.stderr


@pytest.mark.parametrize(
    "lie",
    [
        "another version",
        "no device",
        "a device too few",
        "a million devices",
        "too long",
        "a refusal of nothing",
    ],
)
def test_a_welcome_that_is_none(lie: str, client: Client, native: Build, tmp_path: Path) -> None:
    head = struct.pack("<III", 2, digest(native), 13000)
    snapshot = b"\xff" * 2000
    words = {
        "another version": reply(struct.pack("<IIII", 99, 0, 0, 1)),
        "no device": reply(head + struct.pack("<I", 0)),
        "a device too few": reply(head + struct.pack("<I", 2) + snapshot),
        "a million devices": reply(head + struct.pack("<I", 1 << 20) + snapshot * 20),
        "too long": reply(b"", length=0xFFFFFFFF),
        "a refusal of nothing": reply(b"", status=-1),
    }

    def answer(connection: socket.socket) -> None:
        connection.sendall(struct.pack("<II", 0, 0) + words[lie])
        if lie == "too long":
            connection.shutdown(socket.SHUT_RDWR)

    with server(tmp_path, answer) as address:
        done = client.run(START, GPU_KERNELS_AGENT=address)
    assert done.stdout.split() == [DEVICE_UNAVAILABLE], done.stderr
    assert "gpu-kernels: no GPU" in done.stderr


def test_a_server_that_accepts_and_says_nothing_is_given_up(client: Client, tmp_path: Path) -> None:
    with server(tmp_path, lambda connection: connection.sendall(struct.pack("<II", 0, 0))) as address:
        done = client.run(START, GPU_KERNELS_AGENT=address)
    assert done.stdout.split() == [DEVICE_UNAVAILABLE], done.stderr
    assert "says nothing" in done.stderr
