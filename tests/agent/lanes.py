"""A client of the data port, for tests: raw bytes out, what came back in."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from tests.agent.fake_controller import Granted

LAYOUT = struct.Struct("<8sHHI16sQ40s32s16s")


def hello(
    lease: Granted, *, flags: int = 0, version: int = 1, magic: bytes = b"GPUKHELO", **changed: Any
) -> bytes:
    """The Hello of docs/design.md, written down a second time so that the agent's reading is checked."""
    return LAYOUT.pack(
        magic,
        version,
        flags,
        changed.get("lane", 0),
        changed.get("session", os.urandom(16)),
        changed.get("epoch", lease.epoch),
        changed.get("lease_id", lease.id).encode(),
        changed.get("secret", lease.secret),
        changed.get("zero", bytes(16)),
    )


@dataclass
class Lane:
    """An accepted lane to an ``echo_worker``; ``facts`` is what the worker said of itself."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    facts: dict[str, Any]

    async def say(self, line: str) -> None:
        self.writer.write(line.encode() + b"\n")
        await self.writer.drain()

    async def ask(self, line: str) -> str:
        await self.say(line)
        return (await self.reader.readline()).decode().rstrip("\n")

    async def ended(self) -> None:
        """Wait until the worker's end is closed."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(4096):
                pass


async def connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.startswith("unix://"):
        return await asyncio.open_unix_connection(address.removeprefix("unix://"))
    host, port = address.removeprefix("tcp://").rsplit(":", 1)
    return await asyncio.open_connection(host.strip("[]"), int(port))


async def exchange(address: str, data: bytes, *, half_close: bool = False) -> tuple[int, str]:
    """Send these bytes; the status and text of the answer, up to the end of the connection."""
    reader, writer = await connect(address)
    try:
        writer.write(data)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        if half_close:
            writer.write_eof()
        status, length = struct.unpack("<II", await reader.readexactly(8))
        text = await reader.read(length + 1)
        assert len(text) == length, "the answer's length must be what follows"
        return status, text.decode()
    finally:
        writer.close()


@contextlib.asynccontextmanager
async def lane(address: str, lease: Granted, **changed: Any) -> AsyncIterator[Lane]:
    reader, writer = await connect(address)
    try:
        writer.write(hello(lease, **changed))
        status, length = struct.unpack("<II", await reader.readexactly(8))
        assert (status, length) == (0, 0), (status, await reader.read(length))
        yield Lane(reader, writer, json.loads(await reader.readline()))
    finally:
        writer.close()


async def slices(address: str, lease: Granted) -> list[dict[str, Any]]:
    """What a status query answers."""
    status, text = await exchange(address, hello(lease, flags=1))
    assert status == 0, text
    return json.loads(text)
