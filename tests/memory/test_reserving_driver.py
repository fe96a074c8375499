"""The slice is a bound of what a driver holds for its worker, which is more than programs ask it for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_kernels.remoting.agent.contexts import NotMeasured, measured_contexts
from tests.both_ways import Process, settings
from tests.forwarding.minimal_agent import MinimalAgent, uuid_of
from tests.memory.reserving_driver import ReservingDriver, make_reserving_driver, nvjitlink
from tests.native_build import Build
from tests.softgpu.driver import raw
from tests.softgpu.driver.ptx import HEADER

MIB = 1 << 20
SLICE_MIB, GPU_MIB = 64, 2048
CASES = "tests.memory.reserving_cases"


@pytest.fixture(scope="module")
def driver(native: Build, tmp_path_factory: pytest.TempPathFactory) -> ReservingDriver:
    folder = tmp_path_factory.mktemp("reserving")
    return make_reserving_driver(folder, native.software, total_mib=GPU_MIB, context_mib=0)


@pytest.fixture
def agent(native: Build, driver: ReservingDriver, tmp_path: Path) -> Iterator[MinimalAgent]:
    environment = settings((2 * GPU_MIB,))
    with MinimalAgent(
        tmp_path, native.worker, driver.library, mib=SLICE_MIB, environment=environment
    ) as running:
        yield running


@pytest.fixture
def client(agent: MinimalAgent, native: Build, tmp_path: Path) -> Iterator[Process]:
    forwarded = agent.client_environment(native.client) | {"GPU_KERNELS_LOG": "stderr"}
    process = Process(forwarded, tmp_path / "client.log", CASES)
    yield process
    process.end()


def held_mib(driver: ReservingDriver, agent: MinimalAgent) -> int:
    """What the driver holds for the worker."""
    assert agent.worker
    return driver.held_mib(agent.worker.pid)


@pytest.mark.parametrize("pools", [True, False])
def test_what_is_freed_behind_a_stream_that_does_not_move_is_still_of_the_slice(
    client: Process, driver: ReservingDriver, agent: MinimalAgent, pools: bool
) -> None:
    codes, free, then = client.run("frees_in_a_parked_stream", 60, 4, pools)
    assert codes == [0, *[raw.OUT_OF_MEMORY] * 3]
    assert free == [4] * 4
    assert then == 0
    assert "freed in streams that have not come to the free" in client.log.read_text()
    assert held_mib(driver, agent) <= SLICE_MIB


def test_a_stream_that_frees_and_allocates_in_turn_goes_on_at_the_slices_size(client: Process) -> None:
    assert client.run("alloc_and_free_in_one_stream", 60, 20) == 20


def test_a_free_outlives_the_stream_that_it_was_queued_in(client: Process) -> None:
    assert client.run("destroyed_streams", 40) == [40, 0]


def test_all_frees_of_a_threads_own_stream_come_back_once_it_has_moved(client: Process) -> None:
    """Nobody else can name that stream, and it need not free again."""
    assert client.run("frees_in_the_threads_own_stream", 8, 3) == [24, 0]


def test_a_pool_is_charged_what_it_keeps_and_makes_way_for_other_memory(
    client: Process, driver: ReservingDriver, agent: MinimalAgent
) -> None:
    assert client.run("kept_by_its_threshold", 40) == [40, 40, 40, 0, 40, 0]
    assert held_mib(driver, agent) == 0


def test_what_a_driver_rounds_up_to_is_charged(
    client: Process, driver: ReservingDriver, agent: MinimalAgent
) -> None:
    codes = client.run("many_pools", SLICE_MIB)  # of which each reserves 2 MiB at least
    assert codes == [0] * (SLICE_MIB // 2) + [raw.OUT_OF_MEMORY] * (SLICE_MIB // 2)
    assert client.run("free_mib") == SLICE_MIB


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        (".visible .entry none(.param .u64 p) { .global .b8 hoard[1073741824]; ret; }", True),
        (".visible .entry none() { .loc 1 1 1 .global .b8 hoard[1073741824]; ret; }", True),
        (".func f() { L: .const .b8 little[4]; .global .b8 hoard[1073741824]; ret; }", True),
        (f".global .u32 {'a' * 20000};\n.global .b8 hoard[1073741824];", False),
        (".global .b8 few[WARP_SZ];\n.visible .global .b8 hoard[1073741824];", False),
        (".section .debug_x { .b8 1 }\n.visible .global .b8 hoard[1073741824];", True),
    ],
)
def test_variables_are_charged_wherever_they_are_declared(
    client: Process, driver: ReservingDriver, agent: MinimalAgent, text: str, reads: bool
) -> None:
    kernel = "" if ".entry" in text else "\n.visible .entry none() { ret; }"
    refused = (raw.OUT_OF_MEMORY,) if reads or nvjitlink() else (raw.OUT_OF_MEMORY, raw.INVALID_PTX)
    code, taken = client.run("load_text", HEADER + text + kernel)
    assert code in refused
    assert taken == 0
    assert held_mib(driver, agent) == 0


@pytest.mark.skipif(nvjitlink() is None, reason="NVIDIA's nvJitLink is not installed")
def test_variables_that_fit_are_charged_what_the_drivers_compiler_makes_of_them(
    client: Process, driver: ReservingDriver, agent: MinimalAgent
) -> None:
    text = f".visible .global .b8 a[{8 * MIB}];\n.visible .entry none() {{ .global .b8 b[{4 * MIB}]; ret; }}"
    assert client.run("load_text", HEADER + text) == (0, 12)


@pytest.mark.parametrize("way", ["launch", "cooperative", "graph"])
def test_a_kernels_frames_are_charged_before_its_first_launch(
    client: Process, driver: ReservingDriver, agent: MinimalAgent, way: str
) -> None:
    threads = client.run("resident_threads")
    frame, too_large = (mib * MIB // threads // 16 * 16 for mib in (20, SLICE_MIB + 20))
    (small, taken), (again, as_before), (large, kept) = client.run(
        "launches", [frame, frame // 2, too_large], way
    )
    assert (small, again, large) == (0, 0, raw.OUT_OF_MEMORY)
    assert 19 <= taken <= 21
    assert taken == as_before == kept
    assert f"needs {too_large} bytes of local memory a thread" in client.log.read_text()
    assert held_mib(driver, agent) <= SLICE_MIB


def test_a_context_is_of_the_slice_that_it_serves(native: Build, tmp_path: Path) -> None:
    fake = make_reserving_driver(tmp_path, native.software, total_mib=GPU_MIB, context_mib=24)
    environment = settings((2 * GPU_MIB,))
    options = ("--context-mib", "24")
    with MinimalAgent(
        tmp_path, native.worker, fake.library, mib=SLICE_MIB, environment=environment, options=options
    ) as agent:
        client = Process(agent.client_environment(native.client), tmp_path / "log", CASES)
        assert client.run("free_mib") == SLICE_MIB - 24
        assert client.run("alloc_codes", [SLICE_MIB - 23, SLICE_MIB - 24]) == [raw.OUT_OF_MEMORY, 0]
        assert held_mib(fake, agent) == SLICE_MIB
        client.end()


def test_what_a_context_takes_is_measured(native: Build, tmp_path: Path) -> None:
    fake = make_reserving_driver(tmp_path, native.software, total_mib=GPU_MIB, context_mib=37)
    environment = os.environ | settings((2 * GPU_MIB,))
    measured = measured_contexts(native.worker, str(fake.library), [uuid_of(0)], environment)
    assert measured == [37]


def test_a_context_that_cannot_be_measured_is_told(native: Build, tmp_path: Path) -> None:
    with pytest.raises(NotMeasured, match="cannot measure a context"):
        measured_contexts(native.worker, str(tmp_path / "none.so"), [uuid_of(0)], {})
