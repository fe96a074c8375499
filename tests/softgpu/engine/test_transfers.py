"""Loads, stores and atomics in every space, type and vector form, and moves of predicates."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.softgpu.bench import Device
from tests.softgpu.engine.elementwise import HEAD, TYPES, compute
from tests.softgpu.engine.reference import edges, encoded, meaning, numbers
from tests.softgpu.engine.test_opcodes import LISTED

THREADS = 32
REGISTER = {"8": "b16", "16": "b16", "32": "b32", "64": "b64"}


def registers(kind: str, count: int, name: str) -> tuple[str, str]:
    """A declaration and a use of as many registers as a vector has parts."""
    held = kind if kind in ("f32", "f64") else REGISTER[kind[1:]]
    names = [f"%{name}{i}" for i in range(count)]
    return f".reg .{held} {', '.join(names)};", names[0] if count == 1 else "{" + ", ".join(names) + "}"


def through(load: str, store: str, space: str, kind: str, count: int) -> str:
    """Each thread's element goes from `in` by way of the space to `out`."""
    size = int(kind[1:]) // 8 * count
    declared, parts = registers(kind, count, "v")
    again, copy = registers(kind, count, "w")
    vector = "" if count == 1 else f".v{count}"
    place = {
        "shared": "mov.u64 %at, sh; add.s64 %at, %at, %offset;",
        "local": "mov.u64 %at, lo;",
        "generic": "mov.u64 %at, sh; add.s64 %at, %at, %offset; cvta.shared.u64 %at, %at;",
        "global": "add.s64 %at, %out, %offset;",
    }[space]
    return f"""{HEAD}
.shared .align 16 .b8 sh[{THREADS * 32}];
.visible .entry k(.param .u64 out, .param .u64 in) {{
    .local .align 16 .b8 lo[32];
    .reg .b32 %t; .reg .b64 %in, %out, %offset, %at; {declared} {again}
    mov.u32 %t, %tid.x; mul.wide.u32 %offset, %t, {size};
    ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; add.s64 %in, %in, %offset;
    ld.global{vector}.{kind} {parts}, [%in];
    {place}
    st.{store} [%at], {parts};
    ld.{load} {copy}, [%at];
    add.s64 %out, %out, %offset;
    st.global{vector}.{kind} [%out], {copy};
    ret;
}}"""


def forms() -> list[tuple[str, str, str, str, int]]:
    found = []
    kinds = ("u8", "s8", "b8", "u16", "s16", "b16", "u32", "s32", "b32", "f32", "u64", "s64", "b64", "f64")
    for kind, count, space in itertools.product(kinds, (1, 2, 4), ("shared", "local", "generic", "global")):
        if int(kind[1:]) * count > 128:
            continue
        name = "" if space == "generic" else space + "."
        vector = "" if count == 1 else f"v{count}."
        found.append((f"{name}{vector}{kind}", f"{name}{vector}{kind}", space, kind, count))
    for load, store in [
        ("volatile.global.", "volatile.global."),
        ("relaxed.gpu.global.", "relaxed.gpu.global."),
        ("acquire.sys.global.", "release.sys.global."),
        ("global.nc.", "global.wb."),
        ("global.cg.", "global.cs."),
        ("global.L1::no_allocate.L2::128B.", "global.L1::no_allocate."),
        ("weak.global.", "weak.global."),
    ]:
        found += [(load + kind, store + kind, "global", kind, 1) for kind in ("u32", "f64")]
    return found


@pytest.mark.parametrize(("load", "store", "space", "kind", "count"), forms())
def test_what_is_stored_is_loaded(
    device: Device, load: str, store: str, space: str, kind: str, count: int
) -> None:
    size = int(kind[1:]) // 8 * count
    data = np.random.default_rng(size).integers(0, 256, THREADS * size).astype(np.uint8)
    given, out = device.buffer(data), device.buffer(np.zeros_like(data))
    module = device.load(through(load, store, space, kind, count))
    module(out, given, block=THREADS)
    assert np.array_equal(out.get(), data)
    for buffer in (given, out):
        buffer.free()
    module.unload()


