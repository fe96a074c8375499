"""CUDA arrays: which there are, and copies of them against NumPy, straight and forwarded."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.both_ways import BothWays, Process, environments
from tests.native_build import Build
from tests.softgpu.driver import raw

from .array_cases import BYTES, CUBEMAP, GATHER, LAYERED, SURFACE, Shape, extents, level_of, size_of
from .conftest import MEMORY_MIB
from .test_box_copies import FORMS, STREAMS, contents

BAD = raw.INVALID_VALUE
HUGE = 2**64 - 1
KINDS = ["device", "pageable", "pinned", "managed", "mapped"]
# By attribute: the numbers that CUDA_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE..., ..._SURFACE... have in cuda.h.
TEXTURE = {
    "1D": (21,),
    "2D": (22, 23),
    "3D": (24, 25, 26),
    "1D layers": (42, 43),
    "2D layers": (27, 28, 29),
    "cubemap": (52, 52),
    "layered cubemap": (53, 53, 54),
}
SURFACES = {
    "1D": (55,),
    "2D": (56, 57),
    "3D": (58, 59, 60),
    "1D layers": (61, 62),
    "2D layers": (63, 64, 65),
    "cubemap": (66, 66),
    "layered cubemap": (67, 67, 68),
}
ALTERNATE, GATHERED, MIPMAPPED = (47, 48, 49), (45, 46), {"1D": (77,), "2D": (73, 74)}
KNOWN = LAYERED | SURFACE | CUBEMAP | GATHER


def kind_of(shape: Shape) -> str | None:
    """As CUDA's table has it; none where no row of it fits."""
    width, height, depth, _, _, flags = shape
    if width == 0 or (depth and not height and not flags & LAYERED):
        return None
    if flags & (LAYERED | CUBEMAP) and not depth:
        return None
    if flags & CUBEMAP:
        right = width == height and (depth % 6 == 0 if flags & LAYERED else depth == 6)
        return ("layered cubemap" if flags & LAYERED else "cubemap") if right else None
    if flags & LAYERED:
        return "2D layers" if height else "1D layers"
    return "3D" if depth else "2D" if height else "1D"


def fits(shape: Shape, limits: dict[int, int], attributes: tuple[int, ...]) -> bool:
    return all(
        extent <= limits[attribute]
        for extent, attribute in zip(filter(None, shape[:3]), attributes, strict=False)
    )


def expected_code(shape: Shape, limits: dict[int, int], levels: int) -> int:
    kind = kind_of(shape)
    flags = shape[5]
    if flags & 0x1F0:
        return raw.NOT_SUPPORTED
    if shape[3] not in BYTES:
        return raw.NOT_SUPPORTED if 0x50 <= shape[3] <= 0xFF else BAD
    if shape[4] not in (1, 2, 4) or flags & ~KNOWN or kind is None or (flags & GATHER and kind != "2D"):
        return BAD
    wanted = MIPMAPPED.get(kind, TEXTURE[kind]) if levels else TEXTURE[kind]
    right = fits(shape, limits, wanted) or (kind == "3D" and fits(shape, limits, ALTERNATE))
    right = right and (not flags & SURFACE or fits(shape, limits, SURFACES[kind]))
    right = right and (not flags & GATHER or fits(shape, limits, GATHERED))
    if not right:
        return BAD
    room = sum(size_of(level_of(shape, level)) for level in range(max(levels, 1)))
    return raw.SUCCESS if room < MEMORY_MIB << 19 else raw.OUT_OF_MEMORY


@pytest.fixture(scope="module")
def limits(both: BothWays) -> dict[int, int]:
    numbers = sorted({n for table in (TEXTURE, SURFACES, MIPMAPPED) for row in table.values() for n in row})
    numbers += [*ALTERNATE, *GATHERED]
    return dict(zip(numbers, both.run("attributes", numbers), strict=True))


