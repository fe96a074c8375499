"""Textures are sampled as the CUDA programming guide says, whatever the coordinates are."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.softgpu.bench import Description, Device, LaunchError, Level, LinkError, Status
from tests.softgpu.engine.fetch import PLACES, fetch, kernel, rows, run
from tests.softgpu.engine.textures import (
    DIMENSIONS,
    FORMATS,
    MODES,
    STORED,
    Request,
    Texture,
    element,
    gathered,
    sample,
)

GEOMETRIES = ("1d", "2d", "3d", "a1d", "a2d")
ODD = (0.0, -0.0, math.nan, math.inf, -math.inf, 3.4e38, -3.4e38, 1e-45, -1e-45, 2.0**31, -(2.0**31), 2.0**63)


def shape(kind: str, width: int, height: int, depth: int) -> tuple[int, int, int]:
    """Planes, rows, elements."""
    flat = kind in ("linear", "1d", "a1d")
    if kind in ("cube", "acube"):
        return (6 if kind == "cube" else 6 * depth), width, width
    return (depth if kind in ("3d", "a1d", "a2d") else 1), (1 if flat else height), width


def filled(kind: str, stored: str, size: tuple[int, int, int], channels: int, seed: int = 1) -> np.ndarray:
    generator = np.random.default_rng(seed)
    whole = (*size, channels)
    if stored in ("f16", "f32"):
        return generator.normal(0, 100, whole).astype(STORED[stored])
    limits = np.iinfo(STORED[stored])
    return generator.integers(limits.min, limits.max, whole, STORED[stored], endpoint=True)


def opcode(geometry: str, detail: str = "", kind: str = "f32", coordinate: str = "f32") -> str:
    return f"tex{detail}.{geometry}.v4.{kind}.{coordinate}"


def fetched(
    device: Device,
    texture: Texture,
    requests: Sequence[Request],
    *,
    detail: str = "",
    by_element: bool = False,
) -> np.ndarray:
    geometry = "1d" if texture.kind == "linear" else texture.kind
    handle = texture.make(device)
    kind = "f32" if texture.gives_floats else "u32"
    name = opcode(geometry, detail, kind, "s32" if by_element else "f32")
    text = kernel(fetch(name, geometry, "r" if by_element else "f"))
    try:
        return run(device, text, [handle] * len(requests), rows(requests, by_element=by_element))[:, :4]
    finally:
        device.drop_texture(handle)
        texture.free()


def expect(texture: Texture, got: np.ndarray, want: list[list[int]], requests: Sequence[Request]) -> None:
    """The same; where numbers are summed, the last place may differ."""
    wanted = np.array(want, np.uint32)
    if not texture.gives_floats:
        np.testing.assert_array_equal(got, wanted, err_msg=str(requests))
        return
    reals, wanted_reals = got.view(np.float32), wanted.view(np.float32)
    largest = max(float(np.nanmax(np.abs(level.astype(np.float64)))) for level in texture.levels)
    if texture.promotes:
        largest = 1
    filters = texture.linear or texture.between_levels
    tolerance = largest * 2.0**-23 if filters else 0
    np.testing.assert_allclose(reals, wanted_reals, rtol=0, atol=tolerance, err_msg=str(requests))


@pytest.mark.parametrize("as_float", [False, True], ids=["element", "normalized"])
@pytest.mark.parametrize("channels", [1, 2, 4])
@pytest.mark.parametrize("stored", FORMATS)
def test_every_format_is_read(device: Device, stored: str, channels: int, as_float: bool):
    level = filled("1d", stored, (1, 1, 24), channels)
    if stored in ("f16", "f32"):
        level[0, 0, :4, 0] = [np.inf, -np.inf, 0, -0.0]
    else:
        level[0, 0, :2, 0] = [np.iinfo(level.dtype).min, np.iinfo(level.dtype).max]
    texture = Texture("1d", stored, [level], as_float=as_float)
    requests = [Request((i + 0.5,)) for i in range(24)]
    got = fetched(device, texture, requests)
    np.testing.assert_array_equal(got, [element(texture, 0, (0, 0, i)) for i in range(24)])


def test_srgb_is_made_linear_but_in_the_fourth_channel(device: Device):
    level = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 4, 1).reshape(1, 1, 256, 4)
    texture = Texture("1d", "u8", [level], as_float=True, srgb=True)
    got = fetched(device, texture, [Request((i + 0.5,)) for i in range(256)]).view(np.float32)
    x = np.arange(256) / 255
    want = np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)
    for channel in range(3):
        np.testing.assert_allclose(got[:, channel], want, rtol=1e-6)
    np.testing.assert_array_equal(got[:, 3], np.arange(256, dtype=np.float32) / np.float32(255))


def spread(texture: Texture, seed: int) -> list[Request]:
    """Coordinates within, at the edges, outside and nowhere."""
    generator = np.random.default_rng(seed)
    planes, height, width, _ = texture.levels[0].shape
    extents = (1, 1, 1) if texture.normalized else (width, height, planes)
    requests = []
    for number in range(96):
        at = [np.float32(x).item() for x in generator.uniform(-1.5, 2.5, 3) * extents]
        if number % 4 == 1:  # a corner or the middle of an element
            half = [int(x) / 2 for x in generator.integers(-2, 5, 3)]
            at = [
                np.float32(x / e if texture.normalized else x).item()
                for x, e in zip(half, (width, height, planes), strict=True)
            ]
        if number % 4 == 2:
            at = [float(np.float32(ODD[int(x)])) for x in generator.integers(0, len(ODD), 3)]
        requests.append(
            Request(tuple(at[: DIMENSIONS[texture.kind]]), layer=int(generator.integers(-1, planes + 2)))
        )
    return requests


@pytest.mark.parametrize("linear", [False, True], ids=["nearest", "linear"])
@pytest.mark.parametrize("normalized", [False, True], ids=["elements", "normalized"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GEOMETRIES)
def test_every_mode_is_the_guides(device: Device, kind: str, mode: str, normalized: bool, linear: bool):
    for seed, size in enumerate([(5, 3, 4), (1, 1, 1), (2, 7, 2)]):
        level = filled(kind, "f32", shape(kind, *size), 2, seed)
        texture = Texture(
            kind, "f32", [level], mode, linear=linear, normalized=normalized, border=(1.5, -2.5, 3, 4)
        )
        requests = spread(texture, seed)
        expect(texture, fetched(device, texture, requests), [sample(texture, r) for r in requests], requests)


numbers = st.one_of(
    st.floats(-4, 4, width=32), st.sampled_from([float(np.float32(x)) for x in ODD]), st.floats(width=32)
)


@settings(max_examples=60)
@given(st.data())
def test_what_hypothesis_finds_is_the_guides(device: Device, data: st.DataObject):
    kind = data.draw(st.sampled_from(GEOMETRIES))
    stored = data.draw(st.sampled_from(FORMATS))
    size = [data.draw(st.integers(1, 6)) for _ in range(3)]
    level = filled(kind, stored, shape(kind, *size), data.draw(st.sampled_from([1, 2, 4])))
    texture = Texture(
        kind,
        stored,
        [level],
        data.draw(st.sampled_from(MODES)),
        linear=data.draw(st.booleans()),
        normalized=data.draw(st.booleans()),
        as_float=data.draw(st.booleans()),
        border=(0.25, -1, 2, 3),
    )
    requests = [
        Request(tuple(data.draw(numbers) for _ in range(DIMENSIONS[kind])), data.draw(st.integers(-2, 9)))
        for _ in range(8)
    ]
    expect(texture, fetched(device, texture, requests), [sample(texture, r) for r in requests], requests)


@pytest.mark.parametrize("stored", ["s8", "u32", "f32"])
@pytest.mark.parametrize("kind", ["linear", *GEOMETRIES])
def test_by_its_number_an_element_is_fetched_unfiltered_and_outside_is_zero(
    device: Device, kind: str, stored: str
):
    planes, height, width = shape(kind, 5, 3, 4)
    level = filled(kind, stored, (planes, height, width), 4)
    texture = Texture(kind, stored, [level], "wrap", linear=True, normalized=True)
    generator = np.random.default_rng(3)
    count = DIMENSIONS[kind]
    requests = [
        Request(tuple(int(x) for x in generator.integers(-3, 8, count)), int(generator.integers(0, 6)))
        for _ in range(90)
    ]
    requests += [Request((2**31 - 1,) * count), Request((-(2**31),) * count)]
    want = []
    for request in requests:
        extents = (width, height, planes)
        inside = all(0 <= x < extents[i] for i, x in enumerate(request.at))
        x, y, z = [*request.at, 0, 0][:3]
        plane = min(request.layer, planes - 1) if kind in ("a1d", "a2d") else z if kind == "3d" else 0
        y = y if count > 1 else 0
        want.append(element(texture, 0, (int(plane), int(y), int(x))) if inside else [0] * 4)
    np.testing.assert_array_equal(fetched(device, texture, requests, by_element=True), want)


@pytest.mark.parametrize("linear", [False, True], ids=["nearest", "linear"])
@pytest.mark.parametrize("mode", ["clamp", "border"])
def test_rows_of_pitched_memory_are_found(device: Device, mode: str, linear: bool):
    level = filled("2d", "u8", (1, 5, 6), 4)
    texture = Texture("2d", "u8", [level], mode, linear=linear, as_float=True, pitch=64)
    requests = spread(texture, 4)
    expect(texture, fetched(device, texture, requests), [sample(texture, r) for r in requests], requests)


def directions(seed: int, layers: int) -> list[Request]:
    generator = np.random.default_rng(seed)
    requests = []
    for number in range(96):
        at = generator.uniform(-1, 1, 3).astype(np.float32)
        if number % 3 == 1:  # two alike, or three: an edge or a corner of the cube
            at[:] = np.where(generator.integers(0, 2, 3) == 1, at, np.sign(at) * abs(at[0]))
        if number % 3 == 2:
            at = at * np.float32(1e20)
        requests.append(Request(tuple(float(x) for x in at), int(generator.integers(-1, layers + 1))))
    return requests


@pytest.mark.parametrize("linear", [False, True], ids=["nearest", "linear"])
@pytest.mark.parametrize("kind", ["cube", "acube"])
def test_a_direction_finds_its_face(device: Device, kind: str, linear: bool):
    level = filled(kind, "f32", shape(kind, 4, 4, 3), 1)
    texture = Texture(kind, "f32", [level], "wrap", linear=linear, normalized=True)
    requests = directions(5, 3)
    expect(texture, fetched(device, texture, requests), [sample(texture, r) for r in requests], requests)


def test_a_direction_that_is_none_reads_within_the_cube(device: Device):
    level = np.arange(6 * 4, dtype=np.float32).reshape(6, 2, 2, 1)
    texture = Texture("cube", "f32", [level], linear=True, normalized=True)
    odd = [float(np.float32(x)) for x in ODD]
    requests = [Request((x, y, z)) for x in odd[:6] for y in odd[:6] for z in odd[:6]]
    got = fetched(device, texture, requests)[:, 0].view(np.float32)
    assert ((got >= 0) & (got < 24)).all()


def pyramid(kind: str, count: int) -> list[np.ndarray]:
    sizes = [(16 >> i, 8 >> i or 1, 4 >> i or 1) for i in range(count)]
    layered = kind in ("a1d", "a2d", "acube")
    return [
        filled(kind, "f32", shape(kind, w, w if kind in ("cube", "acube") else h, 2 if layered else d), 1, i)
        for i, (w, h, d) in enumerate(sizes)
    ]


@pytest.mark.parametrize("between", [False, True], ids=["point", "trilinear"])
@pytest.mark.parametrize("kind", [*GEOMETRIES, "cube", "acube"])
def test_a_level_is_chosen_by_number(device: Device, kind: str, between: bool):
    for bias, least, greatest in ((0, 0, 100), (0.75, 0.5, 2.25), (-1, 1, 3)):
        texture = Texture(
            kind, "f32", pyramid(kind, 4), "wrap", linear=True, normalized=True, between_levels=between,
            bias=bias, least=least, greatest=greatest,
        )  # fmt: skip
        levels = [0, 0.49, 0.5, 1, 1.3, 2.75, 3, 9, -2, math.inf, -math.inf, math.nan, 0.999, 2.5, 1.001]
        requests = [
            Request(r.at, r.layer, float(np.float32(level)))
            for r, level in zip(directions(6, 2), levels * 6, strict=False)
        ]
        requests = [
            Request(r.at[: 3 if "cube" in kind else DIMENSIONS[kind]], r.layer, r.level) for r in requests
        ]
        got = fetched(device, texture, requests, detail=".level")
        expect(texture, got, [sample(texture, r) for r in requests], requests)


@pytest.mark.parametrize("between", [False, True], ids=["point", "trilinear"])
@pytest.mark.parametrize("kind", GEOMETRIES)
def test_a_level_is_chosen_by_how_coordinates_change(device: Device, kind: str, between: bool):
    texture = Texture(kind, "f32", pyramid(kind, 5), linear=False, normalized=True, between_levels=between)
    generator = np.random.default_rng(7)
    count = DIMENSIONS[kind]

    def change() -> tuple[float, ...]:
        scale = 2.0 ** generator.uniform(-6, 1)
        return tuple(float(np.float32(x)) for x in generator.normal(0, scale, count))

    requests = [
        Request(
            tuple(float(np.float32(x)) for x in generator.uniform(0, 1, count)), 1, None, change(), change()
        )
        for _ in range(60)
    ]
    requests.append(Request((0.5,) * count, 0, None, (0.0,) * count, (0.0,) * count))
    got = fetched(device, texture, requests, detail=".grad")
    expect(texture, got, [sample(texture, r) for r in requests], requests)


def test_how_a_direction_changes_chooses_the_level_of_a_cube(device: Device):
    """A change by one element of a face that is seen straight on is level 0, by two it is level 1."""
    levels = [np.full((6, 8 >> i, 8 >> i, 1), i, np.float32) for i in range(4)]
    texture = Texture("cube", "f32", levels, normalized=True, between_levels=True)
    requests = [
        Request((1.0, 0.1, 0.1), 0, None, (0.0, 2.0 ** (k - 2), 0.0), (0.0, 0.0, 2.0 ** (k - 3)))
        for k in range(-1, 4)
    ]
    got = fetched(device, texture, requests, detail=".grad")[:, 0].view(np.float32)
    np.testing.assert_array_equal(got, [0, 0, 1, 2, 3])


def test_a_texture_without_a_level_named_is_read_at_its_first(device: Device):
    texture = Texture("2d", "f32", pyramid("2d", 3), normalized=True)
    requests = [Request((0.3, 0.7)), Request((0.9, 0.1))]
    for detail in ("", ".base"):
        got = fetched(device, texture, requests, detail=detail)
        expect(texture, got, [sample(texture, r) for r in requests], requests)


@pytest.mark.parametrize("channel", range(4))
@pytest.mark.parametrize("kind", ["2d", "a2d", "cube"])
def test_four_elements_are_gathered(device: Device, kind: str, channel: int):
    level = filled(kind, "u16", shape(kind, 5, 3, 3), 4)
    texture = Texture(kind, "u16", [level], "wrap", normalized=True)
    if kind == "cube":
        requests = directions(8, 0)
    else:
        requests = [
            Request(r.at, max(0, min(r.layer, 2)) if kind == "a2d" else 0) for r in spread(texture, 8)
        ]
    handle = texture.make(device)
    text = kernel(fetch(f"tld4.{'rgba'[channel]}.{kind}.v4.u32.f32", kind))
    got = run(device, text, [handle] * len(requests), rows(requests))[:, :4]
    texture.free()
    np.testing.assert_array_equal(got, [gathered(texture, r, channel) for r in requests])


def test_results_come_as_halves(device: Device):
    level = np.array([1.5, -2.25, 65504, 1e-8], np.float32).reshape(1, 1, 1, 4)
    texture = Texture("1d", "f32", [level])
    handle = texture.make(device)
    want = level.reshape(4).astype(np.float16).view(np.uint16)
    text = kernel(
        "tex.1d.v4.f16.f32 {%h1, %h2, %h3, %h4}, [%rd4, {%f2}];"
        "tex.1d.v2.f16x2.f32 {%r20, %r21}, [%rd4, {%f2}];",
        "st.global.v4.b16 [%rd2], {%h1, %h2, %h3, %h4}; st.global.v2.b32 [%rd2+8], {%r20, %r21};",
    )
    got = run(device, text, [handle], rows([Request((0.5,))])).view(np.uint16)
    texture.free()
    np.testing.assert_array_equal(got[0, :8], [*want, *want])


def test_elements_of_an_array_are_resident(device: Device):
    texture = Texture("2d", "f32", [filled("2d", "f32", (1, 2, 2), 4)])
    handle = texture.make(device)
    text = kernel(
        fetch(opcode("2d"), "2d").replace("}, [", "}|%p1, [", 1),
        "selp.b32 %r20, 7, 0, %p1; st.global.b32 [%rd2], %r20;",
    )
    assert run(device, text, [handle] * 2, rows([Request((0.5, 0.5))] * 2))[:, 0].tolist() == [7, 7]
    texture.free()


def test_lanes_may_have_textures_of_their_own_and_some_may_stay_away(device: Device):
    textures = [Texture("1d", "u32", [np.full((1, 1, 2, 1), i + 10, np.uint32)]) for i in range(5)]
    handles = [texture.make(device) for texture in textures]
    requests = [Request((0.5,))] * 40
    text = kernel(
        "mov.b32 %r20, 3; and.b32 %r30, %r0, 1; setp.eq.u32 %p1, %r30, 1; @%p1 "
        + fetch(opcode("1d", "", "u32"), "1d"),
        "st.global.b32 [%rd2], %r20;",
    )
    got = run(device, text, [handles[i % 5] for i in range(40)], rows(requests))[:, 0]
    assert got.tolist() == [10 + i % 5 if i % 2 else 3 for i in range(40)]
    for texture in textures:
        texture.free()


QUERIES = {
    "width": 5,
    "height": 3,
    "depth": 0,
    "array_size": 4,
    "num_mipmap_levels": 2,
    "normalized_coords": 1,
}


@pytest.mark.parametrize("what", QUERIES)
def test_a_texture_tells_its_shape(device: Device, what: str):
    levels = [filled("a2d", "u8", (4, 3, 5), 1), filled("a2d", "u8", (4, 1, 2), 1)]
    texture = Texture("a2d", "u8", levels, normalized=True)
    handle = texture.make(device)
    level = what in ("width", "height")
    text = kernel(
        f"txq.{what}.b32 %r20, [%rd4];" + (f"txq.level.{what}.b32 %r21, [%rd4], 1;" if level else ""),
        "st.global.v2.b32 [%rd2], {%r20, %r21};",
    )
    got = run(device, text, [handle], rows([Request((0.0,))]))[0]
    texture.free()
    assert got[0] == QUERIES[what]
    if level:
        assert got[1] == {"width": 2, "height": 1}[what]


def fault(device: Device, texture: Texture, name: str, handle: int | None = None) -> LaunchError:
    geometry = next(part for part in name.split(".") if part in PLACES)
    made = texture.make(device) if handle is None else handle
    coordinate = "r" if name.endswith(".s32") else "f"
    with pytest.raises(LaunchError) as caught:
        run(device, kernel(fetch(name, geometry, coordinate)), [made], rows([Request((0.0, 0.0))]))
    texture.free()
    return caught.value


def flat(kind: str = "2d", **options: bool) -> Texture:
    return Texture(kind, "f32", [np.zeros((*shape(kind, 4, 4, 1), 1), np.float32)], **options)


def test_a_number_that_names_no_texture_is_a_fault_that_says_so(device: Device):
    error = fault(device, flat(), opcode("2d"), 0x1234)
    assert error.status is Status.ILLEGAL_ADDRESS
    assert "tex.2d uses 0x1234, which is no texture object" in error.detail
    assert "kernel k, block (0,0,0), thread (0,0,0)" in error.detail


def test_a_texture_that_was_destroyed_is_found_no_more(device: Device):
    texture = flat()
    handle = texture.make(device)
    device.drop_texture(handle)
    assert "has been destroyed" in fault(device, texture, opcode("2d"), handle).detail


def test_memory_that_was_freed_under_a_texture_is_an_illegal_access(device: Device):
    texture = flat()
    handle = texture.make(device)
    texture.free()
    error = fault(device, texture, opcode("2d"), handle)
    assert error.status is Status.ILLEGAL_ADDRESS
    assert "whose memory at 0x" in error.detail
    assert "has been freed" in error.detail


def test_a_texture_that_is_larger_than_its_memory_is_not_read(device: Device):
    small = device.buffer(np.zeros(15, np.float32))
    place = Level(base=small.address, row_pitch=16, plane_pitch=64, width=4, height=4, depth=1)
    handle = device.texture(Description(kind=2, format=7, channels=1), [place])
    assert "has been freed" in fault(device, flat(), opcode("2d"), handle).detail
    small.free()


@pytest.mark.parametrize(
    ("texture", "name", "why"),
    [
        (flat("3d"), opcode("2d"), "it is of another kind"),
        (flat("2d"), opcode("a2d"), "it is of another kind"),
        (flat("linear"), opcode("1d"), "with tex1Dfetch"),
        (flat("2d", gathers=False), "tld4.r.2d.v4.f32.f32", "cudaArrayTextureGather"),
        (flat("2d", anisotropic=True), opcode("2d", ".grad"), "anisotropic filtering is not supported"),
    ],
    ids=["dimensions", "layers", "linear", "gather", "anisotropic"],
)
def test_what_a_texture_cannot_do_is_a_fault_that_says_why(
    device: Device, texture: Texture, name: str, why: str
):
    error = fault(device, texture, name)
    assert error.status is Status.ILLEGAL_INSTRUCTION
    assert why in error.detail


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("tex.2dms.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd4, {%r1, %r1, %r1, %r1}];", "tex.2dms.v4.f32.s32"),
        ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd4, %rd4, {%f1, %f1}];", "a sampler of its own"),
        ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd4, {%f1, %f1}], {%r1, %r1};", "with an offset"),
        ("sust.p.2d.v4.b32.trap [%rd4, {%r1, %r1}], {%r1, %r1, %r1, %r1};", "sust.p.2d.v4.b32.trap"),
        ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd4, {%f1}];", "has 1 coordinates"),
        ("tex.2d.v4.f32.f32 {%f1, %f2}, [%rd4, {%f1, %f1}];", "wants 4 destinations"),
        ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [nowhere, {%f1, %f1}];", "wants a texture or surface"),
        ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%r1, {%f1, %f1}];", "a register of 64 bits"),
        ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd4];", "wants coordinates"),
    ],
)  # fmt: skip
def test_what_is_not_supported_refuses_its_kernel_alone(device: Device, statement: str, why: str):
    other = ".visible .entry other() { ret; }"
    text = kernel(statement)
    with pytest.raises(LinkError, match=why):
        device.load(text)
    module = device.load(text + other)
    assert module.kernels == ["other"]
    module(name="other")


def test_a_texture_variable_names_the_object_that_it_holds(device: Device):
    texture = Texture("1d", "u32", [np.array([5, 6], np.uint32).reshape(1, 1, 2, 1)])
    handle = texture.make(device)
    text = kernel("tex.1d.v4.u32.f32 {%r20, %r21, %r22, %r23}, [picture, {%f2}];").replace(
        ".visible .entry", ".visible .global .texref picture;\n.visible .entry"
    )
    module = device.load(text)
    found = module.global_("picture")
    assert found is not None
    address, size = found
    assert size == 8
    out, given = device.buffer(np.zeros((1, 8), np.uint32)), device.buffer(rows([Request((1.5,))]))
    with pytest.raises(LaunchError, match="uses 0x0, which is no texture object"):
        module(out, given, given, block=1)
    device.write(address, np.frombuffer(struct.pack("<Q", handle), np.uint8))
    module(out, given, given, block=1)
    assert out.get()[0, 0] == 6
    texture.free()


def test_an_object_is_told_from_other_numbers(device: Device):
    texture = flat()
    handle = texture.make(device)
    text = kernel(
        "istypep.texref %p1, %rd4; istypep.surfref %p2, %rd4;",
        "selp.b32 %r20, 1, 0, %p1; selp.b32 %r21, 1, 0, %p2;st.global.v2.b32 [%rd2], {%r20, %r21};",
    )
    got = run(device, text, [handle, handle + 1], rows([Request((0.0,))] * 2))[:, :2]
    texture.free()
    assert got.tolist() == [[1, 0], [0, 0]]
