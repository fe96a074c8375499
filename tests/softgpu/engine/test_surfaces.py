"""Surfaces are read, written and reduced at the byte that the coordinates name, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.softgpu.bench import Device, LaunchError, Status
from tests.softgpu.engine.fetch import kernel, place, rows, run
from tests.softgpu.engine.textures import DIMENSIONS, Request, Texture

GEOMETRIES = ("1d", "2d", "3d", "a1d", "a2d")
REGISTERS = {8: "h", 16: "h", 32: "r", 64: "rd"}
FIRST = {"h": 1, "r": 20, "rd": 10}
WIDTH, HEIGHT, DEPTH = 64, 3, 4  # bytes, rows, planes


def surface(kind: str, seed: int = 1) -> Texture:
    planes = 6 if kind == "cube" else DEPTH if kind in ("3d", "a1d", "a2d") else 1
    rows_ = 1 if kind in ("1d", "a1d") else HEIGHT
    data = np.random.default_rng(seed).integers(0, 256, (planes, rows_, WIDTH // 16, 16), np.uint8)
    return Texture(kind, "u32", [data.view(np.uint32)], surface=True)


def memory(texture: Texture) -> np.ndarray:
    """Planes, rows, bytes."""
    planes, height = texture.levels[0].shape[:2]
    return texture.levels[0].view(np.uint8).reshape(planes, height, WIDTH)


def reached(texture: Texture, request: Request, size: int, bounds: str) -> tuple[int, int, int] | None:
    """Plane, row and byte; none outside, where nothing is read or written."""
    planes, height, width = memory(texture).shape
    count = DIMENSIONS[texture.kind]
    x, y, z = (int(v) for v in [*request.at, 0, 0][:3])
    layered = texture.kind in ("a1d", "a2d", "cube")
    plane = request.layer if layered else z if count == 3 else 0
    row = y if count > 1 else 0
    if 0 <= x <= width - size and 0 <= row < height and 0 <= plane < planes:
        return plane, row, x
    if bounds == "zero":
        return None
    return min(max(plane, 0), planes - 1), min(max(row, 0), height - 1), min(max(x, 0), width - size)


def requests(texture: Texture, size: int, *, outside: bool, seed: int = 2) -> list[Request]:
    generator = np.random.default_rng(seed)
    planes, height, width = memory(texture).shape
    low, high = (-2, 3) if outside else (0, 0)
    count = DIMENSIONS[texture.kind]
    made = []
    for _ in range(64):
        x = int(generator.integers(low, width // size + high)) * size
        y, z = (int(generator.integers(low, n + high)) for n in (height, planes))
        made.append(Request((x, y, z)[:count], z))
    return made


def loaded(
    device: Device, texture: Texture, geometry: str, bits: int, parts: int, bounds: str, asked: list[Request]
):
    handle = texture.make(device)
    register = REGISTERS[bits]
    names = [f"%{register}{FIRST[register] + i}" for i in range(parts)]
    vector = "" if parts == 1 else f".v{parts}"
    text = kernel(
        f"suld.b.{geometry}{vector}.b{bits}.{bounds} {{{', '.join(names)}}}, [%rd4, {place(geometry, 'r')}];",
        "".join(f"st.global.b{bits} [%rd2+{i * bits // 8}], {name};" for i, name in enumerate(names)),
    )
    try:
        return run(device, text, [handle] * len(asked), rows(asked, by_element=True)).view(np.uint8)
    finally:
        device.drop_texture(handle)
        texture.free()


@pytest.mark.parametrize("bounds", ["trap", "clamp", "zero"])
@pytest.mark.parametrize("kind", [*GEOMETRIES, "cube"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_bytes_are_read(device: Device, kind: str, bits: int, bounds: str):
    for parts in (1, 2, 4)[: 2 if bits == 64 else 3]:
        size = bits // 8 * parts
        texture = surface(kind)
        asked = requests(texture, size, outside=bounds != "trap")
        got = loaded(device, texture, "a2d" if kind == "cube" else kind, bits, parts, bounds, asked)[:, :size]
        for request, found in zip(asked, got, strict=True):
            at = reached(texture, request, size, bounds)
            want = memory(texture)[at[0], at[1], at[2] : at[2] + size] if at else np.zeros(size, np.uint8)
            np.testing.assert_array_equal(found, want, err_msg=f"{request} {parts}")


@pytest.mark.parametrize("bounds", ["trap", "clamp", "zero"])
@pytest.mark.parametrize("kind", [*GEOMETRIES, "cube"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_bytes_are_written_and_no_others(device: Device, kind: str, bits: int, bounds: str):
    geometry = "a2d" if kind == "cube" else kind
    register = REGISTERS[bits]
    for parts in (1, 2, 4)[: 2 if bits == 64 else 3]:
        size = bits // 8 * parts
        texture = surface(kind)
        # Each byte is written once, but for those to which many are clamped: one thread does it.
        for request in requests(texture, size, outside=bounds != "trap")[:12]:
            handle = texture.make(device)
            names = [f"%{register}{FIRST[register] + i}" for i in range(parts)]
            values = [(0x1122334455667788 + i * 0x0101010101010101) % 2**bits for i in range(parts)]
            kind_ = f"b{max(bits, 16)}"
            opcode = f"sust.b.{geometry}{'' if parts == 1 else f'.v{parts}'}.b{bits}.{bounds}"
            text = kernel(
                "".join(f"mov.{kind_} {name}, {value};" for name, value in zip(names, values, strict=True))
                + f"{opcode} [%rd4, {place(geometry, 'r')}], {{{', '.join(names)}}};",
                "",
            )
            run(device, text, [handle], rows([request], by_element=True))
            want = memory(texture).copy()
            at = reached(texture, request, size, bounds)
            if at:
                raw = b"".join(value.to_bytes(bits // 8, "little") for value in values)
                want[at[0], at[1], at[2] : at[2] + size] = np.frombuffer(raw, np.uint8)
            np.testing.assert_array_equal(texture.buffers[-1].get().reshape(want.shape), want)
            device.drop_texture(handle)
            texture.free()


whole = st.one_of(st.integers(-80, 80), st.integers(-(2**31), 2**31 - 1))


@settings(max_examples=60)
@given(
    kind=st.sampled_from(GEOMETRIES),
    bounds=st.sampled_from(["clamp", "zero"]),
    bits=st.sampled_from([8, 32]),
    places=st.lists(st.tuples(whole, whole, whole, whole), min_size=1, max_size=8),
)
def test_wherever_coordinates_lead_bytes_of_the_surface_are_read(device: Device, kind, bounds, bits, places):
    size = bits // 8
    texture = surface(kind)
    asked = [Request((x // size * size, y, z)[: DIMENSIONS[kind]], layer) for x, y, z, layer in places]
    got = loaded(device, texture, kind, bits, 1, bounds, asked)[:, :size]
    for request, found in zip(asked, got, strict=True):
        at = reached(texture, request, size, bounds)
        want = memory(texture)[at[0], at[1], at[2] : at[2] + size] if at else np.zeros(size, np.uint8)
        np.testing.assert_array_equal(found, want, err_msg=str(request))


@pytest.mark.parametrize(
    ("request_", "what"),
    [
        (Request((64, 0)), "at byte 64, row 0, plane 0 of a surface of 64 bytes, 3 rows and 1 planes"),
        (Request((0, 3)), "at byte 0, row 3"),
        (Request((-4, 0)), "at byte -4, row 0"),
        (Request((0, -1)), "at byte 0, row -1"),
    ],
)
def test_outside_of_a_surface_is_a_fault_that_says_where(device: Device, request_: Request, what: str):
    with pytest.raises(LaunchError, match=r"suld\.b\.2d of 4 bytes out of bounds") as caught:
        loaded(device, surface("2d"), "2d", 32, 1, "trap", [request_])
    assert caught.value.status is Status.ILLEGAL_ADDRESS
    assert what in caught.value.detail


@pytest.mark.parametrize("bounds", ["trap", "clamp", "zero"])
def test_a_byte_that_is_no_multiple_of_the_access_is_misaligned(device: Device, bounds: str):
    with pytest.raises(LaunchError, match="no multiple of that") as caught:
        loaded(device, surface("2d"), "2d", 32, 2, bounds, [Request((4, 0))])
    assert caught.value.status is Status.MISALIGNED_ADDRESS


def test_a_texture_is_no_surface_and_a_surface_has_its_kind(device: Device):
    texture = surface("2d")
    texture.surface = False
    with pytest.raises(LaunchError, match="is no surface object"):
        loaded(device, texture, "2d", 32, 1, "trap", [Request((0, 0))])
    with pytest.raises(LaunchError, match="it is of another kind"):
        loaded(device, surface("3d"), "2d", 32, 1, "trap", [Request((0, 0))])


REDUCTIONS = {
    "add.u32": np.add,
    "add.s32": np.add,
    "add.u64": np.add,
    "add.s64": np.add,
    "min.u32": np.minimum,
    "min.s32": np.minimum,
    "min.u64": np.minimum,
    "min.s64": np.minimum,
    "max.u32": np.maximum,
    "max.s32": np.maximum,
    "max.u64": np.maximum,
    "max.s64": np.maximum,
    "and.b32": np.bitwise_and,
    "or.b32": np.bitwise_or,
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_threads_reduce_into_a_surface(device: Device, name: str):
    what, kind = name.split(".")
    number = np.dtype({"u": "uint", "s": "int", "b": "uint"}[kind[0]] + kind[1:])
    size = number.itemsize
    texture = surface("2d", 7)
    values = np.random.default_rng(8).integers(0, 2**32, (64, 2), np.uint32).reshape(-1).view(np.uint64)
    asked = [Request((size * (i % 4), 1)) for i in range(64)]
    table = rows(asked, by_element=True)
    table[:, 10] = values.astype(np.uint32)
    table[:, 9] = (values >> np.uint64(32)).astype(np.uint32)
    register = "%r11" if size == 4 else "%rd10"
    handle = texture.make(device)
    joined = "mov.b64 %rd10, {%r11, %r10};"
    text = kernel(f"{joined} sured.b.{what}.2d.{kind}.trap [%rd4, {{%r2, %r3}}], {register};", "")
    run(device, text, [handle] * 64, table)
    want = memory(texture).copy()
    given_ = (values if size == 8 else values.astype(np.uint32)).view(number)
    for place_ in range(4):
        at = want[0, 1, place_ * size : (place_ + 1) * size].view(number)
        with np.errstate(over="ignore"):
            at[0] = REDUCTIONS[name].reduce(np.concatenate([at, given_[place_::4]]), dtype=number)
    np.testing.assert_array_equal(texture.buffers[-1].get().reshape(want.shape), want)
    texture.free()


@pytest.mark.parametrize("name", ["add.u32", "max.u64"])
def test_atomics_want_rows_that_begin_at_a_multiple_of_their_bytes(device: Device, name: str):
    size = int(name[-2:]) // 8
    texture = Texture("2d", "u8", [np.zeros((1, 3, 14, 1), np.uint8)], surface=True)
    handle = texture.make(device)
    register = "%r11" if size == 4 else "%rd10"
    opcode = f"sured.b.{name[:3]}.2d.{name[4:]}.trap"
    text = kernel(
        f"mov.b64 %rd10, {{%r11, %r11}}; {opcode} [%rd4, {{%r2, %r3}}], {register};",
        "",
    )
    for row, fine in ((0, True), (1, False), (2, size == 4)):
        table = rows([Request((0, row))], by_element=True)
        table[:, 10] = 1
        if fine:
            run(device, text, [handle], table)
            continue
        with pytest.raises(LaunchError, match=f"row {row}.*rows are 14 bytes apart") as caught:
            run(device, text, [handle], table)
        assert caught.value.status is Status.MISALIGNED_ADDRESS
        assert caught.value.detail.count(f"sured.b.2d of {size} bytes") == 1
    texture.free()


@pytest.mark.parametrize(("what", "want"), [("width", 4), ("height", 3), ("depth", 4), ("array_size", 0)])
def test_a_surface_tells_its_shape(device: Device, what: str, want: int):
    texture = surface("3d")
    handle = texture.make(device)
    text = kernel(f"suq.{what}.b32 %r20, [%rd4];", "st.global.b32 [%rd2], %r20;")
    assert run(device, text, [handle], rows([Request((0,))], by_element=True))[0, 0] == want
    texture.free()
