"""Host and kernels use the same memory at the same time, where client and worker are on one host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.both_ways import BothWays, agent_of, both_ways, each_way
from tests.native_build import Build

from .conftest import MEMORY_MIB

ILLEGAL_ADDRESS = 700
KINDS = ("pinned", "mapped", "managed")
MODULES = ("tests.memory.together_cases",)


@pytest.fixture(scope="module")
def both(native: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothWays]:
    folder = tmp_path_factory.mktemp("together")
    with both_ways(native, folder, (MEMORY_MIB,), MODULES, shares=True) as processes:
        yield processes


@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_that_waits_for_the_host_ends(both: BothWays, kind: str) -> None:
    assert both.run("a_kernel_waits_for_the_host", kind) == ([41, 42, 0], 5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_host_sees_each_number_that_a_kernel_counts(both: BothWays, kind: str) -> None:
    assert both.run("the_host_watches_a_kernel", kind) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("kind", KINDS)
def test_what_host_and_kernel_add_at_once_adds_up(both: BothWays, kind: str) -> None:
    assert both.run("both_add_to_one_word", kind, 20_000) == [80_000, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_takes_what_the_host_wrote_before_it_ran(both: BothWays, kind: str) -> None:
    assert both.run("a_copy_takes_what_is_there_when_it_runs", kind) == (33).to_bytes(4, "little")


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_fills_such_memory_returns_when_that_is_there(both: BothWays, kind: str) -> None:
    first = [int.from_bytes(bytes(range(i, i + 4)), "little") for i in range(0, 64, 4)]
    third = [int.from_bytes(bytes(range(i, i + 4)), "little") for i in range(100, 164, 4)]
    seen = both.run("a_copy_back_is_there_when_it_has_run", kind)
    assert seen == [first, [9, 9, 9, 9, 0], third, first, bytes(range(4))]


def test_a_stream_waits_for_a_value_that_the_host_writes(both: BothWays) -> None:
    assert both.run("a_stream_waits_for_a_value", "pinned") == [0, 10]


def test_a_child_of_a_fork_has_a_copy_of_its_own(both: BothWays) -> None:
    assert both.forwarded.run("a_child_has_what_is_pinned_for_itself", "pinned") == (0, 55)


def test_more_pinned_memory_than_may_be_shared_is_sent_as_across_hosts(both: BothWays) -> None:
    assert both.run("more_than_may_be_shared_is_as_good", 270) == {9}


def test_more_managed_memory_than_has_places_is_sent_as_across_hosts(both: BothWays) -> None:
    assert both.run("more_managed_memory_than_has_places", 4100) == [8, 8]


def test_a_kernel_reaches_no_further_than_pinned_memory(native: Build, tmp_path: Path) -> None:
    mib = (MEMORY_MIB,)
    with agent_of(native, tmp_path, mib, shares=True) as agent:
        for process in each_way(agent, native, tmp_path, mib, MODULES):
            assert process.run("a_kernel_reaches_no_further_than_the_memory", 100) == [0, ILLEGAL_ADDRESS]
            process.end()


def test_attributes_say_the_same_of_managed_memory_straight_and_forwarded(both: BothWays) -> None:
    concurrent, direct = 89, 101
    assert both.run("attributes", (concurrent, direct)) == [1, 1]
