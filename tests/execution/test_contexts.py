"""Contexts and devices: the client's own, and the software GPU's; a program sees no difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.both_ways import BothWays, agent_of, each_way
from tests.forwarding.minimal_agent import MinimalAgent
from tests.native_build import Build

from .conftest import CASES, MEMORY_MIB

CONTEXT_IS_DESTROYED, INVALID_CONTEXT, INVALID_HANDLE, NOT_PERMITTED = 709, 201, 400, 800
UNSUPPORTED, INVALIDATED = 900, 901  # of a capture


def test_each_thread_has_a_stack_of_its_own(both: BothWays) -> None:
    seen, elsewhere, base_again = both.run("each_thread_has_a_stack_of_its_own")
    assert seen == [True, 0, True, True, True]
    assert elsewhere == [0, 1, True, INVALID_CONTEXT, INVALID_CONTEXT]
    assert base_again


def test_a_destroyed_context_is_found_out(both: BothWays) -> None:
    codes, at_top = both.run("a_destroyed_context_is_found_out")
    gone = [CONTEXT_IS_DESTROYED] * 2
    assert codes == gone + [INVALID_HANDLE] * 2 + [INVALID_CONTEXT] * 4 + [INVALID_HANDLE] * 2
    assert at_top


def test_a_context_gives_back_what_it_owns(both: BothWays) -> None:
    taken, gone, data, all_back = both.run("a_context_gives_back_what_it_owns")
    assert taken
    assert gone == [1, 1]
    assert list(memoryview(data).cast("I")) == list(range(5, 15))
    assert all_back


def test_what_belongs_to_one_context_is_not_for_another(both: BothWays) -> None:
    codes, owner = both.run("what_belongs_to_one_context_is_not_for_another")
    assert codes == [INVALID_HANDLE, INVALID_HANDLE, 0, 0]
    assert owner


def test_the_primary_context_lives_from_retain_to_release(both: BothWays) -> None:
    seen = both.run("the_primary_context_lives_from_retain_to_release")
    assert seen == [
        (0, 0),
        *(True, (4, 1), 4),
        *((4, 1), 0),
        *((4, 0), INVALID_CONTEXT, CONTEXT_IS_DESTROYED, INVALID_HANDLE, True),
        True,
        *(0, 1, True),
        *((4, 0), CONTEXT_IS_DESTROYED, INVALID_CONTEXT),
    ]


@pytest.mark.parametrize("ends", ["cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxRelease_v2"])
def test_a_function_may_wait_for_who_retains_the_primary_context_that_ends(both: BothWays, ends: str) -> None:
    seen, released = both.run("a_function_waits_for_who_retains", ends)
    assert seen == [(0, 1), 0, True]
    assert released == INVALID_CONTEXT


def test_the_flags_of_a_primary_context_are_one_value(both: BothWays) -> None:
    seen = both.run("the_flags_of_a_primary_context_are_one_value")
    assert seen == [(2, (2, 1)), (4, (4, 1)), (1, 0), (1, (1, 1))]


def test_a_function_that_a_stream_calls_begins_and_ends_no_context(both: BothWays) -> None:
    codes, after = both.run("a_function_that_a_stream_calls_begins_and_ends_no_context")
    assert codes == [NOT_PERMITTED] * 6 + [0, NOT_PERMITTED, 1, (0, 1), 0, True]
    assert after == [0, 0, 0, INVALID_CONTEXT]


def test_every_form_of_create(both: BothWays) -> None:
    codes, versions, different = both.run("every_form_of_create")
    assert codes == [0, 0, 1, 1, 101, 0, 224, 0, 0, 224, 801, 1]
    assert versions == [3010, 3020, 3020, 3020, 3020]
    assert different


def test_attach_and_detach_count(both: BothWays) -> None:
    attached, codes = both.run("attach_and_detach_count")
    assert attached
    assert codes == [1, 0, 0, 0, INVALID_CONTEXT]


def test_settings_are_of_the_context(both: BothWays) -> None:
    before, fresh, changed, unchanged, codes = both.run("settings_are_of_the_context")
    assert before == fresh != changed
    assert changed[1] == 4096
    assert unchanged
    assert codes == [215, 215, 1, 1]


def test_a_stack_too_deep_is_refused(both: BothWays) -> None:
    assert both.run("a_stack_too_deep_is_refused") == (2, 65536, True)


def test_events_of_a_whole_context(both: BothWays) -> None:
    codes, data = both.run("events_of_a_whole_context")
    assert codes == [0, 0, 0, INVALID_HANDLE, INVALID_CONTEXT]
    assert list(memoryview(data).cast("I")) == list(range(1, 1001))


def test_events_of_a_whole_context_in_captures(both: BothWays) -> None:
    seen, codes = both.run("events_of_a_whole_context_in_captures")
    assert seen == [[UNSUPPORTED, INVALIDATED, INVALIDATED]] * 2 + [[UNSUPPORTED, INVALIDATED, 0], [0, 0, 0]]
    assert codes == [0, 0]


def test_the_devices_of_a_lease(both: BothWays) -> None:
    assert both.run("the_devices_of_a_lease")[:2] == [2, 101]


@pytest.mark.parametrize("rounds", [1, 200])
def test_both_devices_at_once(both: BothWays, rounds: int) -> None:
    results = both.run("both_devices_at_once", rounds)
    for device, data in results.items():
        first = device * 1000 + rounds - 1
        assert list(memoryview(data).cast("I")) == list(range(first, first + 100))


def test_peers(both: BothWays) -> None:
    assert both.run("peers") == [217, 217, INVALID_CONTEXT, 1, INVALID_CONTEXT, 705, INVALID_CONTEXT, 101]


def test_hints(both: BothWays) -> None:
    wrong, seen, called, ended, none = both.run("hints")
    assert wrong == [1, 1, 1, 1, 1, 0]
    assert seen == [0, 0, 0, 0, 0, 0, 224, 217, 705]
    assert called == [NOT_PERMITTED] * 9
    assert ended == [CONTEXT_IS_DESTROYED] * 9
    assert none == [INVALID_CONTEXT] * 9


def test_an_error_that_ends_a_context_is_what_hints_answer_and_not_what_it_is(
    native: Build, tmp_path: Path
) -> None:
    with agent_of(native, tmp_path, MEMORY_MIB) as agent:
        for process in each_way(agent, native, tmp_path, MEMORY_MIB, CASES):
            sticky, hints, asked = process.run("hints_once_an_error_has_ended_the_context")
            assert sticky == 700
            assert hints == [700] * 9
            assert asked == [0] * 4


@pytest.mark.parametrize("reset", [False, True])
def test_variables_of_a_library_begin_again_with_the_primary_context(
    agent: MinimalAgent, native: Build, tmp_path: Path, reset: bool
) -> None:
    for process in each_way(agent, native, tmp_path, MEMORY_MIB, CASES):
        assert process.run("variables_of_a_library_in_a_new_life", reset) == [7, 8, 9] * 3
        assert process.end() == 0