def test_every_listed_load_and_store_is_among_these() -> None:
    tried = {f"ld.{load}" for load, *_ in forms()} | {f"st.{store}" for _, store, *_ in forms()}
    tried |= {f"{name}.param.{kind}" for name in ("ld", "st") for kind in PARAMETERS}
    tried |= {"ld.const.f32"} | {f"ld.global.nc.{rest}" for rest in ("u64", "v2.f64")}
    assert not [name for name in LISTED if name[:3] in ("ld.", "st.") and name not in tried]


def test_cached_and_constant_loads(device: Device) -> None:
    body = """ld.global.nc.u64 %rd5, [%a]; ld.const.f32 %f1, [co+4]; cvt.rni.u64.f32 %rd6, %f1;
        add.u64 %d, %rd5, %rd6;"""
    values = edges("u64")
    text = "ld.param.u64 %a, [in0]; mad.wide.u32 %a, %i, 8, %a; " + body.replace("co+4", "%rd7")
    text = (
        ".const .align 4 .f32 co[2] = {0f00000000, 0f41200000}; mov.u64 %rd7, co; add.u64 %rd7, %rd7, 4; "
        + text
    )
    got = compute(device, text, "u64", ("u64",), values)
    assert np.array_equal(got, values + np.uint64(10))
    pairs = np.random.default_rng(1).normal(size=32)
    body = """ld.param.u64 %a, [in0]; and.b32 %r5, %i, 30; mad.wide.u32 %a, %r5, 8, %a;
        ld.global.nc.v2.f64 {%fd1, %fd2}, [%a]; add.f64 %d, %fd1, %fd2;"""
    assert np.array_equal(
        compute(device, body, "f64", ("f64",), pairs), np.repeat(pairs[::2] + pairs[1::2], 2)
    )


PARAMETERS = ("b8", "u8", "s8", "b16", "u16", "b32", "u32", "f32", "b64", "u64", "f64")


@pytest.mark.parametrize("kind", PARAMETERS)
def test_parameters_come_through_calls_and_launches(device: Device, kind: str) -> None:
    size, (declared, value) = int(kind[1:]) // 8, registers(kind, 1, "v")
    text = f"""{HEAD}
.func (.param .{kind} r) same(.param .{kind} a) {{ {declared} ld.param.{kind} {value}, [a];
st.param.{kind} [r], {value}; ret; }}
.visible .entry k(.param .u64 out, .param .{kind} given) {{
    {declared} .reg .b64 %out; ld.param.u64 %out, [out]; ld.param.{kind} {value}, [given];
    {{ .param .{kind} a; .param .{kind} r; st.param.{kind} [a], {value}; call (r), same, (a);
    ld.param.{kind} {value}, [r]; }}
    st.global.{kind} [%out], {value}; ret; }}"""
    raw = bytes(range(0xF1, 0xF1 + size))
    out = device.buffer(np.zeros(size, np.uint8))
    module = device.load(text)
    module(out, int.from_bytes(raw, "little"), block=1)
    assert out.get().tobytes() == raw


ATOMICS = [(name, kind) for name in ("and", "or", "xor") for kind in ("b32", "b64")]
ATOMICS += [("add", kind) for kind in ("u32", "s32", "u64", "f32", "f64", "f16", "f16x2", "bf16", "bf16x2")]
ATOMICS += [(name, kind) for name in ("min", "max") for kind in ("u32", "s32", "u64", "s64")]


