"""What the runtime writes to a person's terminal, when its text comes from another machine."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pytest

from tests.forwarding.minimal_agent import MinimalAgent
from tests.forwarding.recorded import Client, native
from tests.native_build import Build

__all__ = ["native"]
pytestmark = pytest.mark.native
NO_WORKER = 7
TEXT = "gone\x1b]0;renamed\x07 and\x1b[2J\nsecond\r\x7f \x9b31m line"


class RefusingAgent(MinimalAgent):
    def _answer(self, connection: socket.socket, hello: bytes) -> None:
        connection.sendall(struct.pack("<II", NO_WORKER, len(TEXT.encode())) + TEXT.encode())


def test_a_terminal_gets_no_control_characters_from_an_agent(tmp_path: Path, native: Build) -> None:
    driver = native.folder / "softgpu" / "libcuda.so.1"
    with RefusingAgent(tmp_path, native.worker, driver) as agent:
        log = tmp_path / "client.log"
        done = Client(agent, native).run("Cuda()", GPU_KERNELS_LOG=str(log))
    told = done.stderr[done.stderr.index("gpu-kernels: ") :]
    assert "renamed" in told
    assert "\nsecond" in told, "a text may have several lines"
    for text in (told, log.read_text()):
        assert not any(
            character < " " or "\x7f" <= character < "\xa0" for character in text.replace("\n", "")
        )
