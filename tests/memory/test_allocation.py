"""Allocation, straight and forwarded."""

from __future__ import annotations

from tests.both_ways import BothWays
from tests.softgpu.driver import raw

BAD, GONE, UNSUPPORTED = raw.INVALID_VALUE, raw.INVALID_HANDLE, raw.NOT_SUPPORTED
ALREADY_REGISTERED, NOT_REGISTERED = 712, 713
CAPTURE_UNSUPPORTED = 900


def test_mistakes_with_allocation_are_told_at_once(both: BothWays) -> None:
    assert both.run("allocation_mistakes") == [
        *(BAD, BAD, BAD, BAD, BAD),
        *(BAD, GONE),
        *(BAD, 0, BAD, GONE, 0),
        *(BAD, BAD, BAD),
    ]


def test_registered_memory_is_told_apart(both: BothWays) -> None:
    assert both.run("registered_memory") == [
        *(BAD, UNSUPPORTED, BAD, BAD),
        *(0, ALREADY_REGISTERED, 0, BAD),
        *(BAD, NOT_REGISTERED, 0, NOT_REGISTERED, BAD),
        3,
    ]


def test_allocation_out_of_order_is_refused_in_a_capture(both: BothWays) -> None:
    assert both.run("allocation_in_a_capture") == [CAPTURE_UNSUPPORTED] * 3


def test_of_two_threads_one_frees_and_one_registers(both: BothWays) -> None:
    assert both.run("host_memory_of_two_threads") == [
        [0, BAD],
        [0, ALREADY_REGISTERED],
        [0, NOT_REGISTERED],
    ]


def test_of_two_threads_that_wait_for_a_graph_one_frees_what_it_writes(both: BothWays) -> None:
    assert both.forwarded.run("two_threads_free_what_a_graph_has_yet_to_write") == [0, BAD]
