"""What a lane takes of the GPU server's memory: little while it is idle, and there are only so many."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_kernels.remoting.agent.own_memory import USUAL_LEAST_MIB
from tests.native_build import Build

from .minimal_agent import MinimalAgent
from .test_hostile_frames import COPY_IN, COPY_OUT, MEMORY_INFO, RawLane

MIB = 1 << 20
LIMIT_MIB = 256
CHUNK = 256 * 1024


@pytest.fixture
def small(tmp_path: Path, native: Build) -> Iterator[MinimalAgent]:
    """A worker that may take 256 MiB for itself; its driver has its memory elsewhere."""
    options = ("--host-memory-mib", str(LIMIT_MIB))
    with MinimalAgent(tmp_path, native.worker, native.recording_driver, options=options) as agent:
        yield agent


@pytest.fixture
def roomy(tmp_path: Path, native: Build) -> Iterator[MinimalAgent]:
    """A worker that may have a thousand lanes."""
    options = ("--host-memory-mib", "16384")
    with MinimalAgent(tmp_path, native.worker, native.recording_driver, options=options) as agent:
        yield agent


def own_bytes(agent: MinimalAgent) -> int:
    assert agent.worker is not None
    lines = Path(f"/proc/{agent.worker.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def lanes_of(agent: MinimalAgent, session: bytes, count: int) -> tuple[list[RawLane], list[RawLane]]:
    """So many lanes of one session, and those of them that were refused."""
    all_of_them = [RawLane(agent, session, number) for number in range(count)]
    refused = [lane for lane in all_of_them if lane.welcome[0] != 0]
    return [lane for lane in all_of_them if lane.welcome[0] == 0], refused


def test_a_thousand_idle_lanes_take_little(roomy: MinimalAgent) -> None:
    first = RawLane(roomy)
    before = own_bytes(roomy)
    lanes, refused = lanes_of(roomy, first.session, 1000)
    assert not refused or len(lanes) > 990
    assert lanes[-1].ask(MEMORY_INFO)[0] == 0
    assert own_bytes(roomy) - before < 128 * MIB


def test_more_lanes_than_the_limit_has_room_for_are_refused_in_words(small: MinimalAgent) -> None:
    lanes, refused = lanes_of(small, b"s" * 16, 200)
    assert len(lanes) * 2 * MIB <= LIMIT_MIB * MIB // 3
    assert len(refused) == 200 - len(lanes)
    said = refused[0].welcome[1].decode()
    assert f"{len(lanes)} connections" in said
    assert "worker_memory_mib" in said
    assert small.log.read_text().count("refused, there are") < 100, "a line of the log for each"
    assert lanes[0].ask(MEMORY_INFO)[0] == 0
    lanes.pop().socket.close()
    while RawLane(small, b"s" * 16, 500).welcome[0] != 0:  # until the worker has seen the end of that one
        pass


def test_the_smallest_usual_worker_serves_a_pool_of_threads_beside_a_few_processes(
    tmp_path: Path, native: Build
) -> None:
    options = ("--host-memory-mib", str(USUAL_LEAST_MIB))
    with MinimalAgent(tmp_path, native.worker, native.recording_driver, options=options) as agent:
        pool, refused = lanes_of(agent, b"n" * 16, 33)
        assert not refused
        others = [RawLane(agent, bytes([number]) * 16) for number in range(1, 17)]
        assert [lane.ask(MEMORY_INFO)[0] for lane in [*pool, *others]] == [0] * 49


def work(lane: RawLane, address: int, size: int) -> None:
    """Fills what a lane keeps: its buffer with a copy in, a chunk with one back."""
    for at in range(0, size, CHUNK):
        lane.post(COPY_IN, struct.pack("<3Q", address + at, CHUNK, 0) + bytes(CHUNK))
    lane.socket.sendall(lane.frame(COPY_OUT, struct.pack("<3Q", address, CHUNK, 0), lane.order))
    assert lane.reply()[0] == 0


def test_lanes_that_have_worked_give_back_what_they_had_grown_to(small: MinimalAgent) -> None:
    lanes = [RawLane(small) for _ in range(16)]
    addresses = [lane.allocate(MIB) for lane in lanes]
    idle = own_bytes(small)
    for lane, address in zip(lanes, addresses, strict=True):
        work(lane, address, MIB)
    device = len(lanes) * MIB  # the recording driver's memory is the worker's
    while own_bytes(small) > idle + device + 2 * MIB:
        time.sleep(0.05)
    for lane, address in zip(lanes, addresses, strict=True):
        work(lane, address, MIB)


def test_a_lane_works_beside_as_many_idle_ones_as_there_may_be(small: MinimalAgent) -> None:
    worker = RawLane(small)
    address = worker.allocate(4 * MIB)
    _, refused = lanes_of(small, b"i" * 16, 200)
    assert refused
    before = own_bytes(small)
    for _ in range(20):
        work(worker, address, 4 * MIB)
    assert own_bytes(small) - before < 8 * MIB
