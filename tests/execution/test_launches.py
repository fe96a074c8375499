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
    assert codes == [0, 2**32 - 1, 0, 1, 0, 0, 0, 3, INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED]


def test_launch_attributes(both: BothWays) -> None:
    codes, supported, data = both.run("launch_attributes")
    assert codes == [0, TOO_LARGE, 0, NOT_SUPPORTED, NOT_SUPPORTED, 0, TOO_LARGE]
    assert supported == 1
    assert words(data) == list(range(7, 15))
