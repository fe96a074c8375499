"""cuLaunchHostFunc and cuStreamAddCallback: the function runs in the program, in its stream's order."""

from __future__ import annotations

from pathlib import Path

from tests.both_ways import BothWays, Process, agent_of, each_way, environments
from tests.forwarding.minimal_agent import MinimalAgent
from tests.native_build import Build

from .conftest import CASES, MEMORY_MIB

NOT_PERMITTED, NOT_READY = 800, 600


def test_called_in_the_streams_order(both: BothWays) -> None:
    order, callbacks, data = both.run("called_in_the_streams_order")
    assert order == [(i, True) for i in range(1, 101)]
    assert callbacks == [(True, 0, 7)] * 2
    assert list(memoryview(data).cast("I")) == list(range(100, 110))


def test_a_stream_waits_for_its_function_and_no_other_does(both: BothWays) -> None:
    states, data = both.run("a_stream_waits_for_its_function")
    assert states == [NOT_READY, 0, 0]
    assert data == bytes([5] * 16)


def test_many_streams_that_wait_in_functions_hold_up_no_other(both: BothWays) -> None:
    assert both.run("other_streams_go_on_while_many_wait_in_functions") == (0, bytes([7] * 16))


def test_what_a_function_may_not_call(both: BothWays) -> None:
    assert both.run("what_it_may_not_call") == [NOT_PERMITTED] * 6 + [0]


def test_what_a_function_writes_is_what_a_later_copy_sends(both: BothWays) -> None:
    assert both.run("what_it_writes_is_what_a_later_copy_sends") == {b"\x5a" * 64}


def test_wrong_arguments(both: BothWays) -> None:
    assert both.run("wrong_arguments") == [1, 400, 1, 1, 1]


def test_callbacks_of_a_failed_context_are_told(native: Build, tmp_path: Path) -> None:
    with agent_of(native, tmp_path, MEMORY_MIB) as agent:
        for process in each_way(agent, native, tmp_path, MEMORY_MIB, CASES):
            sticky, others = process.run("callbacks_of_a_failed_context")
            assert sticky == 700
            assert others == []
            process.end()


def test_a_copy_does_not_wait_for_a_function_that_is_never_called(native: Build, tmp_path: Path) -> None:
    with agent_of(native, tmp_path, MEMORY_MIB) as agent:
        for process in each_way(agent, native, tmp_path, MEMORY_MIB, CASES):
            assert process.run("copy_behind_a_function_of_a_failed_context") == 700
            process.end()


def test_a_process_ends_with_a_function_pending_and_its_worker_goes_on(
    agent: MinimalAgent, native: Build, tmp_path: Path
) -> None:
    forwarded = environments(agent, native, MEMORY_MIB)[1]
    leaver, other = (Process(forwarded, tmp_path / name, *CASES) for name in ("leaver", "other"))
    before = other.run("free_bytes")
    assert leaver.run("leave_one_pending") == NOT_READY
    leaver.process.kill()
    leaver.process.wait()
    assert other.run("free_bytes") == before
    assert other.run("what_it_may_not_call")[0] == NOT_PERMITTED
    other.end()


def test_a_process_that_ends_with_functions_pending_ends(
    agent: MinimalAgent, native: Build, tmp_path: Path
) -> None:
    forwarded = environments(agent, native, MEMORY_MIB)[1]
    waits, pending = (Process(forwarded, tmp_path / name, *CASES) for name in ("waits", "pending"))
    assert waits.run("leave_many_pending_and_wait_at_the_very_end") == 0
    assert waits.end() == 0
    assert pending.run("leave_one_pending") == NOT_READY
    assert pending.end() == 0
