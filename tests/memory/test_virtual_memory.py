"""Addresses and memory apart from each other, straight and forwarded."""

from __future__ import annotations

from tests.both_ways import BothWays
from tests.softgpu.driver import raw

from .virtual_cases import GRANULE

BAD = raw.INVALID_VALUE


def test_a_range_that_grows_by_pieces_is_as_one_for_copies(both: BothWays) -> None:
    assert both.run("growing_segment") == [
        GRANULE,
        3 * GRANULE,
        bytes(16),
        True,
        True,
        b"\x07" * 8,
        BAD,
        BAD,
        BAD,
        b"\x07" * 4,
        0,
    ]


def test_memory_lasts_as_long_as_a_handle_or_a_mapping(both: BothWays) -> None:
    seen = both.run("one_memory_at_two_addresses")
    assert seen == [b"both", GRANULE, BAD, True, [1, 0, 1, 0], GRANULE, b"both", 0]


def test_copies_touch_a_mapping_only_while_access_is_granted(both: BothWays) -> None:
    refused, granted = [0, BAD, 0], [3, 0, 0]
    assert both.run("access_given_and_taken") == [refused, granted, refused, granted]


def test_mistakes_with_addresses_are_told_at_once(both: BothWays) -> None:
    assert both.run("virtual_mistakes") == [
        *(BAD, BAD, raw.INVALID_DEVICE, raw.NOT_SUPPORTED, raw.NOT_SUPPORTED, raw.OUT_OF_MEMORY),
        *(BAD, BAD, raw.OUT_OF_MEMORY, BAD, BAD),
        *(BAD, BAD, BAD, BAD, BAD, BAD, BAD),
        *(BAD, raw.NOT_SUPPORTED, BAD, BAD, BAD, BAD),
        *(BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD),
        *(BAD, BAD),
    ]
