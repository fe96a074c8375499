"""Lanes of one session that contradict each other: the worker stays whole, and other sessions are served."""

from __future__ import annotations

import functools
import hashlib
import struct
import threading
from collections.abc import Callable

import pytest

from tests.forwarding.minimal_agent import MinimalAgent
from tests.forwarding.recorded import agent, gate, native, record
from tests.forwarding.test_hostile_frames import (
    GET_GLOBAL,
    LIBRARY,
    LOAD,
    MEMORY_INFO,
    UPLOAD,
    RawLane,
    handle,
)

__all__ = ["agent", "gate", "native", "record"]
IMAGE = b"entry k\n"


def together(*actions: Callable[[], None]) -> None:
    """Runs the actions at the same time; a connection that is closed on one of them is an answer."""
    start = threading.Barrier(len(actions))

    def run(action: Callable[[], None]) -> None:
        start.wait()
        try:
            action()
        except ConnectionError:
            return

    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def load(lane: RawLane, library: int, image: bytes = IMAGE) -> None:
    digest = hashlib.blake2b(image, digest_size=32).digest()
    status, _ = lane.ask(LOAD, struct.pack("<Q32sQIIII", library, digest, len(image), 1, 0, 0, 0) + image)
    assert status == 0


@pytest.fixture
def bystander(agent: MinimalAgent) -> RawLane:
    return RawLane(agent)


def test_pieces_of_an_upload_that_come_twice_at_once(agent: MinimalAgent, bystander: RawLane) -> None:
    """Two lanes claim the same numbers: both may pass the check of the order at the same moment."""
    size, count = 50_000, 64
    payloads = [
        struct.pack("<32sQQ", bytes(32), place * size, count * size) + bytes(size)
        for place in range(count - 1)
    ]
    for _ in range(10):
        first = RawLane(agent)
        lanes = [first, *(RawLane(agent, first.session, number) for number in (1, 2, 3))]
        frames = b"".join(first.frame(UPLOAD, payload, n + 1) for n, payload in enumerate(payloads))
        together(*(functools.partial(lane.socket.sendall, frames) for lane in lanes))
        for lane in lanes:
            lane.socket.close()
        assert bystander.ask(MEMORY_INFO)[0] == 0


def test_an_upload_of_empty_pieces_ends_its_session(agent: MinimalAgent, bystander: RawLane) -> None:
    liar = RawLane(agent)
    liar.post(UPLOAD, struct.pack("<32sQQ", bytes(32), 0, 100))
    assert liar.ended()
    assert bystander.ask(MEMORY_INFO)[0] == 0


def test_a_variable_that_several_lanes_ask_for_at_once(agent: MinimalAgent, bystander: RawLane) -> None:
    first = RawLane(agent)
    library = handle(LIBRARY, 1)
    load(first, library)
    lanes = [first, *(RawLane(agent, first.session, number) for number in (1, 2, 3))]
    question = struct.pack("<QII", library, 5, 0) + b"table"

    def ask(lane: RawLane) -> None:
        lane.socket.sendall(lane.frame(GET_GLOBAL, question, 0) * 500)
        for _ in range(500):
            assert lane.reply()[0] == 0

    together(*(functools.partial(ask, lane) for lane in lanes))
    for lane in lanes:
        assert lane.ask(MEMORY_INFO)[0] == 0
    assert bystander.ask(MEMORY_INFO)[0] == 0