def test_the_device_says_the_limits_of_its_compute_capability(limits: dict[int, int]) -> None:
    assert min(limits.values()) > 0
    assert [limits[number] for number in TEXTURE["2D"]] == [131072, 65536]
    assert [limits[number] for number in TEXTURE["3D"]] == [16384] * 3
    assert [limits[number] for number in TEXTURE["layered cubemap"]] == [32768, 32768, 2046]


@st.composite
def shapes(draw: st.DrawFn, limits: dict[int, int]) -> Shape:
    edges = sorted({limit + step for limit in limits.values() for step in (0, 1)} | {HUGE, 2**32, 2**63})
    extent = st.one_of(st.integers(0, 12), st.sampled_from([6, 12]), st.sampled_from(edges))
    width = draw(extent)
    return (
        width,
        draw(st.one_of(st.just(0), st.just(width), extent)),
        draw(st.one_of(st.just(0), extent)),
        draw(
            st.one_of(st.sampled_from(sorted(BYTES)), st.sampled_from([0, 4, 0x50, 0x91, 0xB0, 0xC0, 0x100]))
        ),
        draw(st.sampled_from([1, 2, 4, 4, 1, 3, 0])),
        draw(st.one_of(st.integers(0, 15), st.sampled_from([0x10, 0x40, 0x80, 0x200]))),
    )


@given(data=st.data())
def test_an_array_is_made_where_cudas_table_has_it(
    both: BothWays, limits: dict[int, int], data: st.DataObject
) -> None:
    shape = data.draw(shapes(limits))
    levels = data.draw(st.sampled_from([0, 0, 1, 3, 60]))
    longest = max(shape[:2] if shape[5] & (LAYERED | CUBEMAP) else shape[:3])
    made = min(levels, longest.bit_length())
    code, told, ends = both.run("descriptions", shape, levels)
    wanted = expected_code(shape, limits, made)
    if wanted == raw.OUT_OF_MEMORY:
        assert code in (raw.SUCCESS, raw.OUT_OF_MEMORY)  # levels and rows have gaps
    else:
        assert code == wanted
    if code:
        assert (told, ends) == ([77], [])
        return
    parts = [level_of(shape, level) for level in range(made)] if levels else [shape]
    assert told == [(part, part[0], part[1], part[3], part[4]) for part in parts]
    gone = [raw.INVALID_HANDLE] * (1 + len(parts))
    assert ends == ([raw.INVALID_HANDLE] if levels else []) + [raw.SUCCESS, *gone]


FORMATS = st.sampled_from([(1, 1), (8, 4), (2, 2), (16, 4), (32, 1), (32, 2), (32, 4), (3, 4)])


@st.composite
def arrays(draw: st.DrawFn) -> Shape:
    """Small ones of each kind."""
    width, height, depth = draw(st.integers(1, 9)), draw(st.integers(1, 7)), draw(st.integers(1, 5))
    kind = draw(st.sampled_from(["1D", "2D", "3D", "1D layers", "2D layers", "cubemap", "layered cubemap"]))
    sides = {
        "1D": (width, 0, 0, 0),
        "2D": (width, height, 0, draw(st.sampled_from([0, SURFACE, GATHER]))),
        "3D": (width, height, depth, draw(st.sampled_from([0, SURFACE]))),
        "1D layers": (width, 0, depth, LAYERED),
        "2D layers": (width, height, depth, LAYERED),
        "cubemap": (width, width, 6, CUBEMAP),
        "layered cubemap": (width, width, 12, CUBEMAP | LAYERED),
    }[kind]
    return (*sides[:3], *draw(FORMATS), sides[3])


def bytes_of(shape: Shape) -> int:
    return BYTES[shape[3]] * shape[4]


