"""Descriptions of graphs that no client of ours sends: refused, or the session ends, and the others go on."""

from __future__ import annotations

import struct

import pytest

from tests.both_ways import BothWays
from tests.forwarding.driver_api import INVALID_HANDLE, INVALID_VALUE, OUT_OF_MEMORY
from tests.forwarding.test_hostile_frames import EVENT, STREAM, RawLane, handle

PART, MAKE, SET, ENABLE, INPUT, RUN, OUTPUT, END = range(30, 38)
EXEC = 0x16
NOTHING, KERNEL, COPY, FILL, HOST, WAIT, RECORD = range(7)
GRAPH = handle(EXEC, 0)
MOST_IMAGE = 256 << 20


def step(kind: int, work: bytes = b"", after: tuple[int, ...] = (), *, size: int | None = None) -> bytes:
    edges = struct.pack(f"<{len(after)}I", *after)
    return struct.pack("<4I", kind, len(after), len(work) if size is None else size, 0) + edges + work


def box(address: int, width: int = 4, array: int = 0) -> bytes:
    return struct.pack("<7Q", address, width, 1, width, 1, 1, array)


def copy(to: int, source: int, to_image: int, from_image: int) -> bytes:
    return box(to) + box(source) + struct.pack("<2I", to_image, from_image)


def fill(address: int, width: int = 1, element: int = 4) -> bytes:
    return struct.pack("<4Q2I", address, 0, width, 1, 1, element)


def make(
    lane: RawLane, steps: list[bytes], *, image: int = 0, count: int | None = None, graph: int = GRAPH
) -> tuple[int, bytes]:
    lane.post(PART, struct.pack("<Q", graph) + b"".join(steps))
    total = len(steps) if count is None else count
    return lane.ask(MAKE, struct.pack("<3Q2I", graph, 0, image, total, 0))


MALFORMED = {
    "a step that waits for itself": [step(NOTHING, after=(0,))],
    "steps in a circle": [step(NOTHING, after=(1,)), step(NOTHING, after=(0,))],
    "a step that waits for one that is not there": [step(NOTHING), step(NOTHING, after=(7,))],
    "a doubled edge": [step(NOTHING), step(NOTHING), step(NOTHING, after=(0, 0))],
    "an unknown kind": [step(99)],
    "more bytes than there are": [step(FILL, fill(0), size=4000)],
    "bytes that nobody takes": [step(NOTHING, b"12345678")],
    "a fill cut short": [step(FILL, fill(0)[:8])],
    "a fill of three bytes": [step(FILL, fill(0, element=3))],
    "a copy out of its image": [step(COPY, copy(0, 61, 1, 1))],
    "a copy that is in a third place": [step(COPY, copy(0, 0, 2, 1))],
    "a function without a ticket": [step(HOST, bytes(8))],
    "a launch of nothing": [step(KERNEL, bytes(8))],
    "edges without end": [struct.pack("<4I", 0, 0xFFFFFFFF, 0, 0)],
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_description_that_cannot_be_ends_the_session(both: BothWays, name: str) -> None:
    bystander, lane = RawLane(both.agent), RawLane(both.agent)
    with pytest.raises(ConnectionError):
        make(lane, MALFORMED[name], image=64)
    assert bystander.allocate(64)


def test_a_head_that_lies_ends_the_session(both: BothWays) -> None:
    for image, count in ((MOST_IMAGE + 1, 1), (0, 2), (0, 0), (0, 1 << 20)):
        with pytest.raises(ConnectionError):
            make(RawLane(both.agent), [step(NOTHING)], image=image, count=count)
    with pytest.raises(ConnectionError):
        make(RawLane(both.agent), [step(NOTHING)], graph=handle(STREAM, 0))


def test_what_is_not_the_sessions_is_refused(both: BothWays) -> None:
    stranger, lane = RawLane(both.agent), RawLane(both.agent)
    launch = struct.pack("<2Q10I", handle(0x13, 9), 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0)
    assert make(lane, [step(KERNEL, launch)])[0] == INVALID_HANDLE
    assert make(lane, [step(RECORD, struct.pack("<Q", handle(EVENT, 3)))])[0] == INVALID_HANDLE
    assert make(lane, [step(FILL, fill(0x1000))])[0] == INVALID_VALUE
    address = lane.allocate(64)
    assert make(lane, [step(FILL, fill(address, width=1 << 62))])[0] == INVALID_VALUE
    assert make(lane, [step(COPY, copy(address, 0x1000, 0, 0))])[0] == INVALID_VALUE
    assert make(lane, [step(FILL, fill(address))])[0] == 0
    run = struct.pack("<3Q", GRAPH, 0, 0)
    stranger.post(RUN, run)
    assert stranger.ask(10)[0] == INVALID_HANDLE  # cuMemGetInfo tells the posted call's error
    stranger.post(END, struct.pack("<Q", GRAPH))  # ends nothing: what could not be made has none
    assert stranger.ask(10)[0] == 0
    lane.post(RUN, run)
    assert lane.ask(10)[0] == 0


@pytest.mark.parametrize(
    ("opcode", "payload"),
    [
        (SET, struct.pack("<Q2I", GRAPH, 5, FILL) + fill(0)),
        (SET, struct.pack("<Q2I", GRAPH, 0, KERNEL) + bytes(56)),
        (ENABLE, struct.pack("<Q2I", GRAPH, 5, 1)),
        (INPUT, struct.pack("<3Q", GRAPH, 64, 62) + b"1234"),
        (INPUT, struct.pack("<3Q", GRAPH, MOST_IMAGE + 1, 0) + b"1234"),
        (RUN, struct.pack("<3Q", GRAPH, 0, MOST_IMAGE + 1)),
        (RUN, struct.pack("<3Q", GRAPH, 0, 2)),
    ],
)
def test_a_call_that_does_not_fit_its_graph_ends_the_session(
    both: BothWays, opcode: int, payload: bytes
) -> None:
    lane = RawLane(both.agent)
    assert make(lane, [step(COPY, copy(0, 8, 1, 1))], image=64)[0] == 0
    lane.post(opcode, payload)
    assert lane.ended()


def test_the_images_of_a_session_are_bounded(both: BothWays) -> None:
    lane, answers = RawLane(both.agent), []
    for i in range(3):
        graph = handle(EXEC, i)
        answers.append(make(lane, [step(COPY, copy(0, 8, 1, 1))], image=MOST_IMAGE, graph=graph)[0])
    assert answers == [0, 0, OUT_OF_MEMORY]
    lane.post(END, struct.pack("<Q", handle(EXEC, 0)))
    assert make(lane, [step(COPY, copy(0, 8, 1, 1))], image=MOST_IMAGE, graph=handle(EXEC, 4))[0] == 0