@pytest.mark.parametrize("space", ["global", "shared", ""])
@pytest.mark.parametrize(("name", "kind"), ATOMICS)
def test_atomics_replace_and_return_what_was_there(device: Device, name: str, kind: str, space: str) -> None:
    """Each thread has a place of its own, so that old and new are known."""
    rounding = ".rn" if "bf16" in kind else ""
    wanted = meaning(f"{name}{rounding}.{kind}")
    assert wanted is not None
    values = edges(kind)
    a, b = np.resize(values, 32), np.resize(np.roll(values, 3), 32)
    size = a.dtype.itemsize
    noftz = ".noftz" if "16" in kind else ""
    held = TYPES[kind][1] if kind in ("f32", "f64") else f"b{8 * size}"
    dot = "." if space else ""
    put = {
        "global": "mad.wide.u32 %at, %i, {0}, %a;",
        "shared": "mov.u64 %at, sh; mad.wide.u32 %at, %i, {0}, %at;",
        "": "mov.u64 %at, sh; cvta.shared.u64 %at, %at; mad.wide.u32 %at, %i, {0}, %at;",
    }[space].format(size)
    for instruction in (
        f"atom{dot}{space}.{name}{noftz}.{kind} %old, [%at], %s1;",
        f"red{dot}{space}.{name}{noftz}.{kind} [%at], %s1;",
    ):
        loads = "ld.param.u64 %a, [in0];" if space == "global" else ""
        store = "" if space == "global" else f"st{dot}{space}.b{8 * size} [%at], %s0;"
        body = f""".shared .align 16 .b8 sh[512]; .reg .b64 %at; .reg .{held} %old;
        mov.b{8 * size} %old, %s0; {loads}
            {put} {store} {instruction} ld{dot}{space}.b{8 * size} %d, [%at];"""
        rows = zip(numbers(kind, a), numbers(kind, b), strict=True)
        with np.errstate(all="ignore"):
            want = encoded(kind, [wanted.function(*row) for row in rows])
        got = compute(device, body, kind, (kind, kind), a, b)
        nan = np.isnan(want) if want.dtype.kind == "f" else np.zeros(32, bool)
        if "x2" in kind or kind == "bf16":
            # NaNs in pairs have several encodings; the arithmetic itself has tests of its own.
            limit = 0x7C00 if kind.startswith("f16") else 0x7F80
            parts = want.view(np.uint16) & 0x7FFF
            nan = (parts.reshape(32, -1) > limit).any(axis=1)
        assert np.array_equal(got[~nan], want[~nan])


@pytest.mark.parametrize("kind", ["b16", "b32", "b64"])
def test_compare_and_swap_and_exchange(device: Device, kind: str) -> None:
    values = np.arange(32).astype(TYPES[kind][0])
    size = values.dtype.itemsize
    place = f"ld.param.u64 %a, [in0]; mad.wide.u32 %a, %i, {size}, %a;"
    body = f"{place} atom.global.cas.{kind} %d, [%a], %s1, 77; ld.global.{kind} %d, [%a];"
    expected = values.copy()
    expected[::2] += 1
    assert np.array_equal(
        compute(device, body, kind, (kind, kind), values, expected), np.where(values == expected, 77, values)
    )
    if kind == "b16":
        return
    body = f"{place} atom.relaxed.sys.global.exch.{kind} %d, [%a], %s1;"
    assert np.array_equal(compute(device, body, kind, (kind, kind), values, expected), values)


def test_counting_atomics_wrap(device: Device) -> None:
    a, b = (
        x.ravel()
        for x in np.meshgrid(
            np.array([0, 1, 5, 6, 0xFFFFFFFF], np.uint32), np.array([0, 5, 0xFFFFFFFF], np.uint32)
        )
    )
    place = "ld.param.u64 %a, [in0]; mad.wide.u32 %a, %i, 4, %a;"
    up = compute(
        device, f"{place} red.global.inc.u32 [%a], %s1; ld.global.u32 %d, [%a];", "u32", ("u32", "u32"), a, b
    )
    assert np.array_equal(up, np.where(a >= b, 0, a + 1).astype(np.uint32))
    down = compute(
        device, f"{place} red.global.dec.u32 [%a], %s1; ld.global.u32 %d, [%a];", "u32", ("u32", "u32"), a, b
    )
    assert np.array_equal(down, np.where((a == 0) | (a > b), b, a - 1).astype(np.uint32))


@pytest.mark.parametrize("kind", ["u32", "u64", "f32", "f64"])
@pytest.mark.parametrize("space", ["global", "shared"])
def test_colliding_sums_lose_nothing(device: Device, kind: str, space: str) -> None:
    size = int(kind[1:]) // 8
    zero = {"f32": "0f00000000", "f64": "0d0000000000000000"}.get(kind, "0")
    shared = space == "shared"
    clear = f"st.shared.{kind} [%at], {zero};" if shared else ""
    add_up = f"ld.shared.{kind} %v, [%at]; red.global.add.{kind} [%o], %v;" if shared else ""
    text = f"""{HEAD}
.visible .entry k(.param .u64 out) {{
    .shared .align 8 .b8 sh[8]; .reg .b64 %o, %at; .reg .{kind} %v; .reg .b32 %t; .reg .pred %p;
    ld.param.u64 %o, [out]; mov.u64 %at, {"sh" if shared else "%o"}; mov.u32 %t, %tid.x;
    setp.ne.u32 %p, %t, 0; @%p bra SET; {clear}
SET: bar.sync 0; cvt{".rn" if kind[0] == "f" else ""}.{kind}.u32 %v, %t;
    red.{space}.add.{kind} [%at], %v; bar.sync 0; @%p ret; {add_up} ret; }}"""
    text = text.replace("cvt.u32.u32 %v, %t;", "mov.u32 %v, %t;")
    out = device.buffer(np.zeros(1, TYPES[kind][0]))
    device.load(text)(out, grid=3, block=96)
    assert out.get()[0] == 3 * 96 * 95 // 2
    assert out.get().nbytes == size


