"""Shared memory as the host sees and changes it while streams work, and what a program says of ranges."""

from __future__ import annotations

import pytest

from tests.both_ways import BothWays

from .host_view_cases import HOST, INVALID

NOT_READY, INVALID_VALUE, INVALID_DEVICE = 600, 1, 101
KINDS = ("managed", "mapped")
BESIDE = ("attached", "mapped")
"""What CUDA lets the host use while kernels do: each its own bytes."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [4096, 600_000])
def test_a_function_sees_and_changes_shared_memory(both: BothWays, kind: str, size: int) -> None:
    last = size // 4 - 1
    seen, words, end = both.run("a_function_sees_and_changes_shared_memory", kind, size)
    assert seen == [(1, 2, 16, last), (2, 1001, 16, last + 7), (3, 2001, 16, last + 14)]
    assert words == [4, 3001, *range(6, 20), 16]
    assert end == last + 21


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_a_function_changes_is_lost_while_others_use_the_memory(
    both: BothWays, kind: str
) -> None:
    last = 600_000 // 4 - 1
    seen, words, own, others, end = both.run("a_function_goes_on_while_others_use_the_memory", kind)
    assert seen == (77, last - 2 * 16 + 2)
    assert words == [2, 3, 4]
    assert (own, others, end) == (77, last - 2 * 16 + 2, last + 7)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_a_function_changes_is_lost_while_its_memory_goes_to_the_device(
    both: BothWays, kind: str
) -> None:
    words, end = both.run("a_function_goes_on_while_its_memory_goes_to_the_device", kind)
    assert words == [*range(1, 17), 77, 17]
    assert end == 600_000 // 4 - 1 + 7


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_function_changes_comes_after_what_was_sent_before_whatever_its_stream_waits_for(
    both: BothWays, kind: str
) -> None:
    seen = both.run("functions_change_memory_on_its_way_to_the_device", kind)
    assert seen == [([5], [6, 101, 6])] * 6


def test_nothing_is_lost_of_functions_that_come_and_go_while_all_is_waited_for(both: BothWays) -> None:
    assert both.run("functions_come_and_go_while_all_is_waited_for", 20) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_that_ends_while_its_memory_goes_to_the_device_is_sent_too(
    both: BothWays, kind: str
) -> None:
    seen = both.run("a_function_comes_and_goes_while_memory_goes_to_the_device", kind)
    assert seen == [6, 101, 6]


@pytest.mark.timeout(50)
@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_brings_memory_back_does_not_hold_up_a_launch_that_its_function_waits_for(
    both: BothWays, kind: str
) -> None:
    assert both.run("a_function_waits_for_a_launch_while_a_copy_waits_for_it", kind) == [7, 5]


@pytest.mark.parametrize("kind", BESIDE)
def test_the_host_fills_one_part_while_a_kernel_may_use_another(both: BothWays, kind: str) -> None:
    seen = both.run("fills_one_part_while_a_kernel_may_use_another", kind)
    assert seen == [(5 + turn, [100 * turn + 1, 5 + turn], 1000 * turn) for turn in (1, 2, 3)]


@pytest.mark.parametrize("kind", BESIDE)
def test_threads_work_on_parts_of_memory_of_their_own(both: BothWays, kind: str) -> None:
    assert both.run("threads_work_on_parts_of_their_own", kind, 20) == []


def test_a_thread_that_has_ended_keeps_no_memory_from_the_host(both: BothWays) -> None:
    """Nothing has to be asked for beyond the wait itself."""
    assert both.forwarded.run("waits_behind_a_thread_that_looked") == [1, 1, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_wait_for_one_stream_shows_its_work_while_another_goes_on(both: BothWays, kind: str) -> None:
    *waits, after, words, end = both.run("a_wait_for_one_stream_shows_its_work", kind)
    assert waits == [
        (0, [1, 2, 3], 2047, NOT_READY),
        (0, [501, 3, 4], 2048, NOT_READY),
        (0, [1001, 4, 5], 2049, NOT_READY),
        (0, [1501, 5, 6], 2050, NOT_READY),
    ]
    assert after == ([2001, 6, 7], 2051)
    assert (words, end) == ([2002, 7, 10], 2051)


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_elsewhere_leaves_shared_memory_to_the_host(both: BothWays, kind: str) -> None:
    seen = both.run("a_copy_elsewhere_leaves_shared_memory_to_the_host", kind)
    for turn in range(1, 4):
        assert seen[2 * turn - 2] == bytes([turn]) * 4
        assert seen[2 * turn - 1] == [10 * turn + 1, 20 * turn + 1, 30 * turn + 1]
    assert seen[6:] == [[31, 77, 91], [31, 77, 88], [0x03030303, 77, 88]]


def test_advice_is_kept(both: BothWays) -> None:
    seen = both.run("advice_is_kept")
    assert seen == [
        [[0], [INVALID], [INVALID] * 3, [INVALID], [0], [0], [0], [0]],
        [[0], [1], [0]],
        [[0], [1]],
        [[0], [1], [0]],
        [[HOST], [2], [INVALID]],
        [[INVALID]],
        [[INVALID, HOST, 0], [HOST, INVALID, INVALID]],
        [[0], [INVALID]],
        [[0], [1], [0]],
        [[INVALID], [HOST]],
        [[1, 0]],
    ]


def test_wrong_questions_about_ranges(both: BothWays) -> None:
    codes = both.run("wrong_questions_about_ranges")
    assert codes == [INVALID_VALUE] * 11 + [INVALID_DEVICE] * 2 + [INVALID_VALUE]
