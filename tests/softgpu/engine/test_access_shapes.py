"""Loads and stores by how a warp's addresses lie: rows, half rows, single places, and none of these."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.softgpu.bench import Device, LaunchError, Status
from tests.softgpu.engine.test_blocks import entry

WARPS, ELEMENTS = 3, 160
TYPES = {"u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}
Places = NDArray[np.uint32]


def shapes() -> st.SearchStrategy[Places]:
    """32 elements' numbers."""
    lane, half = np.arange(32, dtype=np.uint32), np.arange(16, dtype=np.uint32)
    first = st.integers(0, ELEMENTS - 32)
    pair = st.tuples(first, first)
    anywhere = st.integers(0, ELEMENTS - 1)
    return st.one_of(
        first.map(lambda at: at + lane),
        pair.map(lambda at: np.concatenate([at[0] + half, at[1] + half])),
        first.map(lambda at: np.full(32, at, np.uint32)),
        pair.map(lambda at: np.repeat(np.array(at, np.uint32), 16)),
        st.lists(anywhere, min_size=16, max_size=16).map(lambda at: np.array(at * 2, np.uint32)),
        st.lists(anywhere, min_size=32, max_size=32).map(lambda at: np.array(at, np.uint32)),
        st.tuples(first, st.integers(0, 31)).map(lambda at: at[0] + lane + np.where(lane == at[1], 1, 0)),
    ).map(lambda places: places.astype(np.uint32))


def kernel(kind: str, space: str, parts: int, stores: bool, moved: int) -> str:
    """Three times over, so that the instruction has met the array when it counts."""
    size = np.dtype(TYPES[kind]).itemsize * parts
    held = "b64" if kind == "u64" else "b32" if kind == "u32" else "b16"
    every = ", ".join(f"%x{i}" for i in range(parts))
    vector, names = (f".v{parts}", "{" + every + "}") if parts > 1 else ("", every)
    here = "." + space
    load = f"ld{'' if stores else here}{vector}.{kind}"
    store = f"st{here if stores else ''}{vector}.{kind}"
    inside, outside = ("%rd6", "%rd4") if stores else ("%rd4", "%rd6")
    shared = f"""mov.u64 %rd1, tile; mov.u32 %r8, %r1;
    FILL: mad.wide.u32 %rd10, %r8, 1, %rd9; mad.wide.u32 %rd11, %r8, 1, %rd1; ld.global.u8 %r11, [%rd10];
        st.shared.u8 [%rd11], %r11; add.u32 %r8, %r8, %r2; setp.lt.u32 %p2, %r8, {ELEMENTS * size};
        @%p2 bra FILL; bar.sync 0;"""
    return entry(
        ".param .u64 data, .param .u64 places, .param .u64 other",
        f""".reg .{held} %x<4>;
        ld.param.u64 %rd1, [data]; ld.param.u64 %rd2, [places]; ld.param.u64 %rd3, [other];
        mov.u64 %rd9, %rd1; {shared if space == "shared" else ""}
        mad.wide.u32 %rd7, %r1, 4, %rd2; ld.global.u32 %r5, [%rd7]; mad.wide.u32 %rd4, %r5, {size}, %rd1;
        mad.wide.u32 %rd6, %r1, {size}, %rd3; mov.u32 %r9, 0; sub.s64 %rd4, %rd4, {moved};
    TURN: {load} {names}, [{inside}+{0 if stores else moved}];
        {store} [{outside}+{moved if stores else 0}], {names};
        add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 3; @%p1 bra TURN;""",
        f".shared .align 16 .b8 tile[{ELEMENTS * size}];" if space == "shared" else "",
    )


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(sorted(TYPES)),
    st.sampled_from(["global", "shared"]),
    st.sampled_from([1, 2, 4]),
    st.lists(shapes(), min_size=WARPS, max_size=WARPS),
    st.sampled_from([0, 64, -64]),
)
def test_each_lane_loads_its_own_element(
    device: Device, kind: str, space: str, parts: int, places: list[Places], moved: int
) -> None:
    parts = min(parts, 2) if kind == "u64" else parts
    values = np.random.default_rng(1).integers(0, 255, (ELEMENTS, parts)).astype(TYPES[kind])
    at = np.concatenate(places)
    data, index = device.buffer(values), device.buffer(at)
    other = device.buffer(np.zeros((32 * WARPS, parts), TYPES[kind]))
    module = device.load(kernel(kind, space, parts, False, moved))
    module(data, index, other, block=32 * WARPS)
    assert np.array_equal(other.get(), values[at])
    module.unload()
    for buffer in (data, index, other):
        buffer.free()


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(TYPES)),
    st.sampled_from([1, 2, 4]),
    st.permutations([0, 16, 32, 48, 64, 80, 96, 112, 128, 144]),
    st.integers(0, 95),
)
def test_half_rows_are_stored_where_they_belong(
    device: Device, kind: str, parts: int, halves: list[int], swap: int
) -> None:
    parts = min(parts, 2) if kind == "u64" else parts
    at = np.concatenate([np.arange(half, half + 16) for half in halves[: 2 * WARPS]]).astype(np.uint32)
    at[[swap, 0]] = at[[0, swap]]
    values = np.random.default_rng(1).integers(1, 255, (32 * WARPS, parts)).astype(TYPES[kind])
    data = device.buffer(np.zeros((ELEMENTS, parts), TYPES[kind]))
    index, other = device.buffer(at), device.buffer(values)
    module = device.load(kernel(kind, "global", parts, True, 0))
    module(data, index, other, block=32 * WARPS)
    expected = np.zeros((ELEMENTS, parts), TYPES[kind])
    expected[at] = values
    assert np.array_equal(data.get(), expected)
    module.unload()
    for buffer in (data, index, other):
        buffer.free()


@pytest.mark.parametrize("stores", [False, True])
@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(
    ("low", "high", "lane"),
    [
        (0, ELEMENTS - 15, 31),  # the second half row's last element is behind the end
        (ELEMENTS - 15, 0, 15),
        (ELEMENTS, 16, 0),
        (0, 2**32 - 16, 16),  # far behind it
        (ELEMENTS - 31, ELEMENTS - 15, 31),  # a whole row's
    ],
)
def test_both_half_rows_are_held_to_the_array(
    device: Device, stores: bool, space: str, low: int, high: int, lane: int
) -> None:
    half = np.arange(16, dtype=np.uint64)
    good = np.concatenate([half, half + 16] * WARPS)
    bad = good.copy()
    bad[32:64] = np.concatenate([low + half, high + half])
    data = device.buffer(np.zeros(ELEMENTS, np.uint32))
    other = device.buffer(np.zeros(32 * WARPS, np.uint32))
    module = device.load(kernel("u32", space, 1, stores, 0))
    index = device.buffer(good.astype(np.uint32))
    module(data, index, other, block=32 * WARPS)
    device.write(index.address, bad.astype(np.uint32))
    with pytest.raises(LaunchError, match=rf"thread \({32 + lane},0,0\)") as caught:
        module(data, index, other, block=32 * WARPS)
    assert caught.value.status is Status.ILLEGAL_ADDRESS
