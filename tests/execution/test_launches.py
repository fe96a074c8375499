"""Launches in all their forms, and what is set for streams: the same straight and forwarded."""

from __future__ import annotations

from tests.both_ways import BothWays

INVALID_VALUE, INVALID_HANDLE, TOO_LARGE, NOT_SUPPORTED = 1, 400, 720, 801


def words(data: bytes) -> list[int]:
    return list(memoryview(data).cast("I"))


def test_the_launch_of_the_first_releases(both: BothWays) -> None:
    codes, data = both.run("the_launch_of_the_first_releases")
    assert codes[:9] == [0] * 9
    assert codes[9:] == [INVALID_VALUE, INVALID_HANDLE, INVALID_VALUE, INVALID_VALUE, INVALID_VALUE]
    assert words(data[0]) == [*range(100, 132), *[0] * 32]
    assert words(data[1]) == list(range(200, 264))


def test_attributes_of_streams(both: BothWays) -> None:
    codes = both.run("attributes_of_streams")
    assert codes[:8] == [0, 2**32 - 1, 0, 1, 0, 0, 0, 3]
    assert codes[8:17] == [0, 0, 1, 0, 1, 0, 2, 0, 2]
    assert codes[17:] == [INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED]


def test_what_is_kept_of_a_streams_attributes_goes_with_it(both: BothWays) -> None:
    assert both.run("attributes_of_many_streams") == {0}


def test_launch_attributes(both: BothWays) -> None:
    codes, supported, data = both.run("launch_attributes")
    assert codes == [0, TOO_LARGE, 0, NOT_SUPPORTED, NOT_SUPPORTED, 0, TOO_LARGE]
    assert supported == 1
    assert words(data) == list(range(7, 15))


def test_occupancy_is_the_same_with_shared_memory_in_units(both: BothWays) -> None:
    found = {tuple(asked): (code, answer) for *asked, code, answer in both.run("occupancy")}
    # A block takes shared memory in units of 256 bytes: 5000 are 5120, of which 12 fit 64 KiB and not 13.
    assert found["blocks", "none", 32, 5000] == (0, 12)
    assert found["blocks", "none", 32, 5120] == (0, 12)
    assert found["blocks", "none", 32, 0] == (0, 16)
    assert found["blocks", "none", 1000, 0] == (0, 1)
    assert found["blocks", "none", 2048, 0] == (0, 0)
    assert found["blocks", "bounded", 96, 0] == (0, 0)
    assert found["blocks", "none", 32, 1 << 62] == (0, 0)
    # What 3 blocks each may have is rounded down to such a unit; a block that has not opted in has 48 KiB.
    assert found["room", "none", 32, 3] == (0, 65536 // 3 // 256 * 256)
    assert found["room", "none", 32, 1] == (0, 48 * 1024)
    assert found["room", "none", 32, 17] == (INVALID_VALUE, 0)
    assert found["choice", "bounded", 0, 0] == (0, (64, found["choice", "bounded", 0, 0][1][1]))
    assert found["choice", "none", 0, -1] == (INVALID_VALUE, (0, 0))
