"""cvt in all its pairs of types, and the moves that pack and unpack."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor, isinf, isnan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.softgpu.bench import Device
from tests.softgpu.engine import exact
from tests.softgpu.engine.elementwise import TYPES, compute, cross, float_edges, integer_edges
from tests.softgpu.engine.exact import expect

INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")


def limits(kind: str) -> tuple[int, int]:
    info = np.iinfo(TYPES[kind][0])
    return int(info.min), int(info.max)


@pytest.mark.parametrize("sat", ["", ".sat"])
@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("result", INTEGERS)
def test_integer_to_integer(device: Device, result: str, source: str, sat: str) -> None:
    values = integer_edges(source)
    got = compute(device, f"cvt{sat}.{result}.{source} %d, %s0;", result, (source,), values)
    least, most = limits(result)
    wide = [min(max(v, least), most) if sat else v for v in values.tolist()]
    bits = 8 * np.dtype(TYPES[result][0]).itemsize
    unsigned = np.array([int(v) & ((1 << bits) - 1) for v in wide], f"u{bits // 8}")
    expect(got, unsigned.view(TYPES[result][0]), values)


ROUND = {"rni": lambda x: round(x), "rzi": lambda x: int(x), "rmi": floor, "rpi": ceil}


def to_integer(x: float, result: str, source: str, mode: str) -> int:
    least, most = limits(result)
    if isnan(x):
        wide = source == "f64" or result in ("u64", "s64")
        return (least if least else (most >> 1) + 1) if wide else 0
    if isinf(x):
        return most if x > 0 else least
    return min(max(ROUND[mode](Fraction(x)), least), most)


@pytest.mark.parametrize("mode", ROUND)
@pytest.mark.parametrize("source", ["f32", "f64", "f16"])
@pytest.mark.parametrize("result", INTEGERS)
def test_float_to_integer_saturates(device: Device, result: str, source: str, mode: str) -> None:
    powers = [2.0**n for n in (7, 8, 15, 16, 31, 32, 63, 64)]
    near = [p + d for p in powers for d in (-1, -0.5, 0, 0.5, 1)]
    dtype = TYPES[source][0]
    with np.errstate(over="ignore"):
        values = np.concatenate([float_edges(source), np.array([*near, *[-x for x in near]]).astype(dtype)])
    got = compute(device, f"cvt.{mode}.{result}.{source} %d, %s0;", result, (source,), values)
    want = np.array([to_integer(x, result, source, mode) for x in values.tolist()], TYPES[result][0])
    expect(got, want, values)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("result", ["f32", "f64"])
def test_integer_to_float_rounds_as_told(device: Device, result: str, source: str, mode: str) -> None:
    values = integer_edges(source)
    got = compute(device, f"cvt.{mode}.{result}.{source} %d, %s0;", result, (source,), values)
    want = [exact.round_to(Fraction(v), result, mode) for v in values.tolist()]
    expect(got, np.array(want, TYPES[result][0]), values)


@pytest.mark.parametrize("source", ["u32", "s32", "s64", "u16"])
def test_integer_to_half(device: Device, source: str) -> None:
    values = integer_edges(source)
    got = compute(device, f"cvt.rn.f16.{source} %d, %s0;", "f16", (source,), values)
    want = [exact.round_to(Fraction(v), "f16", "rn") for v in values.tolist()]
    expect(got, np.array(want, np.float16), values)


def convert(x: float, kind: str, mode: str) -> float:
    if isnan(x) or isinf(x):
        return x
    return exact.round_to(Fraction(x), kind, mode, exact.sign_of(x))


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@settings(max_examples=30, deadline=None)
@given(raw=st.lists(st.integers(0, (1 << 64) - 1), min_size=32, max_size=32))
def test_double_to_single(device: Device, mode: str, raw: list[int]) -> None:
    random = np.array(raw, np.uint64)
    near = (random & np.uint64(0x801FFFFFFFFFFFFF)) | np.uint64(
        0x3800000000000000
    )  # about f32's least numbers
    values = np.concatenate([random.view(np.float64), near.view(np.float64), float_edges("f64")])
    got = compute(device, f"cvt.{mode}.f32.f64 %d, %s0;", "f32", ("f64",), values)
    expect(got, np.array([convert(x, "f32", mode) for x in values.tolist()], np.float32), values)


@settings(max_examples=30, deadline=None)
@given(raw=st.lists(st.integers(0, (1 << 32) - 1), min_size=64, max_size=64))
def test_single_to_half(device: Device, raw: list[int]) -> None:
    random = np.array(raw, np.uint32)
    near = (random & np.uint32(0x87FFFFFF)) | np.uint32(0x30000000)
    values = np.concatenate([random.view(np.float32), near.view(np.float32), float_edges("f32")])
    got = compute(device, "cvt.rn.f16.f32 %d, %s0;", "f16", ("f32",), values)
    with np.errstate(over="ignore"):
        expect(got, values.astype(np.float16), values)
    toward_zero = compute(device, "cvt.rz.f16.f32 %d, %s0;", "f16", ("f32",), values)
    expect(toward_zero, np.array([convert(x, "f16", "rz") for x in values.tolist()], np.float16), values)


def test_every_half_widens_exactly(device: Device) -> None:
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    for kind in ("f32", "f64"):
        got = compute(device, f"cvt.{kind}.f16 %d, %s0;", kind, ("f16",), values)
        expect(got, values.astype(TYPES[kind][0]), values)


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize(
    ("mode", "function"), [("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)]
)
def test_float_to_integral_float(device: Device, kind: str, mode: str, function: np.ufunc) -> None:
    values = np.concatenate([float_edges(kind), np.linspace(-4, 4, 65).astype(TYPES[kind][0])])
    got = compute(device, f"cvt.{mode}.{kind}.{kind} %d, %s0;", kind, (kind,), values)
    expect(got, function(values), values)


def test_single_to_double_and_flush(device: Device) -> None:
    values = float_edges("f32")
    expect(
        compute(device, "cvt.f64.f32 %d, %s0;", "f64", ("f32",), values), values.astype(np.float64), values
    )
    flushed = np.array([exact.flush(x) for x in values.tolist()], np.float64)
    expect(compute(device, "cvt.ftz.f64.f32 %d, %s0;", "f64", ("f32",), values), flushed, values)


def test_packing_and_unpacking(device: Device) -> None:
    low, high = cross(integer_edges("b32"), integer_edges("b32"))
    wide = compute(device, "mov.b64 %d, {%s0, %s1};", "b64", ("b32", "b32"), low, high)
    expect(wide, low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32))
    swapped = compute(device, "mov.b64 {%r5, %r6}, %s0; mov.b64 %d, {%r6, %r5};", "b64", ("b64",), wide)
    expect(swapped, high.astype(np.uint64) | low.astype(np.uint64) << np.uint64(32))
    quarter = compute(
        device, "mov.b64 {%h0, %h1, %h2, %h3}, %s0; mov.b64 %d, {%h3, %h2, %h1, %h0};", "b64", ("b64",), wide
    )
    expect(quarter, wide.view(np.uint16).reshape(-1, 4)[:, ::-1].copy().view(np.uint64).ravel())
    halves = compute(device, "mov.b32 {%h0, %h1}, %s0; mov.b32 %d, {%h1, %h0};", "b32", ("b32",), low)
    expect(halves, low >> np.uint32(16) | low << np.uint32(16))


def test_a_register_may_be_unpacked_into_itself(device: Device) -> None:
    values = integer_edges("b32")
    got = compute(
        device,
        "mov.b32 %r5, %s0; mov.b64 %rd5, {%r5, 7}; mov.b64 {%r6, %r5}, %rd5; mov.b32 %d, %r5;",
        "b32",
        ("b32",),
        values,
    )
    assert set(got.tolist()) == {7}


def test_two_singles_make_a_pair_of_halves(device: Device) -> None:
    high, low = np.random.default_rng(2).normal(0, 5, (2, 500)).astype(np.float32)
    got = compute(device, "cvt.rn.f16x2.f32 %d, %s0, %s1;", "f16x2", ("f32", "f32"), high, low).view(
        np.float16
    )
    expect(got[0::2].copy(), low.astype(np.float16))
    expect(got[1::2].copy(), high.astype(np.float16))


def test_a_conversion_into_a_wider_register_extends(device: Device) -> None:
    values = integer_edges("s8")
    got = compute(
        device, "cvt.s8.s32 %r5, %r5; cvt.s8.s16 %r6, %s0; mov.b32 %d, %r6;", "s32", ("s8",), values
    )
    expect(got, values.astype(np.int32), values)
    got = compute(device, "cvt.u32.u16 %rd5, %s0; mov.b64 %d, %rd5;", "u64", ("u16",), integer_edges("u16"))
    expect(got, integer_edges("u16").astype(np.uint64))


COMPARISONS = [(name, kind) for name in ("eq", "ne", "lt", "le", "gt", "ge") for kind in INTEGERS[2:]]
COMPARISONS += [(name, kind) for name in ("lo", "ls", "hi", "hs") for kind in ("u16", "u32", "u64")]


@pytest.mark.parametrize(("name", "kind"), COMPARISONS)
def test_integer_comparisons(device: Device, name: str, kind: str) -> None:
    unsigned = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
    a, b = cross(integer_edges(kind), integer_edges(kind))
    got = compute(device, f"setp.{name}.{kind} %q, %s0, %s1;", "pred", (kind, kind), a, b)
    function = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }
    expect(got, function[unsigned.get(name, name)](a, b).astype(np.uint32), a, b)


@pytest.mark.parametrize("logic", ["and", "or", "xor"])
def test_comparisons_join_a_predicate_and_give_its_opposite(device: Device, logic: str) -> None:
    a, b, c = cross(*[np.array([0, 1, 2], np.uint32)] * 3)
    function = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[logic]
    body = """
        setp.ne.u32 %p1, %s2, 1;
        setp.lt.{0}.u32 %p2|%p3, %s0, %s1, {1}%p1;
        selp.u32 %r5, 1, 0, %p2;
        selp.u32 %r6, 2, 0, %p3;
        add.u32 %d, %r5, %r6;
    """
    for negation in ("", "!"):
        third = (c != 1) ^ (negation == "!")
        got = compute(device, body.format(logic, negation), "u32", ("u32",) * 3, a, b, c)
        want = function(a < b, third).astype(np.uint32) + 2 * function(a >= b, third).astype(np.uint32)
        expect(got, want, a, b, c)


def test_set_gives_ones_in_every_result_type(device: Device) -> None:
    a, b = cross(integer_edges("s32"), integer_edges("s32"))
    bits = compute(device, "set.lt.u32.s32 %d, %s0, %s1;", "u32", ("s32", "s32"), a, b)
    expect(bits, np.where(a < b, 0xFFFFFFFF, 0).astype(np.uint32))
    ones = compute(device, "set.lt.f32.s32 %d, %s0, %s1;", "f32", ("s32", "s32"), a, b)
    expect(ones, (a < b).astype(np.float32))


def test_selections(device: Device) -> None:
    a, b, c = cross(integer_edges("s64")[:8], integer_edges("s64")[8:16], integer_edges("s32"))
    expect(
        compute(device, "slct.s64.s32 %d, %s0, %s1, %s2;", "s64", ("s64", "s64", "s32"), a, b, c),
        np.where(c >= 0, a, b),
    )
    x = float_edges("f32")
    a, x = cross(integer_edges("u32"), x)
    got = compute(device, "slct.u32.f32 %d, %s0, 7, %s1;", "u32", ("u32", "f32"), a, x)
    expect(got, np.where(x >= 0, a, 7).astype(np.uint32))
    got = compute(
        device,
        "setp.gt.s64 %p1, %s0, 0; selp.b64 %d, %s0, %s1, %p1;",
        "s64",
        ("s64", "s64"),
        *cross(integer_edges("s64"), integer_edges("s64")),
    )
    a, b = cross(integer_edges("s64"), integer_edges("s64"))
    expect(got, np.where(a > 0, a, b))
