"""Arrays, and copies of them, that no client of ours sends."""

from __future__ import annotations

import struct

import pytest

from .driver_api import INVALID_HANDLE, INVALID_VALUE, OUT_OF_MEMORY
from .minimal_agent import MinimalAgent
from .test_hostile_frames import MEMORY_INFO, RawLane, handle, opcodes
from .test_hostile_sessions import software_agent

__all__ = ["opcodes", "software_agent"]

MAKE, END, END_CONTEXT, BOX_IN, BOX_OUT, BOX = 43, 44, 22, 13, 14, 15
ARRAY, MIPMAPPED, STREAM = 0x23, 0x24, 0x11
FLOAT, NOT_SUPPORTED = 32, 801
HUGE = (1 << 64) - 1
ONE = handle(ARRAY, 0)


def head(
    array: int = ONE,
    size: tuple[int, int, int] = (16, 8, 0),
    channels: int = 1,
    flags: int = 0,
    levels: tuple[int, ...] = (),
    count: int | None = None,
    of: int = FLOAT,
) -> bytes:
    told = len(levels) if count is None else count
    return struct.pack("<4Q4I", array, *size, of, channels, flags, told) + struct.pack(
        f"<{len(levels)}Q", *levels
    )


def box(offset: int, width: int, height: int, depth: int, array: int = ONE, pitch: int = 64) -> bytes:
    return struct.pack("<7Q", offset, pitch, 8, width, height, depth, array)


