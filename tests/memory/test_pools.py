"""Memory pools, straight and forwarded."""

from __future__ import annotations

from tests.both_ways import BothWays
from tests.softgpu.driver import raw

MIB = 1 << 20
INT_MAX = 2**31 - 1


def test_a_pool_tells_what_it_is(both: BothWays) -> None:
    reuse, threshold, account = [1, 1, 1], [0], [0, 0, 0, 0]
    kind, handles, place, place_type, most, decompress = 1, 0, 0, 1, MIB, 0
    told = both.run("pool_attributes")
    assert told == [*reuse, *threshold, *account, kind, handles, place, place_type, most, decompress]


def test_a_pool_gives_back_what_it_does_not_use_when_its_stream_is_waited_for(both: BothWays) -> None:
    assert both.run("pool_account", 0) == [
        (0, 0, 0, 0),
        (3 * MIB, 3 * MIB, 3 * MIB, 3 * MIB),
        (MIB, 3 * MIB, MIB, 3 * MIB),
        (2 * MIB, 3 * MIB, 2 * MIB, 3 * MIB),
        (2 * MIB, 2 * MIB, 2 * MIB, 2 * MIB),
        (2 * MIB, 2 * MIB, 2 * MIB, 2 * MIB),
        (0, 2 * MIB, 0, 2 * MIB),
    ]


def test_a_pool_serves_the_device_until_it_is_destroyed(both: BothWays) -> None:
    seen = both.run("pool_of_the_device")
    assert seen == [True, True, raw.INVALID_VALUE, True, 4096, True, True, True, b"still there"]


def test_mistakes_with_pools_are_told_at_once(both: BothWays) -> None:
    bad, unsupported, no_device = raw.INVALID_VALUE, raw.NOT_SUPPORTED, raw.INVALID_DEVICE
    assert both.run("pool_mistakes") == [
        *(unsupported, unsupported, unsupported),
        *(raw.OUT_OF_MEMORY, bad, bad, bad),
        *(bad, bad, bad, bad),
        *(0, bad, no_device, 0),
        *(bad, 0, bad, bad, 0),
        3,
    ]
