"""The protocol between client and worker: its version, and who knows its calls."""

from __future__ import annotations

import hashlib
import re
import socket
import struct
from pathlib import Path

from tests.native_build import ROOT, Build

from .minimal_agent import MinimalAgent
from .opcodes import handmade
from .recorded import Client
from .test_hostile_frames import REPLY

NATIVE = ROOT / "remoting/native"
# What the two sides say to each other, but what calls.txt makes (kCallsDigest covers it).
LAYOUTS = ("wire/protocol.h", "wire/box.h", "wire/graph_wire.h", "libraries/call.h")
VERSIONS = Path(__file__).parent / "protocol_versions.txt"


def without_comments(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)).strip()


OPCODES = handmade()


def test_a_change_of_the_layouts_is_a_new_version() -> None:
    text = " ".join(without_comments((NATIVE / name).read_text()) for name in LAYOUTS)
    version = re.search(r"kProtocolVersion = (\d+);", text)
    assert version
    digest = hashlib.sha256(text.replace(version[0], "").encode()).hexdigest()
    known = dict(line.split() for line in VERSIONS.read_text().splitlines() if not line.startswith("#"))
    assert list(known) == [str(number) for number in range(int(next(iter(known))), int(version[1]) + 1)]
    assert known[version[1]] == digest, (
        f"{', '.join(LAYOUTS)} are others than those of version {version[1]}: raise kProtocolVersion and add"
        f" the line '{int(version[1]) + 1} {digest}' to {VERSIONS.relative_to(ROOT)}. A line that is on main"
        " already is never changed: clients and workers of that version are out there"
    )


def test_numbers_of_calls_are_given_once() -> None:
    assert len(set(OPCODES.values())) == len(OPCODES)


class AnotherVersion(MinimalAgent):
    """Its worker's first words have another version of the protocol, and all else as it should be."""

    version = 0
    digest = 0

    def hand_over(self, connection: socket.socket, hello: bytes) -> None:
        welcome = struct.pack("<IIII", self.version, self.digest, 12040, 1)
        connection.sendall(REPLY.pack(len(welcome), 0) + welcome)


def test_a_server_of_another_version_is_told_as_one(tmp_path: Path, native: Build) -> None:
    known = re.search(r"kProtocolVersion = (\d+);", (NATIVE / "wire/protocol.h").read_text())
    calls = re.search(r"kCallsDigest = (0x\w+);", (native.generated / "calls_wire.h").read_text())
    assert known
    assert calls
    with AnotherVersion(tmp_path, native.worker, native.recording_driver) as agent:
        agent.digest = int(calls[1], 16)
        told = {}
        for version in (int(known[1]) - 1, int(known[1])):
            agent.version = version
            told[version] = Client(agent, native).run("Cuda()").stderr
    mismatch = "the GPU server runs another version of gpu-kernels"
    assert mismatch in told[int(known[1]) - 1]
    assert mismatch not in told[int(known[1])], "that one is only too short"


def test_the_fuzzer_makes_the_payload_of_every_call() -> None:
    text = (Path(__file__).parent / "native/hostile_frames.h").read_text()
    made = set(re.findall(r"case wire::(kOp\w+):", text))
    assert made == {f"kOp{name}" for name in OPCODES}
