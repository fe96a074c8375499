"""mma, wmma, ldmatrix and cp.async against NumPy, with elements where PTX's tables of fragments put them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.softgpu.bench import Device
from tests.softgpu.engine.elementwise import HEAD

LANES = np.arange(32)
GROUP, PLACE = LANES // 4, LANES % 4
WIDTH = {
    "tf32": 32,
    "f16": 16,
    "bf16": 16,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "b1": 1,
    "f64": 64,
    "f32": 32,
    "s32": 32,
}


def to_bits(kind: str, matrix: np.ndarray) -> np.ndarray:
    """Elements as unsigned integers of their width."""
    if kind == "f16":
        return matrix.astype(np.float16).view(np.uint16).astype(np.uint64)
    if kind == "bf16":
        return (matrix.astype(np.float32).view(np.uint32) >> 16).astype(np.uint64)
    if kind in ("tf32", "f32"):
        return matrix.astype(np.float32).view(np.uint32).astype(np.uint64)
    if kind == "f64":
        return matrix.astype(np.float64).view(np.uint64)
    return matrix.astype(np.int64).astype(np.uint64) & np.uint64((1 << WIDTH[kind]) - 1)


def fragment(kind: str, matrix: np.ndarray, transposed: bool) -> np.ndarray:
    """Registers of a, or of b, whose fragment is that of its transpose as an a: [register, lane]."""
    rows = matrix.T if transposed else matrix
    packed = max(1, 32 // WIDTH[kind])
    below, across = rows.shape[0] // 8, rows.shape[1] // (4 * packed)
    bits = to_bits(kind, rows)
    registers = []
    for column, row in itertools.product(range(across), range(below)):
        word = np.zeros(32, np.uint64)
        for part in range(packed):
            at = bits[GROUP + 8 * row, (column * 4 + PLACE) * packed + part]
            word |= at << np.uint64(part * WIDTH[kind] if packed > 1 else 0)
        registers.append(word)
    return np.array(registers)


def sums(kind: str, matrix: np.ndarray) -> np.ndarray:
    """Registers of c or d."""
    bits = to_bits(kind, matrix)
    halves = [
        bits[GROUP + 8 * row, 2 * PLACE + part] for row in range(matrix.shape[0] // 8) for part in (0, 1)
    ]
    if kind != "f16":
        return np.array(halves)
    return np.array([halves[i] | halves[i + 1] << np.uint64(16) for i in range(0, len(halves), 2)])


def run_mma(
    device: Device, name: str, kinds: tuple[str, str, str, str], registers: list[np.ndarray]
) -> np.ndarray:
    """Gives each lane its registers of a, b and c; returns those of d."""
    held = ["b64" if kind == "f64" else "f32" if kind == "f32" else "b32" for kind in kinds]
    counts = [len(registers[2]), *map(len, registers)]
    lines, at = [], 0
    for letter, count, kind in zip("abc", counts[1:], held[1:], strict=True):
        for i in range(count):
            lines.append(f"ld.global.{kind} %{letter}{i}, [%in+{at}];")
            at += 256
    vectors = [
        "{" + ", ".join(f"%{letter}{i}" for i in range(count)) + "}"
        for letter, count in zip("dabc", counts, strict=True)
    ]
    stores = [f"st.global.{held[0]} [%out+{256 * i}], %d{i};" for i in range(counts[0])]
    declared = "".join(
        f".reg .{kind} %{letter}<{count}>;" for letter, kind, count in zip("dabc", held, counts, strict=True)
    )
    text = f"""{HEAD}.visible .entry k(.param .u64 out, .param .u64 in) {{
        .reg .b64 %out, %in; .reg .b32 %t; {declared}
        ld.param.u64 %out, [out]; ld.param.u64 %in, [in]; mov.u32 %t, %tid.x;
        mad.wide.u32 %out, %t, 8, %out; mad.wide.u32 %in, %t, 8, %in;
        {" ".join(lines)} {name} {", ".join(vectors)}; {" ".join(stores)} ret; }}"""
    given = device.buffer(np.concatenate(registers).astype(np.uint64))
    out = device.buffer(np.zeros((counts[0], 32), np.uint64))
    module = device.load(text)
    module(out, given)
    got = out.get()
    for buffer in (given, out):
        buffer.free()
    module.unload()
    return got


def small(kind: str, shape: tuple[int, int], seed: int) -> np.ndarray:
    """Numbers whose products and sums are exact in every format here."""
    rng = np.random.default_rng(seed)
    if kind == "b1":
        return rng.integers(0, 2, shape)
    if kind[0] in "us" and kind != "s32":
        top = 1 << WIDTH[kind]
        return rng.integers(0, top, shape) - (top // 2 if kind[0] == "s" else 0)
    return rng.integers(-8, 9, shape)


FLOAT_SHAPES = [("m16n8k8", "f16", s) for s in ("f16", "f32")] + [
    ("m16n8k16", "f16", s) for s in ("f16", "f32")
]
FLOAT_SHAPES += [
    ("m16n8k8", "bf16", "f32"),
    ("m16n8k16", "bf16", "f32"),
    ("m16n8k4", "tf32", "f32"),
    ("m16n8k8", "tf32", "f32"),
]
FLOAT_SHAPES += [
    ("m8n8k4", "f64", "f64"),
    ("m16n8k4", "f64", "f64"),
    ("m16n8k8", "f64", "f64"),
    ("m16n8k16", "f64", "f64"),
]
MMA = [(shape, kind, kind, total) for shape, kind, total in FLOAT_SHAPES]
for one, two in itertools.product(("u8", "s8"), repeat=2):
    MMA += [(shape, one, two, "s32") for shape in ("m8n8k16", "m16n8k16", "m16n8k32")]
for one, two in itertools.product(("u4", "s4"), repeat=2):
    MMA += [(shape, one, two, "s32") for shape in ("m8n8k32", "m16n8k32", "m16n8k64")]


def extents(shape: str) -> tuple[int, int, int]:
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


@pytest.mark.parametrize(("shape", "a_kind", "b_kind", "total"), MMA)
def test_mma(device: Device, shape: str, a_kind: str, b_kind: str, total: str) -> None:
    m, n, k = extents(shape)
    a, b, c = small(a_kind, (m, k), 1), small(b_kind, (k, n), 2), small("s32", (m, n), 3)
    registers = [fragment(a_kind, a, False), fragment(b_kind, b, True), sums(total, c)]
    name = f"mma.sync.aligned.{shape}.row.col.{total}.{a_kind}.{b_kind}.{total}"
    got = run_mma(device, name, (total, a_kind, b_kind, total), registers)
    assert np.array_equal(got, sums(total, a @ b + c))


@pytest.mark.parametrize("shape", ["m8n8k128", "m16n8k128", "m16n8k256"])
@pytest.mark.parametrize("logic", ["xor", "and"])
def test_mma_of_bits_counts(device: Device, shape: str, logic: str) -> None:
    m, n, k = extents(shape)
    a, b, c = small("b1", (m, k), 1), small("b1", (k, n), 2), small("s32", (m, n), 3)
    joined = np.bitwise_xor if logic == "xor" else np.bitwise_and
    want = joined(a[:, :, None], b[None]).sum(axis=1) + c
    registers = [fragment("b1", a, False), fragment("b1", b, True), sums("s32", c)]
    name = f"mma.sync.aligned.{shape}.row.col.s32.b1.b1.s32.{logic}.popc"
    assert np.array_equal(run_mma(device, name, ("s32", "b1", "b1", "s32"), registers), sums("s32", want))


def test_integer_sums_wrap_or_stop_at_the_limits(device: Device) -> None:
    a, b = np.full((8, 16), -128), np.full((16, 8), -128)
    c = np.full((8, 8), 2**31 - 5)
    registers = [fragment("s8", a, False), fragment("s8", b, True), sums("s32", c)]
    for finite, want in (("", (a @ b + c) - 2**32), (".satfinite", np.full((8, 8), 2**31 - 1))):
        name = f"mma.sync.aligned.m8n8k16.row.col{finite}.s32.s8.s8.s32"
        assert np.array_equal(run_mma(device, name, ("s32", "s8", "s8", "s32"), registers), sums("s32", want))


def test_tf32_leaves_the_low_bits_out(device: Device) -> None:
    a, b, c = np.full((16, 8), 1 + 2.0**-11), np.ones((8, 8)), np.zeros((16, 8))
    registers = [fragment("tf32", a, False), fragment("tf32", b, True), sums("f32", c)]
    name = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
    got = run_mma(device, name, ("f32", "tf32", "tf32", "f32"), registers)
    assert np.array_equal(got, sums("f32", np.full((16, 8), 8.0)))


WMMA = [("f16", total, total) for total in ("f16", "f32")] + [("f16", "f16", "f32"), ("f16", "f32", "f16")]
WMMA += [("bf16", "f32", "f32"), ("s8", "s32", "s32"), ("u8", "s32", "s32")]
ROOM = {  # registers of a and b
    "f16": {"m16n16k16": (8, 8), "m8n32k16": (8, 8), "m32n8k16": (8, 8)},
    "bf16": {"m16n16k16": (4, 4), "m8n32k16": (2, 8), "m32n8k16": (8, 2)},
    "s8": {"m16n16k16": (2, 2), "m8n32k16": (1, 4), "m32n8k16": (4, 1)},
}
NUMPY = {"f16": np.float16, "f32": np.float32, "s32": np.int32, "s8": np.int8, "u8": np.uint8}


def in_memory(kind: str, matrix: np.ndarray, layout: str) -> np.ndarray:
    """The matrix as a wmma.load of the layout reads it, with 16 elements more in each line than it has."""
    lines = matrix if layout == "row" else matrix.T
    padded = np.zeros((lines.shape[0], lines.shape[1] + 16))
    padded[:, : lines.shape[1]] = lines
    return to_bits(kind, padded).astype(f"u{WIDTH[kind] // 8}")


@pytest.mark.parametrize("layouts", list(itertools.product(("row", "col"), repeat=2)), ids="-".join)
@pytest.mark.parametrize("shape", ROOM["f16"])
@pytest.mark.parametrize(("kind", "d_kind", "c_kind"), WMMA)
def test_wmma(
    device: Device, kind: str, d_kind: str, c_kind: str, shape: str, layouts: tuple[str, str]
) -> None:
    m, n, k = extents(shape)
    a, b, c = (
        small(kind if kind[0] in "us" else "s4", (m, k), 4),
        small(kind if kind[0] in "us" else "s4", (k, n), 5),
        small("s32", (m, n), 6),
    )
    room = ROOM["s8" if kind == "u8" else kind][shape]
    sizes = {"f16": 4, "f32": 8, "s32": 8}
    names = {
        letter: "{" + ", ".join(f"%{letter}{i}" for i in range(count)) + "}"
        for letter, count in (("a", room[0]), ("b", room[1]), ("c", sizes[c_kind]), ("d", sizes[d_kind]))
    }
    held = {"c": "f32" if c_kind == "f32" else "b32", "d": "f32" if d_kind == "f32" else "b32"}
    a_line, b_line = (k if layouts[0] == "row" else m) + 16, (n if layouts[1] == "row" else k) + 16
    types = f"{d_kind}.{c_kind}" if kind == "f16" else f"{d_kind}.{kind}.{kind}.{c_kind}"
    text = f"""{HEAD}.visible .entry k(.param .u64 out, .param .u64 a, .param .u64 b, .param .u64 c) {{
        .reg .b64 %x<4>; .reg .b32 %a<8>, %b<8>, %s; .reg .{held["c"]} %c<8>; .reg .{held["d"]} %d<8>;
        ld.param.u64 %x0, [out]; ld.param.u64 %x1, [a]; ld.param.u64 %x2, [b]; ld.param.u64 %x3, [c];
        mov.u32 %s, {a_line};
        wmma.load.a.sync.aligned.{layouts[0]}.{shape}.global.{kind} {names["a"]}, [%x1], %s;
        wmma.load.b.sync.aligned.{layouts[1]}.{shape}.{kind} {names["b"]}, [%x2], {b_line};
        wmma.load.c.sync.aligned.col.{shape}.global.{c_kind} {names["c"]}, [%x3], {m + 16};
        wmma.mma.sync.aligned.{layouts[0]}.{layouts[1]}.{shape}.{types}
            {names["d"]}, {names["a"]}, {names["b"]}, {names["c"]};
        wmma.store.d.sync.aligned.row.{shape}.global.{d_kind} [%x0], {names["d"]}; ret; }}"""
    given = [device.buffer(in_memory(kind, a, layouts[0])), device.buffer(in_memory(kind, b, layouts[1]))]
    given.append(device.buffer(in_memory(c_kind, c, "col")))
    out = device.buffer(np.zeros((m, n), NUMPY[d_kind]))
    module = device.load(text)
    module(out, *given)
    assert np.array_equal(out.get(), (a @ b + c).astype(NUMPY[d_kind]))
    for buffer in (*given, out):
        buffer.free()
    module.unload()


def test_a_sum_may_be_written_where_it_was_read(device: Device) -> None:
    """Halves lie two in a register: writing one must not disturb the other before it is read."""
    a, b, c = small("s4", (16, 16), 7), small("s4", (16, 8), 8), small("s32", (16, 8), 9)
    registers = [fragment("f16", a, False), fragment("f16", b, True), sums("f16", c)]
    name = "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"
    once = run_mma(device, name, ("f16", "f16", "f16", "f16"), registers)
    twice = run_mma(
        device,
        f"{name} {{%c0, %c1}}, {{%a0, %a1, %a2, %a3}}, {{%b0, %b1}}, {{%c0, %c1}}; {name}",
        ("f16",) * 4,
        registers,
    )
    assert np.array_equal(once, sums("f16", a @ b + c))
    assert np.array_equal(twice, sums("f16", 2 * (a @ b) + c))


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_ldmatrix(device: Device, count: int, transposed: bool) -> None:
    matrices = np.arange(count * 64, dtype=np.uint16).reshape(count, 8, 8)
    names = "{" + ", ".join(f"%r{i}" for i in range(count)) + "}"
    stores = " ".join(f"st.global.b32 [%rd1+{128 * i}], %r{i};" for i in range(count))
    text = f"""{HEAD}.visible .entry k(.param .u64 out, .param .u64 in) {{
        .shared .align 16 .b8 sh[512]; .reg .b64 %rd<4>; .reg .b32 %r<8>, %t, %at; .reg .b32 %w<4>;
        ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in]; mov.u32 %t, %tid.x;
        mad.wide.u32 %rd2, %t, 16, %rd2; mov.u32 %at, sh; mad.lo.u32 %at, %t, 16, %at;
        cp.async.cg.shared.global [%at], [%rd2], 16; cp.async.commit_group; cp.async.wait_group 0;
        bar.sync 0; mad.wide.u32 %rd1, %t, 4, %rd1;
        ldmatrix.sync.aligned.m8n8.x{count}{".trans" if transposed else ""}.shared.b16 {names}, [%at];
        {stores} ret; }}"""
    given = device.buffer(np.resize(matrices, (32, 8)).astype(np.uint16))
    out = device.buffer(np.zeros((count, 32), np.uint32))
    device.load(text)(out, given)
    for matrix, got in zip(matrices, out.get(), strict=True):
        wanted = matrix.T if transposed else matrix
        low, high = wanted[GROUP, 2 * PLACE].astype(np.uint32), wanted[GROUP, 2 * PLACE + 1].astype(np.uint32)
        assert np.array_equal(got, low | high << np.uint32(16))


def test_movmatrix_transposes(device: Device) -> None:
    matrix = np.arange(64, dtype=np.uint16).reshape(8, 8)
    text = f"""{HEAD}.visible .entry k(.param .u64 out, .param .u64 in) {{
        .reg .b64 %rd<4>; .reg .b32 %r<4>; ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in];
        mov.u32 %r0, %tid.x;
        mad.wide.u32 %rd1, %r0, 4, %rd1; mad.wide.u32 %rd2, %r0, 4, %rd2; ld.global.b32 %r1, [%rd2];
        movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1; st.global.b32 [%rd1], %r2; ret; }}"""
    given, out = device.buffer(matrix), device.buffer(np.zeros((8, 8), np.uint16))
    device.load(text)(out, given)
    assert np.array_equal(out.get(), matrix.T)
