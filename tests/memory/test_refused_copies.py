"""Shared memory that cannot be brought to the other side: who needs it is told, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.both_ways import Process, settings
from tests.forwarding.minimal_agent import MinimalAgent
from tests.memory.reserving_driver import driver_in_front
from tests.native_build import Build
from tests.softgpu.driver.raw import OUT_OF_MEMORY

SLICE_MIB, GPU_MIB = 64, 128
KINDS = ("managed", "mapped")


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """How many copies the driver refuses from now on."""
    return tmp_path_factory.mktemp("refusing") / "refusals"


@pytest.fixture(scope="module")
def client(native: Build, refusals: Path) -> Iterator[Process]:
    folder = refusals.parent
    source = Path(__file__).with_name("refusing_driver.c")
    driver = driver_in_front(source, folder, native.software, {"REFUSALS": refusals})
    with MinimalAgent(
        folder, native.worker, driver, mib=SLICE_MIB, environment=settings((GPU_MIB,))
    ) as agent:
        forwarded = agent.client_environment(native.client) | {"GPU_KERNELS_LOG": "stderr"}
        process = Process(forwarded, folder / "client.log", "tests.memory.refused_cases")
        yield process
        process.end()


@pytest.mark.parametrize("kind", KINDS)
def test_a_launch_whose_memory_cannot_be_sent_is_not_made_and_the_next_one_is(
    client: Process, refusals: Path, kind: str
) -> None:
    codes, words, beside, last = client.run("a_launch_whose_memory_cannot_be_sent", kind, str(refusals))
    assert codes == [OUT_OF_MEMORY, 0, 0]
    assert (words, beside, last) == ([51, 6], 5, 5)


@pytest.mark.parametrize("kind", KINDS)
def test_changes_that_cannot_be_sent_are_sent_by_the_next_launch(
    client: Process, refusals: Path, kind: str
) -> None:
    codes, words, last = client.run("a_launch_that_cannot_send_what_has_changed", kind, str(refusals))
    assert codes == [0, 0, OUT_OF_MEMORY, 0, 0]
    assert (words, last) == ([7, 71, 7], 80)


@pytest.mark.parametrize("kind", KINDS)
def test_changes_of_a_function_that_cannot_be_sent_are_told_and_kept(
    client: Process, refusals: Path, kind: str
) -> None:
    codes, waits, words, last = client.run("a_function_whose_changes_cannot_be_sent", kind, str(refusals))
    assert codes == [0, 0, 0]
    assert waits == [OUT_OF_MEMORY, 0]
    assert (words, last) == ([7, 71, 7], 80)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wait_that_cannot_fetch_says_so_and_the_next_one_does(
    client: Process, refusals: Path, kind: str
) -> None:
    seen = client.run("waits_that_cannot_fetch", kind, str(refusals))
    assert seen == [([OUT_OF_MEMORY, 0], [6], 5), ([OUT_OF_MEMORY, 0], [7], 5)]


def test_what_brings_memory_back_takes_no_error_of_the_programs_own_calls(
    client: Process, refusals: Path
) -> None:
    codes, seen, waits = client.run(
        "a_copy_that_fails_before_another_brings_memory_back", "mapped", str(refusals)
    )
    assert codes == [0] * 5
    assert seen == 7
    assert waits == [OUT_OF_MEMORY, 0]


@pytest.mark.timeout(50)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("launches", [False, True])
def test_a_launch_that_sends_behind_a_copy_does_not_hold_up_the_function_that_it_waits_for(
    client: Process, kind: str, launches: bool
) -> None:
    first = 6 + launches
    seen = client.run("a_function_ends_while_a_change_waits_behind_a_copy", kind, launches)
    assert seen == [first, first, 51, 6]
