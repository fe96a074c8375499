"""What loading a program takes of the GPU server's memory is charged before it begins."""

from __future__ import annotations

import hashlib
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.native_build import Build, build, build_of_make

from .dear_texts import DEAR
from .driver_api import OUT_OF_MEMORY
from .minimal_agent import MinimalAgent
from .test_hostile_frames import LIBRARY, LOAD, MEMORY_INFO, UPLOAD, RawLane, handle

MIB = 1 << 20
SLICE_MIB = 256
TAKE_NOTICES = 40

Start = Callable[[int], MinimalAgent]


@pytest.fixture(scope="session")
def load_cost() -> Path:
    return build_of_make("load_cost").folder / "tests_forwarding" / "load_cost"


@pytest.fixture
def start(tmp_path: Path, native: Build) -> Iterator[Start]:
    """Starts a worker on the software GPU that may take so many MiB for itself."""
    built = build(native.folder, "softgpu")
    with ExitStack() as stack:

        def begin(own_mib: int) -> MinimalAgent:
            return stack.enter_context(
                MinimalAgent(
                    tmp_path,
                    native.worker,
                    built.software,
                    mib=SLICE_MIB,
                    environment={"GPU_KERNELS_SOFTGPU_MEMORY_MIB": str(SLICE_MIB)},
                    options=("--host-memory-mib", str(own_mib)),
                )
            )

        yield begin


def charged(program: Path, image: bytes) -> tuple[int, int]:
    said = subprocess.run([program], input=image, capture_output=True, check=True).stdout.split()
    return int(said[0]), int(said[1])


def upload(lane: RawLane, image: bytes) -> bytes:
    digest = hashlib.blake2b(image, digest_size=32).digest()
    for at in range(0, len(image), 512 * 1024):
        piece = image[at : at + 512 * 1024]
        lane.post(UPLOAD, struct.pack("<32sQQ", digest, at, len(image)) + piece)
    return digest


def load(lane: RawLane, image: bytes, index: int = 0) -> int:
    digest = upload(lane, image)
    head = struct.pack("<Q32sQIIII", handle(LIBRARY, index), digest, len(image), 0, 0, 0, 0)
    return lane.ask(LOAD, head)[0]


def status_of(agent: MinimalAgent) -> dict[str, int]:
    """The worker's memory, in bytes, by the names of the kernel's."""
    assert agent.worker is not None
    lines = Path(f"/proc/{agent.worker.pid}/status").read_text().splitlines()
    return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith(" kB")}


def begin_peak(agent: MinimalAgent) -> int:
    assert agent.worker is not None
    Path(f"/proc/{agent.worker.pid}/clear_refs").write_text("5")
    return status_of(agent)["VmRSS"]


@pytest.mark.parametrize("kind", DEAR)
def test_a_load_takes_no_more_than_was_charged(start: Start, load_cost: Path, kind: str) -> None:
    agent = start(4096)
    lane = RawLane(agent)
    image = DEAR[kind](MIB).encode() + b"\0"
    upload(lane, image)
    assert lane.ask(MEMORY_INFO)[0] == 0
    before = begin_peak(agent)
    load(lane, image)  # some of them are refused, after all has been read
    taken = status_of(agent)["VmHWM"] - before
    assert taken <= charged(load_cost, image)[0]


def test_loads_that_do_not_fit_beside_each_other_wait_in_line(start: Start, load_cost: Path) -> None:
    agent, own_mib = start(512), 512
    texts = [DEAR["additions"](n * 64 + MIB).encode() + b"\0" for n in range(4)]
    assert charged(load_cost, texts[0])[0] * 2 > own_mib * MIB * 3 // 4, "two would fit at once"
    lanes = [RawLane(agent) for _ in texts]
    before = begin_peak(agent)
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda lane=lane, text=text: answers.append(load(lane, text)))
        for lane, text in zip(lanes, texts, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [0] * 4
    assert status_of(agent)["VmHWM"] - before < own_mib * MIB


def test_four_loads_that_can_never_fit_take_nothing_and_say_why(start: Start) -> None:
    agent, own_mib = start(512), 512
    lanes = [RawLane(agent) for _ in range(4)]
    before = begin_peak(agent)
    answers: list[int] = []

    def ask(lane: RawLane, number: int) -> None:
        answers.append(load(lane, f"// {number}\n".encode() + DEAR["additions"](60 * MIB).encode() + b"\0"))

    threads = [threading.Thread(target=ask, args=(lane, n)) for n, lane in enumerate(lanes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [OUT_OF_MEMORY] * 4
    assert status_of(agent)["VmHWM"] - before < own_mib * MIB
    for lane in lanes:
        assert lane.ask(MEMORY_INFO)[0] == 0
        said = lane.ask(TAKE_NOTICES)[1].decode(errors="replace")
        assert "of the GPU server's own memory" in said
        assert "worker_memory_mib, here 512 MiB" in said
