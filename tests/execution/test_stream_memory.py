"""cuStreamWaitValue, cuStreamWriteValue and cuStreamBatchMemOp: the same straight and forwarded."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.both_ways import BothWays, Process, environments
from tests.forwarding.minimal_agent import MinimalAgent
from tests.native_build import Build

from .cases_stream_memory import AND, EQ, GEQ, NOR
from .conftest import CASES, MEMORY_MIB

INVALID_VALUE, INVALID_HANDLE, NOT_READY, NOT_SUPPORTED = 1, 400, 600, 801
CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED = 900, 901


def test_what_is_written(both: BothWays) -> None:
    codes, data = both.run("what_is_written")
    assert codes == [0] * 5
    assert data == bytes.fromhex(
        "0403020100000000 1817161514131211 0500000000000000 0600000000000000 0700000000000000"
    )


@pytest.mark.parametrize(
    ("width", "compare", "value", "others", "met"),
    [
        (32, GEQ, 5, [4, 0, 5 + 2**31], 5),
        (32, GEQ, 2**32 - 1, [2**32 - 2, 2**31], 3),  # it goes round
        (32, EQ, 5, [4, 6], 5),
        (32, AND, 6, [1, 8], 4),
        (32, NOR, 2**32 - 2, [1, 2**32 - 1], 2),
        (64, GEQ, 2**40, [2**40 - 1, 5], 2**40 + 1),
        (64, EQ, 2**40, [0, 2**40 + 1], 2**40),
        (64, AND, 2**40, [2**32 - 1], 2**40 + 1),
        (64, NOR, 2**64 - 2, [1, 2**64 - 1], 0),
    ],
)
def test_a_stream_waits(
    both: BothWays, width: int, compare: int, value: int, others: list[int], met: int
) -> None:
    states, at_last, data = both.run("a_stream_waits", width, compare, value, others, met)
    assert states == [[NOT_READY] * 3] * len(others)
    assert at_last == 0
    assert list(memoryview(data).cast("I")) == list(range(7, 15))


def test_each_wait_is_for_what_comes_after_what_was_before(both: BothWays) -> None:
    assert both.run("each_wait_is_for_what_comes_after_what_was_before") == [NOT_READY, 0]


def test_many_waits_hold_up_no_other(both: BothWays) -> None:
    waiting, after, data = both.run("many_waits_hold_up_no_other")
    assert waiting == 200
    assert after == [0] * 200
    assert data == b"\3\0\0\0"


def test_threads_wait_for_each_other(both: BothWays) -> None:
    codes, calls, values = both.run("threads_wait_for_each_other")
    assert codes == [0]
    assert calls == 8 * (2 * 25 + 1)
    assert values == [26] + [25] * 7


def test_wrong_arguments(both: BothWays) -> None:
    codes, data, attributes = both.run("wrong_memory_operations")
    assert codes[:7] == [INVALID_VALUE] * 7
    assert codes[7:9] == [NOT_SUPPORTED, INVALID_HANDLE]
    assert codes[9:13] == [INVALID_VALUE] * 4
    assert codes[13:] == [NOT_SUPPORTED, NOT_SUPPORTED, INVALID_VALUE, NOT_SUPPORTED, 0]
    assert data == bytes(4)
    assert attributes == [0, 0, 0, 0, 1, 1]


def test_a_captured_stream_takes_none(both: BothWays) -> None:
    assert both.run("a_captured_stream_takes_none") == [CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED]


def test_host_memory_is_written_and_only_waited_for_straight(both: BothWays) -> None:
    assert both.straight.run("values_in_host_memory") == (0, b"*\0\0\0", 0)
    assert both.forwarded.run("values_in_host_memory") == (0, b"*\0\0\0", NOT_SUPPORTED)
    assert "waits for a value in host memory" in both.forwarded.log.read_text()


def test_a_wait_that_never_ends_goes_with_its_process(
    agent: MinimalAgent, native: Build, tmp_path: Path
) -> None:
    for way, environment in zip(
        ("straight", "forwarded"), environments(agent, native, MEMORY_MIB), strict=True
    ):
        process = Process(environment, tmp_path / way, *CASES)
        assert process.run("waits_for_ever")
        assert process.end() == 0
        killed = Process(environment, tmp_path / f"{way} killed", *CASES)
        assert killed.run("waits_for_ever")
        killed.process.kill()
        killed.process.wait()
        # Its end is all that the next one's work waits for.
        following = Process(environment, tmp_path / f"{way} after", *CASES)
        assert following.run("fills_memory") == b"\t\t\t\t"
        try:
            assert following.end() == 0
        except subprocess.TimeoutExpired:
            following.process.kill()
            raise
