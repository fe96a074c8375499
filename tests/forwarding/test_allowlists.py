"""What a client names by number reaches the driver only if it is one of those that may."""

from __future__ import annotations

import hashlib
import struct

import pytest

from .driver_api import INVALID_VALUE
from .minimal_agent import MinimalAgent
from .test_hostile_frames import LIBRARY, LOAD, MEMORY_INFO, SET_ATTRIBUTE, RawLane, handle

IMAGE = b"entry k 8\n"
TAKE_NOTICES = 40


def load(lane: RawLane, option: int, value: int) -> int:
    digest = hashlib.blake2b(IMAGE, digest_size=32).digest()
    head = struct.pack("<Q32sQIIII", handle(LIBRARY, 0), digest, len(IMAGE), 1, 1, 0, 0)
    return lane.ask(LOAD, head + struct.pack("<IIQ", option, 0, value) + IMAGE)[0]


@pytest.mark.parametrize(("option", "value"), [(99, 1), (35, 1), (34, 1), (0, 0x4141_4141_4141)])
def test_a_jit_option_that_is_not_allowed_is_refused_in_words_and_once(
    agent: MinimalAgent, option: int, value: int
) -> None:
    lane = RawLane(agent)
    assert [load(lane, option, value) for _ in range(3)] == [INVALID_VALUE] * 3
    said = lane.ask(TAKE_NOTICES)[1]
    assert said.count(f"the JIT option {option}".encode()) == 1
    assert load(lane, 0, 32) == 0  # registers, as before


def test_a_function_attribute_that_cannot_be_set_never_reaches_the_driver(agent: MinimalAgent) -> None:
    lane = RawLane(agent)
    assert load(lane, 0, 32) == 0
    for attribute in (99, 0, 8):
        lane.post(SET_ATTRIBUTE, struct.pack("<QIIiI", handle(LIBRARY, 0), 0, attribute, 1024, 0))
        assert lane.ask(MEMORY_INFO)[0] == (0 if attribute == 8 else INVALID_VALUE)
