"""Filling, freeing, and memory that host and device share, straight and forwarded."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.both_ways import BothWays
from tests.softgpu.driver import raw

from .conftest import MEMORY_MIB

BAD = raw.INVALID_VALUE
KINDS = ["device", "managed", "pinned", "mapped"]
AREA = bytes(range(256)) * 4


def test_kernels_use_pinned_memory_under_its_own_address(both: BothWays) -> None:
    once = [0, 1, 2, 3, 5, 6, 7, 7, 8]
    twice = [1, 2, 3, 4, 101, 7, 8, 8, 8]
    copied = struct.pack("<8I", *twice[:8]) * 2
    seen = both.run("kernel_on_plain_pinned_memory")
    assert seen == [0, once, 0, twice, copied, 0, True, [1, 2, 3]]


@given(data=st.data())
def test_any_part_of_any_memory_is_filled_as_numpy_fills_it(both: BothWays, data: st.DataObject) -> None:
    bits = data.draw(st.sampled_from([8, 16, 32]))
    two, late = data.draw(st.booleans()), data.draw(st.booleans())
    suffix = data.draw(st.sampled_from(["Async", "Async_ptsz"] if late else ["_v2", "_v2_ptds"]))
    unit = bits // 8
    start = data.draw(st.integers(0, 20))
    value = data.draw(st.integers(0, 2**bits - 1))
    expected = np.frombuffer(bytearray(AREA), np.dtype(f"<u{unit}"))
    if two:
        width, rows = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
        pitch = width + data.draw(st.integers(0, 9))
        shape: tuple[int, ...] = (pitch * unit, width, rows)
        for row in range(rows):
            expected[start + row * pitch : start + row * pitch + width] = value
    else:
        count = data.draw(st.integers(0, 200))
        shape = (count,)
        expected[start : start + count] = value
    form = f"cuMemsetD{'2D' if two else ''}{bits}{suffix}"
    kind, stream_of = data.draw(st.sampled_from(KINDS)), data.draw(st.sampled_from(["default", "own"]))
    result = both.run("sets", form, kind, stream_of, start, shape, value)
    assert result == (raw.SUCCESS, expected.tobytes(), True, None)


@pytest.mark.parametrize("form", ["cuMemsetD8_v2", "cuMemsetD32Async", "cuMemsetD2D16_v2"])
def test_a_fill_that_does_not_fit_is_told_at_once_and_writes_nothing(both: BothWays, form: str) -> None:
    shapes = [(2**63, 2**62, 2**40), (64, 33, 900)] if "2D" in form else [(2**62,), (2000,)]
    for shape in shapes:
        assert both.run("sets", form, "device", "default", 0, shape, 7) == (BAD, AREA, True, None)


def test_memory_is_freed_once_by_its_beginning_and_by_its_kind(both: BothWays) -> None:
    twice = [0, BAD]
    assert both.run("frees") == [BAD] * 7 + [713] + twice * 4 + [0]


def test_nothing_is_left_behind(both: BothWays) -> None:
    both.run("frees")
    assert both.run("free_bytes") == MEMORY_MIB << 20
