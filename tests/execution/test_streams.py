"""Streams, events and pools: what they tell, and which calls are refused, straight and forwarded."""

from __future__ import annotations

from pathlib import Path

from tests.both_ways import BothWays, agent_of, each_way
from tests.native_build import Build
from tests.softgpu.driver import raw

from .conftest import CASES, MEMORY_MIB

BAD, GONE, NO_CONTEXT = raw.INVALID_VALUE, raw.INVALID_HANDLE, raw.INVALID_CONTEXT


def test_streams_tell_what_they_are(both: BothWays) -> None:
    told, same = both.run("what_streams_tell")
    default = (0, (False, True), 0, True, 0)
    assert told == [default, default, default, (1, (True, False), 0, True, 0), (1, (False, True), 0, True, 0)]
    assert same == [True, True, True]


def test_mistakes_with_streams_and_events_are_told_at_once(both: BothWays) -> None:
    assert both.run("mistakes_with_streams_and_events") == [
        *(BAD, BAD, BAD, GONE, GONE),
        *(BAD, BAD, raw.NOT_SUPPORTED),
        *(GONE, GONE, BAD, GONE, BAD, GONE, GONE),
        *(0, 0, 0, GONE, GONE, GONE, GONE),
    ]


def test_streams_that_were_made_need_no_current_context(both: BothWays) -> None:
    assert both.run("streams_without_a_context") == [
        *(0, NO_CONTEXT, NO_CONTEXT),
        *(0, NO_CONTEXT),
        *(0, NO_CONTEXT),
        *(NO_CONTEXT, NO_CONTEXT),
        *(0, 0, 0),
    ]


def test_a_function_of_a_stream_makes_and_asks_nothing(both: BothWays) -> None:
    assert both.run("within_a_function_of_a_stream") == [raw.NOT_PERMITTED] * 9


def test_streams_of_a_failed_context_answer_its_error(native: Build, tmp_path: Path) -> None:
    with agent_of(native, tmp_path, MEMORY_MIB) as agent:
        for process in each_way(agent, native, tmp_path, MEMORY_MIB, CASES):
            assert process.run("streams_of_a_failed_context") == [raw.ILLEGAL_ADDRESS] * 5
            process.end()


def test_a_pool_is_of_one_device_and_no_other_reaches_it(both: BothWays) -> None:
    codes, seen = both.run("pools_of_two_devices")
    assert codes == [BAD, 0, BAD, raw.NOT_SUPPORTED, raw.NOT_SUPPORTED, raw.INVALID_DEVICE, 0]
    assert seen == [(0, 3), (0, 0), (raw.INVALID_DEVICE, 9)]


def test_memory_is_of_its_streams_device_or_its_pools(both: BothWays) -> None:
    assert both.run("allocations_in_streams_of_two_devices") == [1, 0, True]