LEVELS = (handle(ARRAY, 1), handle(ARRAY, 2))
MALFORMED = {
    "a head cut short": head()[:40],
    "a head with more behind it": head() + bytes(8),
    "a handle of another kind": head(handle(STREAM, 0)),
    "a mipmapped array under an array's handle": head(ONE, levels=LEVELS),
    "an array under a mipmapped one's handle": head(handle(MIPMAPPED, 0)),
    "levels that are not there": head(handle(MIPMAPPED, 0), levels=LEVELS, count=3),
    "more levels than there are": head(handle(MIPMAPPED, 0), levels=LEVELS, count=1),
    "levels without end": head(handle(MIPMAPPED, 0), levels=LEVELS, count=0xFFFFFFFF),
    "two levels under one handle": head(handle(MIPMAPPED, 0), levels=LEVELS[:1] * 2),
    "a level under a stream's handle": head(handle(MIPMAPPED, 0), levels=(handle(STREAM, 0),)),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_an_array_that_no_client_makes_ends_the_session(software_agent: MinimalAgent, name: str) -> None:
    bystander, lane = RawLane(software_agent), RawLane(software_agent)
    with pytest.raises(ConnectionError):
        lane.ask(MAKE, MALFORMED[name])
    assert bystander.ask(MEMORY_INFO)[0] == 0


def test_a_handle_that_is_taken_ends_the_session(software_agent: MinimalAgent) -> None:
    lane = RawLane(software_agent)
    assert lane.ask(MAKE, head())[0] == 0
    with pytest.raises(ConnectionError):
        lane.ask(MAKE, head())


@pytest.mark.parametrize(
    ("size", "code"),
    [
        ((0, 8, 0), INVALID_VALUE),
        ((16, 0, 3), INVALID_VALUE),
        ((HUGE, 1, 0), INVALID_VALUE),
        ((1 << 32, 1 << 32, 0), INVALID_VALUE),
        ((131073, 1, 0), INVALID_VALUE),
        ((16384, 16384, 16384), OUT_OF_MEMORY),
        ((131072, 65536, 0), OUT_OF_MEMORY),
        ((4096, 4096, 0), OUT_OF_MEMORY),
    ],
)
def test_sizes_are_looked_at_before_they_are_multiplied(
    software_agent: MinimalAgent, size: tuple[int, int, int], code: int
) -> None:
    lane = RawLane(software_agent)
    before = lane.ask(MEMORY_INFO)
    assert lane.ask(MAKE, head(size=size))[0] == code
    assert lane.ask(MEMORY_INFO) == before
    assert lane.ask(MAKE, head())[0] == 0  # the handle is free


@pytest.mark.parametrize(
    ("of", "channels", "flags", "code"),
    [
        (0, 1, 0, INVALID_VALUE),
        (0xFFFFFFFF, 1, 0, INVALID_VALUE),
        (0x91, 4, 0, NOT_SUPPORTED),
        (FLOAT, 3, 0, INVALID_VALUE),
        (FLOAT, 0xFFFFFFFF, 0, INVALID_VALUE),
        (FLOAT, 1, 0x40, NOT_SUPPORTED),
        (FLOAT, 1, 0x80000000, INVALID_VALUE),
        (FLOAT, 1, 4, INVALID_VALUE),
    ],
)
def test_what_is_no_array_is_refused(
    software_agent: MinimalAgent, of: int, channels: int, flags: int, code: int
) -> None:
    lane = RawLane(software_agent)
    assert lane.ask(MAKE, head(of=of, channels=channels, flags=flags))[0] == code
    assert lane.ask(MEMORY_INFO)[0] == 0


BEYOND = [
    (0, 68, 1, 1),
    (0, 64, 9, 1),
    (0, 64, 1, 2),
    (4, 64, 1, 1),
    (0, 2, 1, 1),
    (2, 4, 1, 1),
    (512, 4, 1, 1),
    (HUGE, 4, 1, 1),
    (1 << 63, 4, 1, 1),
    (448, 64, 2, 1),
]


@pytest.mark.parametrize("where", BEYOND, ids=str)
def test_a_box_beyond_its_array_is_refused(
    software_agent: MinimalAgent, opcodes: dict[str, int], where: tuple[int, int, int, int]
) -> None:
    lane = RawLane(software_agent)
    assert lane.ask(MAKE, head())[0] == 0
    memory = lane.allocate(4096)
    there, stream = box(*where, pitch=128), struct.pack("<Q", 0)
    here = struct.pack("<7Q", memory, 128, 8, *where[1:], 0)
    size = where[1] * where[2] * where[3]
    assert lane.ask(BOX_OUT, there + stream)[0] == INVALID_VALUE
    for opcode, payload in [
        (BOX_IN, there + stream + bytes(size)),
        (BOX, there + stream + here),
        (BOX, here + stream + there),
    ]:
        lane.post(opcode, payload)
        assert lane.ask(opcodes["cuCtxSynchronize"])[0] == INVALID_VALUE


@pytest.mark.parametrize(("pitch", "rows"), [(1 << 20, 64), (8192, 1 << 40), (HUGE, HUGE), (4096, 512)])
def test_rows_lie_as_the_array_has_them_whatever_a_box_says(
    software_agent: MinimalAgent, pitch: int, rows: int
) -> None:
    """Also in the later pieces of a box that is larger than one frame."""
    lane = RawLane(software_agent)
    width, height = 1024, 2048  # of four bytes
    assert lane.ask(MAKE, head(size=(width, height, 0)))[0] == 0
    stream = struct.pack("<Q", 0)
    numbered = b"".join(struct.pack("<I", row) * width for row in range(height))
    for first in range(0, height, 128):
        part = struct.pack("<7Q", first * 4 * width, 4 * width, height, 4 * width, 128, 1, ONE)
        lane.post(BOX_IN, part + stream + numbered[first * 4 * width : (first + 128) * 4 * width])
    whole = struct.pack("<7Q", 0, pitch, rows, 4 * width, height, 1, ONE)
    lane.socket.sendall(lane.frame(BOX_OUT, whole + stream, lane.order))
    found = b""
    while len(found) < len(numbered):
        status, piece = lane.reply()
        assert status == 0
        found += piece
    assert found == numbered


def test_an_array_of_another_session_is_none(software_agent: MinimalAgent, opcodes: dict[str, int]) -> None:
    owner, stranger = RawLane(software_agent), RawLane(software_agent)
    assert owner.ask(MAKE, head())[0] == 0
    stream = struct.pack("<Q", 0)
    assert stranger.ask(BOX_OUT, box(0, 64, 1, 1) + stream)[0] == INVALID_HANDLE
    for opcode, payload in [(BOX_IN, box(0, 4, 1, 1) + stream + bytes(4)), (END, struct.pack("<Q", ONE))]:
        stranger.post(opcode, payload)
        assert stranger.ask(opcodes["cuCtxSynchronize"])[0] == INVALID_HANDLE
    stranger.post(END_CONTEXT, struct.pack("<Q", ONE))
    assert owner.ask(BOX_OUT, box(0, 64, 1, 1) + stream)[0] == 0


def test_a_level_goes_with_its_mipmapped_array_alone(
    software_agent: MinimalAgent, opcodes: dict[str, int]
) -> None:
    lane, whole = RawLane(software_agent), handle(MIPMAPPED, 0)
    before = lane.ask(MEMORY_INFO)
    assert lane.ask(MAKE, head(whole, levels=LEVELS))[0] == 0
    stream = struct.pack("<Q", 0)
    for level in LEVELS:
        lane.post(END, struct.pack("<Q", level))
        assert lane.ask(opcodes["cuCtxSynchronize"])[0] == INVALID_HANDLE
        assert lane.ask(BOX_OUT, box(0, 4, 1, 1, level) + stream)[0] == 0
    assert lane.ask(BOX_OUT, box(0, 64, 1, 1, LEVELS[1]) + stream)[0] == INVALID_VALUE
    lane.post(END, struct.pack("<Q", whole))
    assert lane.ask(opcodes["cuCtxSynchronize"])[0] == 0
    for level in LEVELS:
        assert lane.ask(BOX_OUT, box(0, 4, 1, 1, level) + stream)[0] == INVALID_HANDLE
    assert lane.ask(MEMORY_INFO) == before


def test_an_array_in_the_image_of_a_graph_ends_the_session(software_agent: MinimalAgent) -> None:
    part, make, copy = 30, 31, 2
    graph = handle(0x16, 0)
    lane = RawLane(software_agent)
    assert lane.ask(MAKE, head())[0] == 0
    work = box(0, 4, 1, 1) + box(0, 4, 1, 1, 0) + struct.pack("<2I", 1, 1)
    step = struct.pack("<4I", copy, 0, len(work), 0) + work
    lane.post(part, struct.pack("<Q", graph) + step)
    with pytest.raises(ConnectionError):
        lane.ask(make, struct.pack("<3Q2I", graph, 0, 64, 1, 0))
