"""Texture and surface objects that no client of ours makes."""

from __future__ import annotations

import struct

import pytest

from .driver_api import INVALID_HANDLE, INVALID_VALUE
from .minimal_agent import MinimalAgent
from .test_hostile_arrays import MAKE as MAKE_ARRAY
from .test_hostile_arrays import MIPMAPPED, ONE, head
from .test_hostile_frames import MEMORY_INFO, RawLane, handle, opcodes
from .test_hostile_sessions import software_agent

__all__ = ["opcodes", "software_agent"]

MAKE, END = 45, 46
ARRAY, OF_LEVELS, LINEAR, PITCHED = range(4)
FLOAT, SURFACE = 32, 2
HUGE = (1 << 64) - 1


def texture(
    kind: int = ARRAY,
    source: int = ONE,
    size: tuple[int, int, int] = (0, 0, 0),
    is_surface: int = 0,
    of: int = FLOAT,
    modes: tuple[int, int, int] = (0, 0, 0),
    flags: int = 0,
    view: tuple[int, ...] = (0, 0, 0, 0, 0, 0, 0, 0, 0),
) -> bytes:
    memory = struct.pack("<2IQ2I3Q", is_surface, kind, source, of, 1, *size)
    sampling = struct.pack("<3I4I7f", *modes, 0, flags, 0, 0, *[0.0] * 7)
    return memory + sampling + struct.pack("<2I3Q4I", *view)


MALFORMED = {
    "a head cut short": texture()[:-8],
    "a head with more behind it": texture() + bytes(8),
    "an object of a third kind": texture(is_surface=2),
    "half a view": texture(view=(2, 0, 0, 0, 0, 0, 0, 0, 0)),
    "a resource that is none": texture(9),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_head_that_no_client_sends_ends_its_session_alone(software_agent: MinimalAgent, name: str) -> None:
    bystander, lane = RawLane(software_agent), RawLane(software_agent)
    with pytest.raises(ConnectionError):
        lane.ask(MAKE, MALFORMED[name])
    assert bystander.ask(MEMORY_INFO)[0] == 0


def test_what_is_not_the_leases_or_cannot_be_is_refused(software_agent: MinimalAgent) -> None:
    lane = RawLane(software_agent)
    memory = lane.allocate(4096)
    assert lane.ask(MAKE_ARRAY, head())[0] == 0
    assert lane.ask(MAKE, texture(source=handle(0x23, 7)))[0] == INVALID_HANDLE
    assert lane.ask(MAKE, texture(OF_LEVELS))[0] == INVALID_HANDLE
    for refused in [
        texture(LINEAR, memory, (4100, 0, 0)),
        texture(LINEAR, memory, (HUGE, 0, 0)),
        texture(LINEAR, memory, (0, 0, 0)),
        texture(LINEAR, memory + 4, (64, 0, 0)),
        texture(LINEAR, 1 << 20, (64, 0, 0)),
        texture(LINEAR, memory, (64, 0, 0), of=0x91),
        texture(PITCHED, memory, (16, HUGE, 64)),
        texture(PITCHED, memory, (HUGE, 1, 64)),
        texture(PITCHED, memory, (16, 2, HUGE)),
        texture(PITCHED, memory, (16, 65, 64)),
        texture(is_surface=1),
        texture(LINEAR, memory, (64, 0, 0), is_surface=1),
        texture(modes=(0, 9, 0)),
        texture(flags=1 << 31),
        texture(view=(1, 0xFFFFFFFF, 16, 8, 0, 0, 0, 0, 0)),
        texture(view=(1, 0, 16, 9, 0, 0, 0, 0, 0)),
        texture(view=(1, 0, 16, 8, 0, 3, 2, 0, 0)),
        texture(LINEAR, memory, (64, 0, 0), view=(1, 0, 16, 0, 0, 0, 0, 0, 0)),
    ]:
        assert lane.ask(MAKE, refused) == (INVALID_VALUE, b"")
    assert lane.ask(MAKE, texture(LINEAR, memory, (4096, 0, 0)))[0] == 0


def test_an_object_is_given_up_by_its_own_session_once(
    software_agent: MinimalAgent, opcodes: dict[str, int]
) -> None:
    owner, stranger = RawLane(software_agent), RawLane(software_agent)
    assert owner.ask(MAKE_ARRAY, head(flags=SURFACE))[0] == 0
    made = [owner.ask(MAKE, texture(is_surface=is_surface)) for is_surface in (0, 1)]
    assert [status for status, _ in made] == [0, 0]
    for is_surface, (_, value) in enumerate(made):
        ends = [value + struct.pack("<2I", kind, 0) for kind in (is_surface, 1 - is_surface)]
        for lane, end, code in [
            (stranger, ends[0], INVALID_VALUE),
            (owner, ends[1], INVALID_VALUE),
            (owner, ends[0], 0),
            (owner, ends[0], INVALID_VALUE),
        ]:
            lane.post(END, end)
            assert lane.ask(opcodes["cuCtxSynchronize"])[0] == code


def test_an_object_keeps_its_array(software_agent: MinimalAgent, opcodes: dict[str, int]) -> None:
    lane, whole, levels = RawLane(software_agent), handle(MIPMAPPED, 0), (handle(0x23, 1), handle(0x23, 2))
    before = lane.ask(MEMORY_INFO)
    assert lane.ask(MAKE_ARRAY, head(whole, (512, 512, 0), levels=levels))[0] == 0
    status, value = lane.ask(MAKE, texture(OF_LEVELS, whole, flags=2))
    assert status == 0
    lane.post(44, struct.pack("<Q", whole))
    assert lane.ask(opcodes["cuCtxSynchronize"])[0] == 0
    assert lane.ask(MEMORY_INFO) != before
    lane.post(END, value + bytes(8))
    assert lane.ask(opcodes["cuCtxSynchronize"])[0] == 0
    assert lane.ask(MEMORY_INFO) == before
