"""Frames that no client of ours sends: the session ends with a line in the log, and the others go on."""

from __future__ import annotations

import os
import random
import re
import socket
import struct

import pytest

from tests.native_build import Build

from .driver_api import INVALID_HANDLE, INVALID_VALUE, OUT_OF_MEMORY
from .minimal_agent import MinimalAgent

FRAME = struct.Struct("<IHBBQ")
REPLY = struct.Struct("<Ii")
REPLY_LENGTH = (1 << 30) - 1  # above it are the bits that say what waits
LAUNCH, COPY_IN, COPY_OUT, ALLOCATE, LOAD, UPLOAD, UNLOAD, GET_GLOBAL, LINK, MEMORY_INFO = range(1, 11)
SET_ATTRIBUTE, COPY_BOX_IN, COPY_BOX_OUT, COPY_BOX, END_CONTEXT = 12, 13, 14, 15, 22
STREAM, EVENT, LIBRARY = 0x11, 0x12, 0x13


def handle(kind: int, index: int, generation: int = 1) -> int:
    return kind << 56 | generation << 32 | index


class RawLane:
    """A client that can lie."""

    def __init__(self, agent: MinimalAgent, session: bytes | None = None, number: int = 0) -> None:
        self.session = session or os.urandom(16)
        self.socket: socket.socket = agent.lane(self.session, number)
        self.order = 0
        self.welcome = self.reply()

    def frame(self, opcode: int, payload: bytes, order: int, device: int = 0, flags: int = 0) -> bytes:
        return FRAME.pack(len(payload), opcode, device, flags, order) + payload

    def post(self, opcode: int, payload: bytes) -> None:
        self.order += 1
        self.socket.sendall(self.frame(opcode, payload, self.order))

    def ask(self, opcode: int, payload: bytes = b"") -> tuple[int, bytes]:
        self.socket.sendall(self.frame(opcode, payload, self.order))
        return self.reply()

    def reply(self) -> tuple[int, bytes]:
        length, status = REPLY.unpack(self.receive(REPLY.size))
        return status, self.receive(length & REPLY_LENGTH)

    def receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise ConnectionError
            data += part
        return data

    def ended(self) -> bool:
        """Waits until the worker has closed the connection; what it sends before is not looked at."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionError:
            return True
        return True

    def allocate(self, size: int) -> int:
        status, payload = self.ask(ALLOCATE, struct.pack("<IIQQQQ", 0, 0, size, 0, 0, 0))
        assert status == 0
        return int(struct.unpack("<QQQ", payload)[0])


@pytest.fixture
def opcodes(native: Build) -> dict[str, int]:
    text = (native.generated / "calls_wire.h").read_text()
    return {name: int(number) for name, number in re.findall(r"kOp_(\w+) = (\d+)", text)}


@pytest.fixture
def bystander(agent: MinimalAgent) -> RawLane:
    """Another session of the lease: it must not notice."""
    return RawLane(agent)


def garbage(seed: int) -> bytes:
    return random.Random(seed).randbytes(4096)


FRAMES = {
    "garbage": garbage(1),
    "more garbage": garbage(2),
    "an oversized length": FRAME.pack(0xFFFFFFFF, LAUNCH, 0, 0, 1),
    "a length just too large": FRAME.pack(1024 * 1024 + 1, COPY_IN, 0, 0, 1),
    "opcode zero": FRAME.pack(0, 0, 0, 0, 1),
    "an unknown opcode": FRAME.pack(0, 63, 0, 0, 1),
    "the largest opcode": FRAME.pack(0, 65535, 0, 0, 1),
    "a device that is not there": FRAME.pack(0, MEMORY_INFO, 1, 0, 0),
    "a posted call without a number": FRAME.pack(0, END_CONTEXT, 0, 0, 0),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: gpu\r\n\r\n" + bytes(64),
    "a launch cut short": FRAME.pack(8, LAUNCH, 0, 0, 1) + bytes(8),
    "a launch with too many attributes": FRAME.pack(56, LAUNCH, 0, 0, 1)
    + struct.pack("<QQIIIIIIIIII", 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 33, 0),
    "a launch with parameters that are not there": FRAME.pack(56, LAUNCH, 0, 0, 1)
    + struct.pack("<QQIIIIIIIIII", 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 4000),
    "a copy with too few bytes": FRAME.pack(30, COPY_IN, 0, 0, 1) + struct.pack("<QQQ", 0, 7, 0) + b"123456",
    "a copy with too many bytes": FRAME.pack(30, COPY_IN, 0, 0, 1) + struct.pack("<QQQ", 0, 5, 0) + b"123456",
    "a box of nothing": FRAME.pack(64, COPY_BOX_OUT, 0, 0, 0) + struct.pack("<8Q", 1, 1, 1, 1, 0, 1, 0, 0),
    "a box whose rows overlap": FRAME.pack(64, COPY_BOX_OUT, 0, 0, 0)
    + struct.pack("<8Q", 1, 1, 1, 2, 2, 1, 0, 0),
    "a box with more bytes than there can be": FRAME.pack(65, COPY_BOX_IN, 0, 0, 1)
    + struct.pack("<8Q", 1, 1 << 63, 4, 1 << 63, 4, 1, 0, 0)
    + b"1",
    "a box whose planes overlap": FRAME.pack(120, COPY_BOX, 0, 0, 1)
    + struct.pack("<15Q", 1, 8, 1, 8, 2, 2, 0, 0, 1, 8, 2, 8, 2, 2, 0),
    "a copy of nothing": FRAME.pack(24, COPY_OUT, 0, 0, 0) + bytes(24),
    "an allocation of an unknown kind": FRAME.pack(40, ALLOCATE, 0, 0, 0)
    + struct.pack("<IIQQQQ", 9, 0, 8, 0, 0, 0),
    "an image with another digest": FRAME.pack(72, LOAD, 0, 0, 0)
    + struct.pack("<Q32sQIIII", handle(LIBRARY, 0), bytes(32), 8, 1, 0, 0, 0)
    + b"entry k\n",
    "an image larger than any": FRAME.pack(64, LOAD, 0, 0, 0)
    + struct.pack("<Q32sQIIII", handle(LIBRARY, 0), bytes(32), 1 << 60, 0, 0, 0, 0),
    "a log larger than any": FRAME.pack(64, LOAD, 0, 0, 0)
    + struct.pack("<Q32sQIIII", handle(LIBRARY, 0), bytes(32), 8, 0, 0, 1 << 31, 0),
    "a JIT option with a pointer": FRAME.pack(80, LOAD, 0, 0, 0)
    + struct.pack("<Q32sQIIII", handle(LIBRARY, 0), bytes(32), 8, 0, 1, 0, 0)
    + struct.pack("<IIQ", 3, 0, 0xDEADBEEF),
    "a launch attribute that is none of those that are allowed": FRAME.pack(128, LAUNCH, 0, 0, 1)
    + struct.pack("<QQIIIIIIIIII", 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 1, 0)
    + struct.pack("<II", 99, 0)
    + b"A" * 64,
    "a launch attribute with an address": FRAME.pack(128, LAUNCH, 0, 0, 1)
    + struct.pack("<QQIIIIIIIIII", 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 1, 0)
    + struct.pack("<II", 1, 0)
    + b"A" * 64,
    "a library with the handle of a stream": FRAME.pack(64, LOAD, 0, 0, 0)
    + struct.pack("<Q32sQIIII", handle(STREAM, 0), bytes(32), 8, 0, 0, 0, 0),
    "an upload that starts in the middle": FRAME.pack(52, UPLOAD, 0, 0, 1)
    + struct.pack("<32sQQ", bytes(32), 10, 20)
    + b"1234",
    "an upload of nothing": FRAME.pack(48, UPLOAD, 0, 0, 1) + struct.pack("<32sQQ", bytes(32), 0, 0),
    "an upload with another digest": FRAME.pack(52, UPLOAD, 0, 0, 1)
    + struct.pack("<32sQQ", bytes(32), 0, 4)
    + b"1234",
    "a global with an endless name": FRAME.pack(16, GET_GLOBAL, 0, 0, 0)
    + struct.pack("<QII", handle(LIBRARY, 0), 1 << 31, 0),
    "a link with inputs that are not there": FRAME.pack(16, LINK, 0, 0, 0)
    + struct.pack("<IIII", 200, 0, 0, 0),
    "a link with a million inputs": FRAME.pack(16, LINK, 0, 0, 0) + struct.pack("<IIII", 1 << 20, 0, 0, 0),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_that_no_client_sends_ends_its_session_alone(
    kind: str, agent: MinimalAgent, bystander: RawLane
) -> None:
    liar = RawLane(agent)
    liar.socket.sendall(FRAMES[kind])
    assert liar.ended()
    assert "cannot be accepted" in agent.log.read_text()
    status, payload = bystander.ask(MEMORY_INFO)
    assert status == 0
    assert struct.unpack("<QQ", payload)[1] == 64 << 20
    assert bystander.allocate(1000)
    assert RawLane(agent).ask(MEMORY_INFO)[0] == 0  # and new sessions are served


def test_a_frame_cut_off_by_the_end_of_the_connection(agent: MinimalAgent, bystander: RawLane) -> None:
    whole = FRAME.pack(40, ALLOCATE, 0, 0, 0) + struct.pack("<IIQQQQ", 0, 0, 8, 0, 0, 0)
    for cut in (1, 15, 16, 20, len(whole) - 1):
        liar = RawLane(agent)
        liar.socket.sendall(whole[:cut])
        liar.socket.shutdown(socket.SHUT_WR)
        assert liar.ended()
    assert bystander.ask(MEMORY_INFO)[0] == 0


def test_all_lanes_of_a_session_end_with_one(agent: MinimalAgent) -> None:
    first = RawLane(agent)
    second = RawLane(agent, first.session, 1)
    assert second.ask(MEMORY_INFO)[0] == 0
    first.socket.sendall(garbage(3))
    assert first.ended()
    assert second.ended()


def test_a_lane_number_is_given_once(agent: MinimalAgent) -> None:
    first = RawLane(agent)
    status, text = RawLane(agent, first.session, 0).welcome
    assert status != 0
    assert text
    assert first.ask(MEMORY_INFO)[0] == 0


def test_numbers_that_were_used_end_the_session(agent: MinimalAgent) -> None:
    lane = RawLane(agent)
    lane.post(END_CONTEXT, b"")
    lane.socket.sendall(lane.frame(END_CONTEXT, b"", lane.order))
    assert lane.ended()


def test_a_number_that_never_comes_stops_nobody_else(agent: MinimalAgent, bystander: RawLane) -> None:
    liar = RawLane(agent)
    liar.socket.sendall(liar.frame(END_CONTEXT, b"", 1_000_000))
    liar.socket.sendall(liar.frame(MEMORY_INFO, b"", 2_000_000))
    assert bystander.ask(MEMORY_INFO)[0] == 0
    liar.socket.close()
    assert bystander.ask(MEMORY_INFO)[0] == 0


def test_handles_of_another_session_are_not_known(agent: MinimalAgent, opcodes: dict[str, int]) -> None:
    owner, thief = RawLane(agent), RawLane(agent)
    event = handle(EVENT, 7)
    owner.post(opcodes["cuEventCreate"], struct.pack("<QI", event, 0))
    assert owner.ask(opcodes["cuEventQuery"], struct.pack("<Q", event))[0] == 0
    assert thief.ask(opcodes["cuEventQuery"], struct.pack("<Q", event))[0] == INVALID_HANDLE
    thief.post(opcodes["cuEventDestroy_v2"], struct.pack("<Q", event))
    assert thief.ask(opcodes["cuCtxSynchronize"])[0] == INVALID_HANDLE
    assert owner.ask(opcodes["cuEventQuery"], struct.pack("<Q", event))[0] == 0


def test_wrong_handles_are_errors_and_no_more(agent: MinimalAgent, opcodes: dict[str, int]) -> None:
    lane = RawLane(agent)
    for stream in (3, 16, handle(STREAM, 0), handle(EVENT, 0), 0xFFFFFFFFFFFFFFFF, 0x7F0000001000):
        message = struct.pack("<Q", stream)
        assert lane.ask(opcodes["cuStreamSynchronize"], message)[0] == INVALID_HANDLE
    launch = struct.pack("<QQIIIIIIIIII", handle(LIBRARY, 5), 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0)
    lane.post(LAUNCH, launch)
    assert lane.ask(opcodes["cuCtxSynchronize"])[0] == INVALID_HANDLE
    lane.post(UNLOAD, struct.pack("<Q", handle(LIBRARY, 5)))
    assert lane.ask(opcodes["cuCtxSynchronize"])[0] == INVALID_HANDLE


def test_a_handle_cannot_be_minted_twice(agent: MinimalAgent, opcodes: dict[str, int]) -> None:
    lane = RawLane(agent)
    message = struct.pack("<QIi", handle(STREAM, 1), 0, 0)
    lane.post(opcodes["cuStreamCreateWithPriority"], message)
    lane.post(opcodes["cuStreamCreateWithPriority"], message)
    assert lane.ended()


def test_a_handle_of_the_wrong_kind_cannot_be_minted(agent: MinimalAgent, opcodes: dict[str, int]) -> None:
    for minted in (0, 2, handle(EVENT, 1), 0x7F0000001000):
        lane = RawLane(agent)
        lane.post(opcodes["cuStreamCreateWithPriority"], struct.pack("<QIi", minted, 0, 0))
        assert lane.ended()


def test_memory_outside_the_lease_cannot_be_touched(agent: MinimalAgent, opcodes: dict[str, int]) -> None:
    lane = RawLane(agent)
    inside = lane.allocate(4096)
    targets = [
        (0, 1),
        (inside - 1, 1),
        (inside, 4097),
        (inside + 4096, 1),
        (inside, (1 << 64) - 1),
        (1 << 63, 8),
    ]
    for address, size in targets:
        assert lane.ask(COPY_OUT, struct.pack("<QQQ", address, size, 0))[0] == INVALID_VALUE
        lane.post(opcodes["cuMemsetD8_v2"], struct.pack("<QBQ", address, 0, size))
        assert lane.ask(opcodes["cuCtxSynchronize"])[0] == INVALID_VALUE
        assert (
            lane.ask(COPY_BOX_OUT, struct.pack("<8Q", address, size, 1, size, 1, 1, 0, 0))[0] == INVALID_VALUE
        )
        ends = (
            struct.pack("<8Q", inside, size, 1, size, 1, 1, 0, 0),
            struct.pack("<7Q", address, size, 1, 0, 0, 0, 0),
        )
        lane.post(COPY_BOX, ends[0] + ends[1])
        assert lane.ask(opcodes["cuCtxSynchronize"])[0] == INVALID_VALUE
    pitch, width, rows = (1 << 63, 1 << 62, 1 << 40)
    message = struct.pack("<QQBQQ", inside, pitch, 0, width, rows)
    lane.post(opcodes["cuMemsetD2D8_v2"], message)
    assert lane.ask(opcodes["cuCtxSynchronize"])[0] == INVALID_VALUE
    for shape in [
        (1, 1 << 62, 1, 1 << 62, 4),
        (1 << 63, 1 << 63, 8, 3, 3),
        (4096, 1, 1, 2, 1),
        (64, 64, 64, 1, 2),
    ]:
        assert lane.ask(COPY_BOX_OUT, struct.pack("<8Q", inside, *shape, 0, 0))[0] == INVALID_VALUE
    lane.post(COPY_BOX_IN, struct.pack("<8Q", inside, 4096, 1, 1, 2, 1, 0, 0) + b"ab")
    assert lane.ask(opcodes["cuCtxSynchronize"])[0] == INVALID_VALUE


def test_allocations_that_overflow_are_out_of_memory(agent: MinimalAgent) -> None:
    lane = RawLane(agent)
    for kind, size, rows in [
        (0, (1 << 64) - 1, 0),
        (1, 1 << 63, 1 << 63),
        (1, (1 << 64) - 1, 1),
        (2, 1 << 50, 0),
    ]:
        assert lane.ask(ALLOCATE, struct.pack("<IIQQQQ", kind, 4, size, rows, 0, 0))[0] == OUT_OF_MEMORY
    assert lane.ask(ALLOCATE, struct.pack("<IIQQQQ", 0, 0, 0, 0, 0, 0))[0] == INVALID_VALUE


def test_packets_from_the_agent_that_are_no_connections_are_passed_over(agent: MinimalAgent) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        agent.hand_over(theirs, b"not a hello")
        agent.hand_over(theirs, bytes(128))
    assert RawLane(agent).ask(MEMORY_INFO)[0] == 0


def test_random_frames_never_take_the_worker_down(agent: MinimalAgent, opcodes: dict[str, int]) -> None:
    """Well-formed headers with random payloads reach every handler."""
    dice = random.Random(20)
    known = [*range(1, 43), *opcodes.values()]
    for _ in range(300):
        lane = RawLane(agent)
        stream = b""
        for order in range(1, 6):
            payload = dice.randbytes(dice.choice((0, 1, 4, 8, 12, 16, 24, 32, 56, 64, 100, 300)))
            small = bytes(b if dice.random() < 0.3 else 0 for b in payload)
            stream += lane.frame(
                dice.choice(known), dice.choice((payload, small)), order, flags=dice.choice((0, 1, 2))
            )
        lane.socket.sendall(stream)
        lane.socket.close()
    assert RawLane(agent).ask(MEMORY_INFO)[0] == 0
    assert agent.worker is not None
    assert agent.worker.poll() is None
