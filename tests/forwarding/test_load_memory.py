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

from gpu_kernels.remoting.agent.own_memory import own_memory
from gpu_kernels.remoting.machine_memory import machine_memory
from tests.native_build import Build, build, build_of_make
from tests.softgpu.driver.test_images import ZSTD, entry, fatbin, zstd

from .dear_texts import DEAR, library
from .driver_api import INVALID_IMAGE, OUT_OF_MEMORY
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


def slice_of_a_fiftieth() -> int:
    """MiB that a worker for 0.02 of the one GPU of a machine with 24 GiB may take by default."""
    return own_memory(machine_memory(24 * 1024), gpus=1).for_another(20, [])


@pytest.mark.parametrize("packed", [False, True], ids=["text", "fat binary"])
def test_a_librarys_kernels_load_in_a_fiftieth_of_a_gpu(start: Start, packed: bool) -> None:
    text = library(6 * MIB).encode()
    assert len(text) > 5.9 * MIB
    image = fatbin(entry(zstd(text), flags=ZSTD, plain=len(text))) if packed else text + b"\0"
    agent, own_mib = start(slice_of_a_fiftieth()), slice_of_a_fiftieth()
    lane = RawLane(agent)
    before = begin_peak(agent)
    assert load(lane, image) == 0, lane.ask(TAKE_NOTICES)[1]
    assert status_of(agent)["VmHWM"] - before < own_mib * MIB * 3 // 4


def test_as_large_a_text_of_one_kernel_is_refused_there_in_words(start: Start) -> None:
    lane = RawLane(start(slice_of_a_fiftieth()))
    assert load(lane, DEAR["additions"](6 * MIB).encode() + b"\0") == OUT_OF_MEMORY
    assert b"of the GPU server's own memory" in lane.ask(TAKE_NOTICES)[1]


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


@pytest.mark.parametrize("on_software", [True, False], ids=["software GPU", "real driver"])
def test_an_image_that_lies_about_its_size_is_invalid_and_charged_nothing(
    start: Start, tmp_path: Path, native: Build, on_software: bool
) -> None:
    text = DEAR["additions"](4096).encode()
    image = fatbin(entry(zstd(text), flags=ZSTD, plain=1 << 40))
    with ExitStack() as stack:
        agent = start(512) if on_software else stack.enter_context(real_worker(tmp_path, native))
        lane = RawLane(agent)
        assert load(lane, image) == INVALID_IMAGE
        said = lane.ask(TAKE_NOTICES)[1].decode(errors="replace")
    assert "unpacks to more than 512 MiB" in said
    assert "1048576 MiB" not in said


def real_worker(folder: Path, native: Build) -> MinimalAgent:
    """A worker to which a driver is one of NVIDIA's."""
    return MinimalAgent(folder, native.worker, native.recording_driver)


def test_damaged_machine_code_is_refused_for_its_variables_on_a_real_driver_alone(
    start: Start, tmp_path: Path, native: Build
) -> None:
    sound = entry(DEAR["additions"](4096).encode() + b"\0")
    image = fatbin(entry(b"\x7fELF", kind=2), sound)
    software = RawLane(start(512))
    assert load(software, image) == 0
    assert b"cannot be loaded" not in software.ask(TAKE_NOTICES)[1]
    folder = tmp_path / "real"
    folder.mkdir()
    with real_worker(folder, native) as agent:
        real = RawLane(agent)
        assert load(real, image) == INVALID_IMAGE
        assert b"how much memory its variables take" in real.ask(TAKE_NOTICES)[1]