def test_predicates_are_moved_and_joined(device: Device) -> None:
    a, b = np.repeat([0, 1], 16).astype(np.uint32), np.tile([0, 1], 16).astype(np.uint32)
    for name, want in {"and": a & b, "or": a | b, "xor": a ^ b, "not": 1 - a, "mov": a}.items():
        operands = "%p1" if name in ("not", "mov") else "%p1, %p2"
        body = f"setp.ne.u32 %p1, %s0, 0; setp.ne.u32 %p2, %s1, 0; {name}.pred %q, {operands};"
        assert np.array_equal(compute(device, body, "pred", ("u32", "u32"), a, b), want), name


def two_sides(how: str, space: str, kind: str, count: int) -> str:
    """One block writes a number to all parts of its lanes' vectors, again and again; the other reads them."""
    wide = "64" in kind
    parts = [f"%v{i}" for i in range(count)]
    vector = "{" + ", ".join(parts) + "}"
    number = "cvt.u64.u32 %v0, %i;" if wide else "mov.b32 %v0, %i;"
    compared = "".join(
        f"setp.ne.b{kind[1:]} %p, %v0, {part}; @%p add.u32 %torn, %torn, 1;" for part in parts[1:]
    )
    return f"""{HEAD}
.visible .entry k(.param .u64 cells, .param .u64 met, .param .u64 torn, .param .u32 rounds) {{
    .reg .pred %p, %reads; .reg .b32 %i, %n, %r<4>, %torn; .reg .b64 %at, %met, %out;
    .reg .{kind} {", ".join(parts)};
    mov.u32 %r0, %tid.x; mul.lo.u32 %r0, %r0, {int(kind[1:]) // 8 * count}; cvt.u64.u32 %at, %r0;
    ld.param.u64 %met, [cells]; add.s64 %at, %at, %met; ld.param.u64 %met, [met]; ld.param.u64 %out, [torn];
    ld.param.u32 %n, [rounds]; mov.u32 %i, 0; mov.u32 %torn, 0;
    mov.u32 %r1, %ctaid.x; setp.ne.u32 %reads, %r1, 0;
    red.global.add.u32 [%met], 1;
MEET:
    ld.volatile.global.u32 %r2, [%met]; setp.lt.u32 %p, %r2, 64; @%p bra MEET;
AGAIN:
    add.u32 %i, %i, 1;
    @%reads bra READ;
    {number} {"".join(f"mov.b{kind[1:]} {part}, %v0;" for part in parts[1:])}
    st.{how}{space}.v{count}.{kind} [%at], {vector};
    bra NEXT;
READ:
    ld.{how}{space}.v{count}.{kind} {vector}, [%at]; {compared}
NEXT:
    setp.lt.u32 %p, %i, %n; @%p bra AGAIN;
    red.global.add.u32 [%out], %torn;
    ret;
}}"""


@pytest.mark.parametrize("how", ["volatile", "relaxed.gpu"])
@pytest.mark.parametrize("space", ["", ".global"])
@pytest.mark.parametrize(("kind", "count"), [("b32", 2), ("b32", 4), ("b64", 2)])
def test_a_vector_that_others_write_meanwhile_is_never_half_theirs(
    device: Device, how: str, space: str, kind: str, count: int
) -> None:
    """CUB keeps a flag and the sum that it promises in one vector, and so do programs."""
    cells = device.buffer(np.zeros(32 * 16, np.uint8))
    met, torn = (device.buffer(np.zeros(1, np.uint32)) for _ in range(2))
    device.load(two_sides(how, space, kind, count))(cells, met, torn, 20_000, grid=2, block=32)
    assert met.get()[0] == 64
    assert torn.get()[0] == 0
