"""Stream capture, straight and forwarded."""

from __future__ import annotations

from tests.both_ways import BothWays
from tests.softgpu.driver import raw

from .driver import BYTES, FILL_NODE, RECORD_EVENT, WAIT_EVENT

UNSUPPORTED, INVALIDATED, MERGE, UNMATCHED, UNJOINED, ISOLATION, IMPLICIT, CAPTURED_EVENT, WRONG_THREAD = (
    *range(900, 908),
    908,
)
ILLEGAL_STATE = 401


def test_what_a_graph_cannot_hold_ends_the_capture(both: BothWays) -> None:
    answers = {
        "synchronize": UNSUPPORTED,
        "query": UNSUPPORTED,
        "synchronize all": UNSUPPORTED,
        "allocate": UNSUPPORTED,
        "event of the capture": CAPTURED_EVENT,
        "wait for such an event": CAPTURED_EVENT,
        "another event": UNSUPPORTED,
        "event from outside": ISOLATION,
        "merge": MERGE,
        "memset on the default stream": IMPLICIT,
        "copy that waits": IMPLICIT,
    }
    expected = {name: (code, 2, INVALIDATED) for name, code in answers.items()}
    assert both.run("ended_by") == expected | {"nothing": (0, 1, 0)}


def test_a_call_that_is_refused_anyway_ends_no_capture(both: BothWays) -> None:
    answers = {
        "query nothing": raw.INVALID_HANDLE,
        "synchronize nothing": raw.INVALID_HANDLE,
        "record nothing": raw.INVALID_HANDLE,
        "record another context's": raw.INVALID_HANDLE,
        "wait for nothing": raw.INVALID_HANDLE,
        "query in a child": raw.NOT_INITIALIZED,
        "synchronize in a child": raw.NOT_INITIALIZED,
    }
    names = "allocate", "allocate rows", "allocate managed", "free"
    answers |= {f"{name} without a context": raw.INVALID_CONTEXT for name in names}
    names = *names, "allocate in the stream", "query", "synchronize"
    answers |= {f"{name} in a function": raw.NOT_PERMITTED for name in names}
    assert both.run("refused_calls") == {name: (code, 1) for name, code in answers.items()}


def test_the_modes_say_who_may_not_allocate(both: BothWays) -> None:
    *answers, wrong_thread, relaxed = both.run("modes")
    forbidden = {
        *((0, mode, True) for mode in (0, 1)),  # a global capture forbids it to its own thread
        (0, 0, False),  # and to those that let it
        *((1, mode, True) for mode in (0, 1)),
    }
    assert {(c, t, here) for c, t, here, code in answers if code} == forbidden
    assert {code for *_, code in answers} == {0, UNSUPPORTED}
    assert (wrong_thread, relaxed) == (WRONG_THREAD, 0)


def test_a_fork_must_be_joined(both: BothWays) -> None:
    joined, lost = [1, UNMATCHED, 0, 0], [1, UNMATCHED, UNJOINED, 0]
    assert both.run("forks") == [*joined, *lost, 0, UNJOINED, ILLEGAL_STATE, UNSUPPORTED, ILLEGAL_STATE]


def test_a_capture_under_way_tells_of_itself(both: BothWays) -> None:
    assert both.run("told") == [1, True, 1, True, True, True, 3, 2, True, 1]


def test_memory_is_allocated_and_freed_in_a_capture(both: BothWays) -> None:
    assert both.run("memory_in_capture") == [1, b"\x06" * BYTES]


def test_nothing_is_freed_in_a_capture_too(both: BothWays) -> None:
    assert both.run("free_of_nothing_in_capture") == [0, raw.INVALID_HANDLE, 1, 0]


def test_a_graph_launched_in_a_capture_becomes_a_part_of_it(both: BothWays) -> None:
    assert both.run("graphs_in_capture") == (4 * 8).to_bytes(4, "little")


def test_external_events_are_nodes(both: BothWays) -> None:
    assert both.run("events_as_nodes") == [1, [FILL_NODE, RECORD_EVENT, WAIT_EVENT], b"\x06"]
