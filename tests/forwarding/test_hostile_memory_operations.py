"""Memory operations of streams, and looks into memory, that no client of ours sends."""

from __future__ import annotations

import struct

import pytest

from .driver_api import INVALID_HANDLE, INVALID_VALUE, OUT_OF_MEMORY
from .minimal_agent import MinimalAgent
from .test_hostile_frames import ALLOCATE, COPY_OUT, MEMORY_INFO, STREAM, RawLane, handle, opcodes
from .test_hostile_sessions import software_agent

__all__ = ["opcodes", "software_agent"]

STREAM_MEMORY, MEMORY_LOOK, GRAPH_LOOK = 25, 26, 38
TAKE_NOTICES = 40
MOST_ENDED = 4096  # ending_frees.h
WAIT32, WRITE32, FLUSH, WAIT64, WRITE64, BARRIER, REDUCTION = 1, 2, 3, 4, 5, 6, 8
EQUAL, CHUNK = 1, 256 * 1024


def operation(kind: int, address: int = 64, value: int = 1, flags: int = 0) -> bytes:
    return struct.pack("<IIQQ", kind, flags, address, value)


def operations(*these: bytes, stream: int = 0, count: int | None = None) -> bytes:
    return struct.pack("<QII", stream, len(these) if count is None else count, 0) + b"".join(these)


def look(address: int, size: int, give: int = 0, data: bytes = b"") -> bytes:
    return struct.pack("<QII", address, size, give) + data


