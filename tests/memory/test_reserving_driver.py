"""The slice is a bound of what a driver holds for its worker, which is more than programs ask it for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.both_ways import Process, settings
from tests.forwarding.minimal_agent import MinimalAgent
from tests.memory.reserving_driver import ReservingDriver, make_reserving_driver
from tests.native_build import Build
from tests.softgpu.driver import raw

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
