"""Copies in two and three dimensions against NumPy, straight and forwarded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.both_ways import BothWays
from tests.softgpu.driver import raw

KINDS = ["device", "pageable", "pinned", "managed", "mapped"]
FORMS = [
    "cuMemcpy2D_v2",
    "cuMemcpy2D_v2_ptds",
    "cuMemcpy2DUnaligned_v2",
    "cuMemcpy2DUnaligned_v2_ptds",
    "cuMemcpy2DAsync_v2",
    "cuMemcpy2DAsync_v2_ptsz",
    "cuMemcpy3D_v2",
    "cuMemcpy3D_v2_ptds",
    "cuMemcpy3DAsync_v2",
    "cuMemcpy3DAsync_v2_ptsz",
    "cuMemcpy3DPeer",
    "cuMemcpy3DPeer_ptds",
    "cuMemcpy3DPeerAsync",
    "cuMemcpy3DPeerAsync_ptsz",
]
STREAMS = ["default", "legacy", "per thread", "own"]


def contents(seed: int, size: int) -> bytes:
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8).tobytes()


def expected(geometry: dict[str, int], source: bytes, target: bytes) -> bytes:
    """The target after the copy, by NumPy's strides."""
    shape = geometry["Depth"], geometry["Height"], geometry["WidthInBytes"]
    views = []
    for side, data in (("src", source), ("dst", target)):
        pitch, rows = geometry[side + "Pitch"], geometry[side + "Height"]
        plane = pitch * rows
        start = geometry[side + "Z"] * plane + geometry[side + "Y"] * pitch + geometry[side + "XInBytes"]
        array = np.frombuffer(bytearray(data), np.uint8)
        views.append((array, np.lib.stride_tricks.as_strided(array[start:], shape, (plane, pitch, 1))))
    views[1][1][...] = views[0][1]
    return views[1][0].tobytes()


@st.composite
def geometries(draw: st.DrawFn, deep: bool) -> dict[str, int]:
    size = st.integers(1, 40)
    geometry = {
        "WidthInBytes": draw(size),
        "Height": draw(st.integers(1, 12)),
        "Depth": draw(st.integers(1, 5)) if deep else 1,
    }
    for side in ("src", "dst"):
        x, y = draw(st.integers(0, 9)), draw(st.integers(0, 5))
        geometry |= {
            side + "XInBytes": x,
            side + "Y": y,
            side + "Z": draw(st.integers(0, 3)) if deep else 0,
            side + "Pitch": x + geometry["WidthInBytes"] + draw(st.integers(0, 9)),
            side + "Height": y + geometry["Height"] + draw(st.integers(0, 4)),
        }
    return geometry


def room(geometry: dict[str, int], side: str) -> int:
    planes = geometry[side + "Z"] + geometry["Depth"]
    return planes * geometry[side + "Height"] * geometry[side + "Pitch"]


@given(data=st.data())
def test_any_box_between_any_memory_is_copied_as_numpy_copies_it(both: BothWays, data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(FORMS))
    geometry = data.draw(geometries("3D" in form))
    kinds = data.draw(st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS)))
    stream_of = data.draw(st.sampled_from(STREAMS))
    before = contents(1, room(geometry, "src")), contents(2, room(geometry, "dst"))
    result = both.run("copy_box", form, stream_of, data.draw(st.booleans()), kinds, before, geometry)
    assert result == (raw.SUCCESS, before[0], expected(geometry, *before))


@pytest.mark.parametrize("kinds", [("device", "pageable"), ("pageable", "device"), ("device", "device")])
@pytest.mark.parametrize("shape", [(300_000, 3, 2), (700, 600, 2), (5, 7, 9001)])
def test_boxes_larger_than_a_frame_are_whole(
    both: BothWays, kinds: tuple[str, str], shape: tuple[int, int, int]
) -> None:
    width, height, depth = shape
    geometry = {"WidthInBytes": width, "Height": height, "Depth": depth}
    for side, gap in (("src", 3), ("dst", 1)):
        geometry |= {side + "XInBytes": 1, side + "Y": 1, side + "Z": 0}
        geometry |= {side + "Pitch": width + 1 + gap, side + "Height": height + 1 + gap}
    before = contents(3, room(geometry, "src")), contents(4, room(geometry, "dst"))
    code, _, after = both.run("copy_box", "cuMemcpy3D_v2", "default", False, kinds, before, geometry)
    assert (code, after) == (raw.SUCCESS, expected(geometry, *before))


HUGE = 2**64 - 1
WRONG_ANYWHERE: list[dict[str, int]] = [
    {"Height": HUGE},
    {"Depth": HUGE},
    {"WidthInBytes": HUGE},
    {"srcPitch": 9},
    {"srcPitch": HUGE, "srcY": 2},
    {"dstXInBytes": HUGE},
    {"dstY": 2**61},
    {"srcMemoryType": 0},
    {"srcMemoryType": 9},
    {"srcHost": 0, "srcMemoryType": 1},
    {"srcLOD": 1},
]
WRONG_ON_THE_DEVICE: list[dict[str, int]] = [
    {"Height": 50},
    {"Depth": 2**62, "srcHeight": 4, "dstHeight": 4},
    {"dstPitch": 2**62},
    {"dstZ": 2**60},
    {"srcDevice": 64},
    {"dstDevice": HUGE},
    {"dstDevice": 0},
]
ON_DEVICE = ("device", "device")
CASES = [(ON_DEVICE, wrong) for wrong in WRONG_ANYWHERE + WRONG_ON_THE_DEVICE] + [
    (kinds, wrong) for kinds in (("pageable", "device"), ("device", "pageable")) for wrong in WRONG_ANYWHERE
]


@pytest.mark.parametrize(("kinds", "wrong"), CASES, ids=str)
def test_a_box_that_does_not_fit_is_an_invalid_value_and_copies_nothing(
    both: BothWays, kinds: tuple[str, str], wrong: dict[str, int]
) -> None:
    geometry = {"WidthInBytes": 10, "Height": 4, "Depth": 1, "srcPitch": 10, "dstPitch": 10}
    before = bytes(40), bytes(range(40))
    result = both.run("copy_box", "cuMemcpy3D_v2", "default", False, kinds, before, geometry | wrong)
    assert result == (raw.INVALID_VALUE, *before)


@pytest.mark.parametrize("nothing", ["WidthInBytes", "Height", "Depth"])
def test_a_box_without_bytes_is_copied_wherever_it_is(both: BothWays, nothing: str) -> None:
    geometry = {"WidthInBytes": 10, "Height": 4, "Depth": 1, "dstY": 2**60, nothing: 0}
    before = bytes(40), bytes(range(40))
    result = both.run("copy_box", "cuMemcpy3D_v2", "default", False, ("device", "device"), before, geometry)
    assert result == (raw.SUCCESS, *before)