@st.composite
def boxes(draw: st.DrawFn, kinds: tuple[str | Shape, str | Shape], deep: bool) -> dict[str, int]:
    """A box that lies within each end that is an array, and whole elements of both."""
    whole = int(np.lcm.reduce([bytes_of(kind) for kind in kinds if not isinstance(kind, str)]))
    rooms = [extents(kind) for kind in kinds if not isinstance(kind, str)]
    planes, rows, row = (min(room[i] for room in rooms) for i in range(3))
    geometry = {
        "WidthInBytes": whole * draw(st.integers(1, max(row // whole, 1))),
        "Height": draw(st.integers(1, rows)),
        "Depth": draw(st.integers(1, planes)) if deep else 1,
    }
    sizes = geometry["Depth"], geometry["Height"], geometry["WidthInBytes"]
    for side, kind in zip(("src", "dst"), kinds, strict=True):
        if isinstance(kind, str):
            x, y, z = draw(st.integers(0, 9)), draw(st.integers(0, 3)), draw(st.integers(0, 2)) if deep else 0
            pitch, height = x + sizes[2] + draw(st.integers(0, 9)), y + sizes[1] + draw(st.integers(0, 2))
            geometry |= {side + "Pitch": pitch, side + "Height": height}
        else:
            room = extents(kind)
            x = bytes_of(kind) * draw(st.integers(0, max(room[2] - sizes[2], 0) // bytes_of(kind)))
            y = draw(st.integers(0, room[1] - sizes[1]))
            z = draw(st.integers(0, room[0] - sizes[0])) if deep else 0
        geometry |= {side + "XInBytes": x, side + "Y": y, side + "Z": z}
    return geometry


def space(kind: str | Shape, geometry: dict[str, int], side: str) -> tuple[int, int, int]:
    """Planes, rows and row of an end."""
    if not isinstance(kind, str):
        return extents(kind)
    planes = geometry[side + "Z"] + geometry["Depth"]
    return planes, geometry[side + "Height"], geometry[side + "Pitch"]


def copied(
    kinds: tuple[str | Shape, str | Shape], geometry: dict[str, int], before: tuple[bytes, bytes]
) -> bytes:
    views = []
    for side, kind, data in zip(("src", "dst"), kinds, before, strict=True):
        whole = np.frombuffer(bytearray(data), np.uint8).reshape(space(kind, geometry, side))
        z, y, x = (geometry[side + name] for name in ("Z", "Y", "XInBytes"))
        box = whole[z : z + geometry["Depth"], y : y + geometry["Height"], x : x + geometry["WidthInBytes"]]
        views.append((whole, box))
    views[1][1][...] = views[0][1]
    return views[1][0].tobytes()


def contents_of(kinds: tuple[str | Shape, str | Shape], geometry: dict[str, int]) -> tuple[bytes, bytes]:
    first, second = (
        contents(i, int(np.prod(space(kind, geometry, side))))
        for i, (side, kind) in enumerate(zip(("src", "dst"), kinds, strict=True))
    )
    return first, second


@given(data=st.data())
def test_any_box_of_an_array_is_copied_as_numpy_copies_it(both: BothWays, data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(FORMS))
    one, other = data.draw(arrays()), data.draw(st.one_of(arrays(), st.sampled_from(KINDS)))
    if not isinstance(other, str) and min(extents(one)[2], extents(other)[2]) < np.lcm(
        bytes_of(one), bytes_of(other)
    ):
        other = one
    kinds = (one, other) if data.draw(st.booleans()) else (other, one)
    geometry = data.draw(boxes(kinds, "3D" in form))
    before = contents_of(kinds, geometry)
    result = both.run("copy_with_arrays", form, data.draw(st.sampled_from(STREAMS)), kinds, before, geometry)
    assert result == (raw.SUCCESS, before[0], copied(kinds, geometry, before))


@pytest.mark.parametrize("kind", ["device", "pageable"])
@pytest.mark.parametrize("into", [True, False])
@pytest.mark.parametrize(
    "shape", [(16_000, 3, 2, 32, 4, 0), (131_072, 40, 0, 1, 1, 0), (3, 5, 9001, 2, 1, 0)]
)
def test_boxes_of_arrays_larger_than_a_frame_are_whole(
    both: BothWays, shape: Shape, into: bool, kind: str
) -> None:
    kinds: tuple[str | Shape, str | Shape] = (kind, shape) if into else (shape, kind)
    planes, rows, row = extents(shape)
    geometry = {"WidthInBytes": row, "Height": rows, "Depth": planes}
    for side, end in zip(("src", "dst"), kinds, strict=True):
        geometry |= {side + "XInBytes": 0, side + "Y": 0, side + "Z": 0}
        if isinstance(end, str):
            geometry |= {side + "Pitch": row + 3, side + "Height": rows + 1}
    before = contents_of(kinds, geometry)
    result = both.run("copy_with_arrays", "cuMemcpy3D_v2", "default", kinds, before, geometry)
    assert result == (raw.SUCCESS, before[0], copied(kinds, geometry, before))


WRONG: list[dict[str, int]] = [
    {"WidthInBytes": 17},
    {"WidthInBytes": 68},
    {"WidthInBytes": 2**64 - 4},
    {"Height": 9},
    {"Height": HUGE},
    {"Depth": 5},
    {"Depth": HUGE},
    {"arrayXInBytes": 2},
    {"arrayXInBytes": 4, "WidthInBytes": 64},
    {"arrayXInBytes": 2**64 - 4},
    {"arrayY": 8},
    {"arrayY": HUGE},
    {"arrayZ": 4},
    {"arrayZ": HUGE},
    {"arrayLOD": 1},
]


@pytest.mark.parametrize("into", [True, False])
@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_a_copy_beyond_its_array_is_refused_and_copies_nothing(
    both: BothWays, wrong: dict[str, int], into: bool
) -> None:
    shape: Shape = (16, 8, 4, 32, 1, 0)
    side, other = ("dst", "src") if into else ("src", "dst")
    kinds: tuple[str | Shape, str | Shape] = ("device", shape) if into else (shape, "device")
    geometry = {"WidthInBytes": 16, "Height": 1, "Depth": 1, other + "Pitch": 64, other + "Height": 8}
    geometry |= {name.replace("array", side): value for name, value in wrong.items()}
    before = contents(1, 2048), contents(2, 2048)
    result = both.run("copy_with_arrays", "cuMemcpy3D_v2", "default", kinds, before, geometry)
    assert result == (BAD, *before)


@pytest.mark.parametrize(
    ("shape", "offset", "size"),
    [((64, 0, 0, 32, 1, 0), 0, 256), ((64, 0, 0, 32, 1, 0), 12, 40), ((16, 4, 0, 8, 4, 0), 4, 60)],
)
def test_a_row_is_copied_by_the_calls_of_the_first_releases(
    both: BothWays, shape: Shape, offset: int, size: int
) -> None:
    data = bytes(i % 251 for i in range(size))
    codes, back, row = both.run("copies_within_a_row", shape, offset, size)
    assert (codes, back) == ([0] * 7, data)
    expected = bytearray(extents(shape)[2])
    expected[offset : offset + size] = data
    expected[:size] = data
    assert row == bytes(expected)


def test_a_row_ends(both: BothWays) -> None:
    codes, _, _ = both.run("copies_within_a_row", (16, 4, 0, 32, 1, 0), 32, 36)
    assert codes == [BAD, BAD, BAD, 0, 0, 0, 0]


@given(data=st.data())
def test_levels_of_a_mipmapped_array_are_apart_from_each_other(both: BothWays, data: st.DataObject) -> None:
    shape = data.draw(arrays().filter(lambda shape: not shape[5] & GATHER))
    longest = max(shape[:2] if shape[5] & (LAYERED | CUBEMAP) else shape[:3])
    levels = data.draw(st.integers(1, longest.bit_length()))
    told = both.run("levels_are_apart", shape, levels)
    assert told == [bytes([i + 1]) * size_of(level_of(shape, i)) for i in range(levels)]


@given(data=st.data())
def test_a_batch_counts_the_elements_of_its_arrays(both: BothWays, data: st.DataObject) -> None:
    sizes = 16, 8, 4
    offset = tuple(data.draw(st.integers(0, size - 1)) for size in sizes)
    extent = tuple(data.draw(st.integers(1, size - at)) for size, at in zip(sizes, offset, strict=True))
    code, failed, one, other = both.run("batch_with_arrays", offset, extent, 1)
    source = np.frombuffer(bytes(i % 253 for i in range(2048)), np.uint32).reshape(4, 8, 16)
    expected = np.zeros((4, 8, 16), np.uint32)
    (x, y, z), (width, height, depth) = offset, extent
    expected[z : z + depth, y : y + height, x : x + width] = source[:depth, :height, :width]
    assert (code, failed) == (0, HUGE)
    assert one == other == expected.tobytes()


@pytest.mark.parametrize(
    ("offset", "extent"), [((16, 0, 0), (1, 1, 1)), ((0, 0, 0), (2**63, 1, 1)), ((2**62, 0, 0), (1, 1, 1))]
)
def test_a_batch_beyond_its_arrays_is_refused(
    both: BothWays, offset: tuple[int, int, int], extent: tuple[int, int, int]
) -> None:
    code, failed, one, other = both.run("batch_with_arrays", offset, extent, 1)
    assert (code, failed, set(one + other)) == (BAD, 0, {0})


@pytest.mark.parametrize("shape", [(5, 3, 2, 32, 1, 0), (7, 0, 0, 8, 4, 0), (2, 2, 6, 2, 1, CUBEMAP)])
def test_captured_copies_of_arrays_are_nodes_and_run_again(both: BothWays, shape: Shape) -> None:
    data = contents(5, size_of(shape))
    codes, back, named = both.run("captured_copies", shape, data)
    assert codes == [0] * 6
    assert back == bytes([3]) * len(data)
    assert sorted(named) == [(0, 1, 1, 3), (1, 2, 3, 3), (2, 0, 3, 1)]


def test_a_graph_whose_copy_was_set_to_another_array_runs_without_the_first(both: BothWays) -> None:
    shape: Shape = (9, 4, 0, 32, 2, 0)
    data = contents(6, size_of(shape))
    assert both.run("a_graph_keeps_its_array", shape, data) == ([0, 0, 0], data)


def test_what_is_no_array_is_an_invalid_handle(both: BothWays) -> None:
    codes = both.run("refused_handles")
    assert codes == [raw.INVALID_HANDLE] * 18 + [BAD, raw.INVALID_HANDLE]


def test_what_arrays_of_other_kinds_answer_is_an_invalid_value(both: BothWays) -> None:
    assert both.run("asked_of_arrays") == [BAD] * 8


@pytest.mark.parametrize("shape", [(1024, 1024, 0, 32, 1, 0), (999, 501, 7, 8, 4, SURFACE)])
def test_arrays_are_taken_from_the_slice_and_come_back(both: BothWays, shape: Shape) -> None:
    assert both.run("room_for_arrays", shape) == ([raw.SUCCESS, raw.OUT_OF_MEMORY], True, True)


def test_a_context_takes_its_arrays_along(both: BothWays) -> None:
    seen = both.run("a_context_takes_its_arrays_along", (512, 512, 0, 32, 1, 0))
    assert seen == (True, [raw.INVALID_HANDLE] * 3, True)


def test_a_programs_arrays_end_with_it(both: BothWays, native: Build, tmp_path: Path) -> None:
    """Another process of the lease has their memory when it has gone."""
    before = both.forwarded.run("free_bytes")
    forwarded = environments(both.agent, native, (MEMORY_MIB,))[1]
    leaving = Process(forwarded, tmp_path / "log", "tests.memory.array_cases")
    assert leaving.run("leave_arrays", (1024, 512, 0, 32, 1, 0)) < before
    assert both.forwarded.run("free_bytes") < before
    leaving.end()
    end = time.monotonic() + 60
    while both.forwarded.run("free_bytes") != before:
        assert time.monotonic() < end
        time.sleep(0.05)
