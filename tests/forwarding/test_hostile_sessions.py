"""Sessions that misuse what the worker keeps for them: graphs' images, pools, functions of streams, names.

On the software GPU, which does what it is told: where a check is missing the worker's memory is damaged, and
the worker ends.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.graphs.test_hostile_descriptions import (
    COPY,
    END,
    GRAPH,
    INPUT,
    OUTPUT,
    RUN,
    copy,
    make,
    step,
)
from tests.native_build import Build, build

from .driver_api import INVALID_HANDLE, OUT_OF_MEMORY
from .minimal_agent import MinimalAgent, uuid_of
from .test_hostile_frames import (
    ALLOCATE,
    COPY_OUT,
    LIBRARY,
    LINK,
    LOAD,
    MEMORY_INFO,
    STREAM,
    RawLane,
    handle,
    opcodes,
)

__all__ = ["opcodes"]

CREATE_POOL, CREATE_MEMORY, SET_ACCESS, HOST_CALL, NEXT_HOST_CALL = 16, 18, 19, 20, 21
POOL, PHYSICAL = 0x21, 0x22
INVALID_IMAGE, ILLEGAL_ADDRESS = 200, 700
READ_WRITE = 3
STREAM_ORDERED = 2
MIB = 1 << 20
LARGE = 64 * MIB  # so large that the system takes it back when it is freed


@pytest.fixture
def software_agent(tmp_path: Path, native: Build) -> Iterator[MinimalAgent]:
    """A lease with 32 MiB of one software GPU and 8 MiB of another."""
    built = build(native.folder, "softgpu")
    environment = {
        "GPU_KERNELS_SOFTGPU_MEMORY_MIB": "128,128",
        "GPU_KERNELS_SOFTGPU_UUID": f"{uuid_of(0)},{uuid_of(1)}",
    }
    driver = built.folder / "softgpu" / "libcuda.so.1"
    with MinimalAgent(
        tmp_path, native.worker, driver, mib=32, further_mib=(8,), environment=environment
    ) as agent:
        yield agent


def goes_on(agent: MinimalAgent) -> bool:
    assert agent.worker is not None
    return RawLane(agent).ask(MEMORY_INFO)[0] == 0 and agent.worker.poll() is None


def allocate_from(lane: RawLane, pool: int, size: int) -> int:
    return lane.ask(ALLOCATE, struct.pack("<IIQQQQ", STREAM_ORDERED, 0, size, 0, 0, pool))[0]


def host_call(stream: int, ticket: int) -> bytes:
    return struct.pack("<QQII", stream, ticket, 0, 0)


def test_memory_of_a_pool_counts_against_the_slice_that_it_is_on(software_agent: MinimalAgent) -> None:
    lane = RawLane(software_agent)
    own = handle(POOL, 0)
    assert lane.ask(CREATE_POOL, struct.pack("<QQII", own, 0, 1, 0))[0] == 0
    for pool in (1, own):  # the second GPU's default pool is named by the GPU's number
        assert allocate_from(lane, pool, 9 * MIB) == OUT_OF_MEMORY
        assert allocate_from(lane, pool, 3 * MIB) == 0
    assert allocate_from(lane, own, 3 * MIB) == OUT_OF_MEMORY
    assert allocate_from(lane, 0, 30 * MIB) == 0


def test_refused_functions_that_nobody_asks_for_are_bounded(software_agent: MinimalAgent) -> None:
    lane, bystander = RawLane(software_agent), RawLane(software_agent)
    for _ in range(20):
        frames = b""
        for _ in range(1000):
            lane.order += 1
            frames += lane.frame(HOST_CALL, host_call(handle(STREAM, 7), 1), lane.order)
        try:
            lane.socket.sendall(frames)
        except OSError:
            break
    assert lane.ended()
    assert bystander.ask(MEMORY_INFO)[0] == 0


def test_nobody_enters_a_session_that_is_being_freed(software_agent: MinimalAgent) -> None:
    bystander = RawLane(software_agent)
    bystander.post(HOST_CALL, host_call(0, 1))  # never run: what comes after it in the default stream waits
    assert bystander.ask(NEXT_HOST_CALL, bytes(8))[0] == 0
    gone = RawLane(software_agent)
    gone.post(HOST_CALL, host_call(0, 1))
    assert gone.ask(MEMORY_INFO)[0] == 0
    gone.socket.close()
    for _ in range(100):
        status, text = RawLane(software_agent, gone.session).welcome
        assert status != 0, "a lane was let into a session whose last lane had gone"
        assert b"has ended" in text


def run(lane: RawLane, image: int, stream: int = 0) -> int:
    lane.post(RUN, struct.pack("<3Q", GRAPH, stream, image))
    return lane.ask(MEMORY_INFO)[0]  # tells the posted call's error


def test_an_image_stays_while_a_run_uses_it_whose_end_nobody_knows(
    software_agent: MinimalAgent, opcodes: dict[str, int]
) -> None:
    lane = RawLane(software_agent)
    address = lane.allocate(64)
    assert make(lane, [step(COPY, copy(LARGE - 4, address, 1, 0))], image=LARGE)[0] == 0
    stream = handle(STREAM, 1)
    create = struct.pack("<QIi", stream, 1, 0)
    lane.order += 1
    lane.socket.sendall(lane.frame(opcodes["cuStreamCreateWithPriority"], create, lane.order, device=1))
    lane.post(HOST_CALL, host_call(stream, 5))
    # An event of the first GPU cannot be recorded in a stream of the second.
    assert run(lane, LARGE, stream) == INVALID_HANDLE
    nothing_comes = (0, struct.pack("<I", 1))
    assert lane.ask(OUTPUT, struct.pack("<2Q2I", GRAPH, LARGE - 4, 4, 1)) == nothing_comes
    lane.post(END, struct.pack("<Q", GRAPH))
    assert lane.ask(MEMORY_INFO)[0] == 0
    called, done = struct.pack("<Q", 0), struct.pack("<Q", 5)
    assert struct.unpack("<Q", lane.ask(NEXT_HOST_CALL, called)[1][:8])[0] == 5
    lane.socket.sendall(lane.frame(NEXT_HOST_CALL, done, lane.order))  # the stream goes on
    waiting = RawLane(software_agent, lane.session, 1)
    waiting.order = lane.order
    assert waiting.ask(opcodes["cuStreamSynchronize"], struct.pack("<Q", stream))[0] == 0
    assert goes_on(software_agent)


def test_a_graph_whose_copies_could_not_all_be_moved_runs_on_no_lost_image(
    software_agent: MinimalAgent, opcodes: dict[str, int]
) -> None:
    lane = RawLane(software_agent)
    stays, goes = lane.allocate(64), lane.allocate(64)
    steps = [step(COPY, copy(stays, 0, 0, 1)), step(COPY, copy(goes, 0, 0, 1))]
    assert make(lane, steps, image=64)[0] == 0
    lane.post(opcodes["cuMemFree_v2"], struct.pack("<Q", goes))
    lane.post(INPUT, struct.pack("<3Q", GRAPH, LARGE, 0) + b"1234")
    moved = run(lane, LARGE)
    assert run(lane, 64) == moved
    lane.ask(opcodes["cuCtxSynchronize"])
    assert goes_on(software_agent)


def reserve(lane: RawLane, opcodes: dict[str, int], size: int, wanted: int = 0) -> int:
    status, payload = lane.ask(opcodes["cuMemAddressReserve"], struct.pack("<4Q", size, 0, wanted, 0))
    assert status == 0
    return int(struct.unpack("<Q", payload)[0])


def mapping(lane: RawLane, opcodes: dict[str, int], size: int = 2 * MIB) -> int:
    """Addresses with memory of the first GPU on them."""
    base, memory = reserve(lane, opcodes, size), handle(PHYSICAL, 0)
    for opcode, message in (
        (CREATE_MEMORY, struct.pack("<2Q", memory, size)),
        (opcodes["cuMemMap"], struct.pack("<5Q", base, size, 0, memory, 0)),
        (SET_ACCESS, struct.pack("<2Q2IQ", base, size, 0, READ_WRITE, 0)),
    ):
        assert lane.ask(opcode, message)[0] == 0
    return base


def test_a_graph_on_memory_that_is_no_longer_mapped_fails_as_on_a_gpu(
    software_agent: MinimalAgent, opcodes: dict[str, int]
) -> None:
    lane, bystander = RawLane(software_agent), RawLane(software_agent)
    base, address = mapping(lane, opcodes), lane.allocate(64)
    assert make(lane, [step(COPY, copy(base, address, 0, 0))])[0] == 0
    assert lane.ask(opcodes["cuMemUnmap"], struct.pack("<2Q", base, 2 * MIB))[0] == 0
    assert lane.ask(opcodes["cuMemAddressFree"], struct.pack("<2Q", base, 2 * MIB))[0] == 0
    lane.post(RUN, struct.pack("<3Q", GRAPH, 0, 0))
    assert lane.ask(opcodes["cuCtxSynchronize"])[0] == ILLEGAL_ADDRESS
    assert bystander.ask(MEMORY_INFO)[0] == ILLEGAL_ADDRESS  # told by the worker, which is there


def test_addresses_are_not_reserved_where_the_worker_has_its_own_memory(
    software_agent: MinimalAgent, opcodes: dict[str, int]
) -> None:
    lane = RawLane(software_agent)
    for wanted in (0x10000 << 20, 0x6000_0000_0000, 0x7000_0000_0000):
        assert 0x1000_0000_0000 <= reserve(lane, opcodes, 2 * MIB, wanted) < 0x5000_0000_0000
    assert reserve(lane, opcodes, 2 * MIB, 0x4000_0000_0000) == 0x4000_0000_0000


def test_unmapping_behind_work_that_does_not_end_stops_nobody_else(
    software_agent: MinimalAgent, opcodes: dict[str, int]
) -> None:
    waiting, owner, other = (RawLane(software_agent) for _ in range(3))
    base, stream = mapping(owner, opcodes), handle(STREAM, 1)
    apart = mapping(other, opcodes)
    waiting.post(HOST_CALL, host_call(0, 1))
    assert waiting.ask(NEXT_HOST_CALL, bytes(8))[0] == 0
    owner.socket.sendall(owner.frame(opcodes["cuMemUnmap"], struct.pack("<2Q", base, 2 * MIB), owner.order))
    non_blocking = 1
    other.post(opcodes["cuStreamCreateWithPriority"], struct.pack("<QIi", stream, non_blocking, 0))
    for _ in range(50):
        assert other.ask(COPY_OUT, struct.pack("<3Q", apart, 8, stream))[0] == 0
        assert reserve(other, opcodes, 2 * MIB)
    waiting.socket.close()
    assert owner.reply()[0] == 0


def test_an_image_that_is_a_pointer_is_not_followed(software_agent: MinimalAgent) -> None:
    wrapper = struct.pack("<IIQ", 0x466243B1, 0x01010101, 0x4141_4141_4141)[:14]  # what looks like text
    digest = hashlib.blake2b(wrapper, digest_size=32).digest()
    lane, fatbin = RawLane(software_agent), 3
    head = struct.pack("<Q32sQIIII", handle(LIBRARY, 0), digest, len(wrapper), 1, 0, 0, 0)
    assert lane.ask(LOAD, head + wrapper)[0] == INVALID_IMAGE
    linked = struct.pack("<IIII", 1, 0, 0, 0) + struct.pack("<32sQII", digest, len(wrapper), fatbin, 0)
    assert lane.ask(LINK, linked)[0] == INVALID_IMAGE
    assert goes_on(software_agent)
