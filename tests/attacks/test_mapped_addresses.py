"""A worker that was taken over says where managed memory lies: it lays nothing over the client's memory."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.forwarding.minimal_agent import HELLO, MinimalAgent
from tests.forwarding.recorded import Client, native
from tests.forwarding.test_hostile_frames import REPLY, REPLY_LENGTH
from tests.memory.mapped import MIB, PRELUDE
from tests.native_build import Build

__all__ = ["native"]
pytestmark = pytest.mark.native
ALLOCATED = struct.Struct("<QQQ")
OWN = 0x2000_0000_0000
LIES = {
    "over the program's memory, where device memory lies": (OWN, None),
    "half over it": (OWN - 4096, None),
    "in the midst of a page of it": (OWN - 8, None),
    "in the kernel's half": (2**63, None),
    "at the end": (2**64 - 4096, None),
    "beyond the file": (OWN, MIB << 20),
    "at a place that wraps": (OWN, 2**64 - 4096),
}


@dataclass
class LyingAgent(MinimalAgent):
    """What its worker answers with an address and a place is changed on its way."""

    lie: tuple[int, int | None] = (0, None)

    def hand_over(self, connection: socket.socket, hello: bytes) -> None:
        if HELLO.unpack(hello)[2] != 0:  # a passage
            super().hand_over(connection, hello)
            return
        ours, theirs = socket.socketpair()
        with theirs:
            super().hand_over(theirs, hello)
        client = connection.dup()
        for act in (self._forward, self._lie):
            threading.Thread(target=act, args=(client, ours), daemon=True).start()

    def _forward(self, client: socket.socket, worker: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 16):
                worker.sendall(data)
            worker.shutdown(socket.SHUT_WR)

    def _lie(self, client: socket.socket, worker: socket.socket) -> None:
        address, place = self.lie
        with suppress(OSError), worker.makefile("rb") as replies:
            while len(head := replies.read(REPLY.size)) == REPLY.size:
                payload = replies.read(REPLY.unpack(head)[0] & REPLY_LENGTH)
                if len(payload) == ALLOCATED.size:
                    _, pitch, its_place = ALLOCATED.unpack(payload)
                    payload = ALLOCATED.pack(address, pitch, its_place if place is None else place)
                client.sendall(head + payload)
            client.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def lying(request: pytest.FixtureRequest, tmp_path: Path, native: Build) -> Iterator[Client]:
    settings = {"GPU_KERNELS_SOFTGPU_MEMORY_MIB": str(MIB)}
    agent = LyingAgent(tmp_path, native.worker, native.software, mib=MIB, environment=settings, shares=True)
    agent.lie = request.param
    with agent:
        client = Client(agent, native)
        client.prelude += PRELUDE
        yield client


@pytest.mark.parametrize("lying", LIES.values(), ids=LIES.keys(), indirect=True)
def test_managed_memory_is_refused_and_what_the_program_has_stays(lying: Client) -> None:
    out = lying.check(f"""
        c = Cuda()
        libc = ctypes.CDLL(None)
        libc.mmap.restype = U64
        # Private, without a name, and nowhere else.
        at = libc.mmap(U64({OWN}), SIZE(4096), INT(3), INT(0x100022), INT(-1), ctypes.c_long(0))
        assert at == {OWN}
        ctypes.memset(at, 7, 4096)
        print(c.status("cuMemAllocManaged", ctypes.byref(U64()), SIZE(8192), UINT(1)))
        print(ctypes.string_at(at, 4096) == b"\\7" * 4096)
    """)
    assert out == "801\nTrue\n"