MALFORMED = {
    "a batch of nothing": (STREAM_MEMORY, operations()),
    "a batch larger than any": (STREAM_MEMORY, operations(*[operation(WRITE32)] * 256)),
    "a batch with fewer than it says": (STREAM_MEMORY, operations(operation(WRITE32), count=2)),
    "a batch with more than it says": (STREAM_MEMORY, operations(*[operation(WRITE32)] * 2, count=1)),
    "a batch with a count without end": (STREAM_MEMORY, operations(operation(WRITE32), count=2**32 - 1)),
    "a head cut short": (STREAM_MEMORY, bytes(8)),
    "an operation that is none": (STREAM_MEMORY, operations(operation(9))),
    "an operation that no client takes": (STREAM_MEMORY, operations(operation(FLUSH))),
    "a reduction": (STREAM_MEMORY, operations(operation(REDUCTION))),
    "a value across words": (STREAM_MEMORY, operations(operation(WRITE64, 68))),
    "a value at no address": (STREAM_MEMORY, operations(operation(WRITE32, 0))),
    "a comparison that is none": (STREAM_MEMORY, operations(operation(WAIT32, flags=4))),
    "a wait that flushes": (STREAM_MEMORY, operations(operation(WAIT32, flags=1 << 30))),
    "a write with flags": (STREAM_MEMORY, operations(operation(WRITE32, flags=1))),
    "a barrier for nobody": (STREAM_MEMORY, operations(operation(BARRIER, flags=2))),
    "a look at nothing": (MEMORY_LOOK, look(0, 0)),
    "a look at more than a message holds": (MEMORY_LOOK, look(0, CHUNK + 1)),
    "a look with bytes": (MEMORY_LOOK, look(0, 4, 0, b"1234")),
    "a gift without its bytes": (MEMORY_LOOK, look(0, 8, 1, b"1234")),
    "neither a look nor a gift": (MEMORY_LOOK, look(0, 4, 2, b"1234")),
    "a look cut short": (MEMORY_LOOK, bytes(12)),
    "neither into a graph": (GRAPH_LOOK, struct.pack("<QQII", 1, 0, 4, 2)),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_frame_that_no_client_sends_ends_its_session_alone(software_agent: MinimalAgent, name: str) -> None:
    bystander, liar = RawLane(software_agent), RawLane(software_agent)
    opcode, payload = MALFORMED[name]
    if opcode == STREAM_MEMORY:
        liar.post(opcode, payload)
    else:
        liar.socket.sendall(liar.frame(opcode, payload, 0))
    assert liar.ended()
    assert bystander.allocate(64)


def test_what_is_not_the_leases_is_refused(software_agent: MinimalAgent, opcodes: dict[str, int]) -> None:
    lane = RawLane(software_agent)
    own = lane.allocate(4096)
    for address in (8, own - 8, own + 4096, 2**64 - 8):
        lane.post(STREAM_MEMORY, operations(operation(WRITE64, own), operation(WRITE64, address)))
        assert lane.ask(opcodes["cuCtxSynchronize"])[0] == INVALID_VALUE
        assert lane.ask(MEMORY_LOOK, look(address, 8))[0] == INVALID_VALUE
        assert lane.ask(MEMORY_LOOK, look(address, 8, 1, bytes(8)))[0] == INVALID_VALUE
    assert lane.ask(MEMORY_LOOK, look(own + 4095, 2))[0] == INVALID_VALUE
    lane.post(STREAM_MEMORY, operations(operation(WRITE64, own), stream=handle(STREAM, 7)))
    assert lane.ask(opcodes["cuCtxSynchronize"])[0] == INVALID_HANDLE
    # A batch is done whole or not at all.
    assert lane.ask(MEMORY_LOOK, look(own, 8)) == (0, bytes(8))
    assert lane.ask(MEMORY_LOOK, look(own, 4, 1, b"gift")) == (0, b"")
    assert lane.ask(COPY_OUT, struct.pack("<QQQ", own, 8, 0)) == (0, b"gift\0\0\0\0")


def test_waits_without_end_go_with_their_session(
    software_agent: MinimalAgent, opcodes: dict[str, int]
) -> None:
    before = RawLane(software_agent).ask(MEMORY_INFO)
    lane, streams = RawLane(software_agent), 300
    memory = lane.allocate(4096)
    for number in range(streams):
        stream = handle(STREAM, number)
        lane.post(opcodes["cuStreamCreateWithPriority"], struct.pack("<QIi", stream, 0, 0))
        waits = [operation(WAIT32, memory, 1, EQUAL)] * 20
        lane.post(STREAM_MEMORY, operations(*waits, stream=stream))
    assert lane.ask(MEMORY_LOOK, look(memory, 4)) == (0, bytes(4))  # waits for nothing
    lane.socket.close()
    following = RawLane(software_agent)
    assert following.ask(opcodes["cuCtxSynchronize"])[0] == 0
    assert following.allocate(4096)
    assert before[0] == 0


def test_streams_that_end_before_their_frees_are_so_many_and_no_more(
    software_agent: MinimalAgent, opcodes: dict[str, int]
) -> None:
    """Each waits for a value that is not there, has a free behind that, and is destroyed."""
    lane = RawLane(software_agent)
    memory = lane.allocate(4096)
    lane.ask(MEMORY_LOOK, look(memory, 4, 1, bytes(4)))
    allocation = struct.pack("<IIQQQQ", 0, 0, 64, 0, 0, 0)
    for number in range(MOST_ENDED + 1):
        status, payload = lane.ask(ALLOCATE, allocation)
        if status != 0:
            break
        stream = handle(STREAM, number)
        lane.post(opcodes["cuStreamCreateWithPriority"], struct.pack("<QIi", stream, 1, 0))
        lane.post(STREAM_MEMORY, operations(operation(WAIT32, memory, 1, EQUAL), stream=stream))
        lane.post(opcodes["cuMemFreeAsync"], payload[:8] + struct.pack("<Q", stream))
        lane.post(opcodes["cuStreamDestroy_v2"], struct.pack("<Q", stream))
    assert (number, status) == (MOST_ENDED, OUT_OF_MEMORY)
    assert b"have ended before the memory that was freed in them" in lane.ask(TAKE_NOTICES)[1]
    assert lane.ask(MEMORY_LOOK, look(memory, 4, 1, struct.pack("<I", 1)))[0] == 0
    while lane.ask(ALLOCATE, allocation)[0] != 0:  # until they have come to their frees
        pass
