"""The video instructions, with their modifiers in combination, and others that few programs use."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.softgpu.bench import Device
from tests.softgpu.engine.elementwise import compute, cross, integer_edges

WORD = 0xFFFFFFFF
Operation = Callable[[int, int], int]
OPERATIONS: dict[str, Operation] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "absdiff": lambda a, b: abs(a - b),
    "min": min,
    "max": max,
    "avrg": lambda a, b: (a + b + (a + b >= 0)) >> 1,
}
COMPARISONS: dict[str, Operation] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
SIGNS = st.sampled_from(["u32", "s32"])
PARTS = st.sampled_from(["", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1"])
WORDS = st.lists(st.integers(0, WORD), min_size=16, max_size=16)


def field(word: int, part: str, kind: str) -> int:
    bits = {"": 32, "b": 8, "h": 16}[part[1:2]]
    at = int(part[2:] or 0) * bits
    value = word >> at & ((1 << bits) - 1)
    return value - (1 << bits) if kind[0] == "s" and value >> (bits - 1) else value


def clamp(value: int, bits: int, kind: str) -> int:
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    return max(least, min(most, value))


def run(device: Device, body: str, *columns: list[int]) -> list[int]:
    arrays = [np.array(column, np.uint32) for column in columns]
    return [int(x) for x in compute(device, body, "u32", ("u32",) * len(columns), *arrays)]


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(["add", "sub", "absdiff", "min", "max"]),
    kinds=st.tuples(SIGNS, SIGNS, SIGNS),
    parts=st.tuples(PARTS, PARTS, PARTS),
    sat=st.booleans(),
    second=st.sampled_from(["", ".add", ".min", ".max"]),
    columns=st.tuples(WORDS, WORDS, WORDS),
)
def test_scalar_forms(
    device: Device,
    name: str,
    kinds: tuple[str, ...],
    parts: tuple[str, ...],
    sat: bool,
    second: str,
    columns: tuple[list[int], ...],
) -> None:
    merged = parts[0] if not second else ""
    d_kind, a_kind, b_kind = kinds
    tail = ".sat" if sat else ""
    three = ", %s2" if merged or second else ""
    body = f"v{name}.{'.'.join(kinds)}{tail}{second} %d{merged}, %s0{parts[1]}, %s1{parts[2]}{three};"

    def want(a: int, b: int, c: int) -> int:
        value = OPERATIONS[name](field(a, parts[1], a_kind), field(b, parts[2], b_kind))
        bits = {"": 32, "b": 8, "h": 16}[merged[1:2]]
        if sat:
            value = clamp(value, bits, d_kind)
        if merged:
            at = int(merged[2:]) * bits
            mask = ((1 << bits) - 1) << at
            return (c & ~mask) | (value << at & mask)
        if second == ".add":
            return value + c & WORD
        if second:
            mine, other = field(value & WORD, "", d_kind), field(c, "", d_kind)
            return (min if second == ".min" else max)(mine, other) & WORD
        return value & WORD

    body = body if three else body + " and.b32 %s2, %s2, %s2;"
    assert run(device, body, *columns) == [want(*row) for row in zip(*columns, strict=True)]


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(["shl", "shr"]),
    kinds=st.tuples(SIGNS, SIGNS),
    sat=st.booleans(),
    mode=st.sampled_from(["clamp", "wrap"]),
    a=WORDS,
    b=st.lists(st.integers(0, 70), min_size=16, max_size=16),
)
def test_shifts(
    device: Device, name: str, kinds: tuple[str, str], sat: bool, mode: str, a: list[int], b: list[int]
) -> None:
    def want(x: int, count: int) -> int:
        value, count = field(x, "", kinds[1]), count & 31 if mode == "wrap" else min(count, 32)
        value = value << count if name == "shl" else value >> count
        return (clamp(value, 32, kinds[0]) if sat else value) & WORD

    body = f"v{name}.{kinds[0]}.{kinds[1]}.u32{'.sat' if sat else ''}.{mode} %d, %s0, %s1;"
    assert run(device, body, a, b) == [want(*row) for row in zip(a, b, strict=True)]


@settings(max_examples=80, deadline=None)
@given(
    kinds=st.tuples(SIGNS, SIGNS, SIGNS),
    parts=st.tuples(PARTS, PARTS),
    sat=st.booleans(),
    shift=st.sampled_from(["", ".shr7", ".shr15"]),
    sign=st.sampled_from(["", "product", "addend", "po"]),
    columns=st.tuples(WORDS, WORDS, WORDS),
)
def test_multiply_and_add(
    device: Device,
    kinds: tuple[str, ...],
    parts: tuple[str, str],
    sat: bool,
    shift: str,
    sign: str,
    columns: tuple[list[int], ...],
) -> None:
    def want(a: int, b: int, c: int) -> int:
        product = field(a, parts[0], kinds[1]) * field(b, parts[1], kinds[2])
        addend = field(c, "", kinds[0])
        total = (
            (-product if sign == "product" else product)
            + (-addend if sign == "addend" else addend)
            + (sign == "po")
        )
        total >>= int(shift[4:] or 0)
        return (clamp(total, 32, kinds[0]) if sat else total) & WORD

    po = ".po" if sign == "po" else ""
    a, c = ("-%s0" if sign == "product" else "%s0"), ("-%s2" if sign == "addend" else "%s2")
    body = f"vmad.{'.'.join(kinds)}{po}{'.sat' if sat else ''}{shift} %d, {a}{parts[0]}, %s1{parts[1]}, {c};"
    assert run(device, body, *columns) == [want(*row) for row in zip(*columns, strict=True)]


@settings(max_examples=120, deadline=None)
@given(
    name=st.sampled_from([*OPERATIONS, *COMPARISONS]),
    count=st.sampled_from([2, 4]),
    kinds=st.tuples(SIGNS, SIGNS, SIGNS),
    sat=st.booleans(),
    total=st.booleans(),
    picked=st.booleans(),
    data=st.data(),
    columns=st.tuples(WORDS, WORDS, WORDS),
)
def test_forms_of_parts(
    device: Device,
    name: str,
    count: int,
    kinds: tuple[str, ...],
    sat: bool,
    total: bool,
    picked: bool,
    data: st.DataObject,
    columns: tuple[list[int], ...],
) -> None:
    letter, bits = ("h", 16) if count == 2 else ("b", 8)
    picks = (
        [data.draw(st.lists(st.integers(0, 2 * count - 1), min_size=count, max_size=count)) for _ in "ab"]
        if picked
        else [list(range(count)), list(range(count, 2 * count))]
    )
    compares = name in COMPARISONS
    sat = sat and not compares and not total

    def part(words: tuple[int, int], number: int, kind: str) -> int:
        return field(words[number // count], f".{letter}{number % count}", kind)

    def want(a: int, b: int, c: int) -> int:
        values = []
        for i in range(count):
            x, y = part((a, b), picks[0][i], kinds[1]), part((a, b), picks[1][i], kinds[2])
            value = int((COMPARISONS if compares else OPERATIONS)[name](x, y))
            values.append(clamp(value, bits, kinds[0]) if sat else value)
        if total:
            return c + sum(values) & WORD
        return sum((value & ((1 << bits) - 1)) << (i * bits) for i, value in enumerate(values))

    chosen = [f".{letter}{''.join(str(n) for n in reversed(pick))}" if picked else "" for pick in picks]
    tail = (".sat" if sat else "") + (".add" if total else "")
    opcode = (
        f"vset{count}.{kinds[1]}.{kinds[2]}.{name}{tail}"
        if compares
        else f"v{name}{count}.{'.'.join(kinds)}{tail}"
    )
    body = f"{opcode} %d, %s0{chosen[0]}, %s1{chosen[1]}, %s2;"
    assert run(device, body, *columns) == [want(*row) for row in zip(*columns, strict=True)]


def test_parts_that_are_not_chosen_stay(device: Device) -> None:
    got = run(device, "vadd4.u32.u32.u32 %d.b20, %s0, %s1, %s2;", [0x01010101], [0x02020202], [0xAABBCCDD])
    assert got == [0xAA03CC03]


@pytest.mark.parametrize("kind", ["u16x2", "s16x2"])
@pytest.mark.parametrize("name", ["add", "min", "max"])
def test_pairs_of_integers(device: Device, name: str, kind: str) -> None:
    a, b = cross(integer_edges("u32"), integer_edges("u32"))
    got = compute(device, f"{name}.{kind} %d, %s0, %s1;", "u32", ("u32", "u32"), a, b)
    dtype = np.uint16 if kind[0] == "u" else np.int16
    function = {"add": np.add, "min": np.minimum, "max": np.maximum}[name]
    assert np.array_equal(got, function(a.view(dtype), b.view(dtype)).view(np.uint32))


def test_the_place_of_the_nth_bit(device: Device) -> None:
    masks, bases, counts = (
        x.ravel()
        for x in np.meshgrid(
            np.array([0, 1, 0x80000000, 0xFFFFFFFF, 0x00F0F00F], np.uint32),
            np.array([0, 1, 5, 31, 32], np.uint32),
            np.array([0, 1, 2, 5, -1, -3, 33], np.int32),
        )
    )

    def want(mask: int, base: int, n: int) -> int:
        if base > 31:
            return WORD
        if n == 0:
            return base if mask >> base & 1 else WORD
        order = range(base, 32) if n > 0 else range(base, -1, -1)
        found = [i for i in order if mask >> i & 1]
        return found[abs(n) - 1] if len(found) >= abs(n) else WORD

    got = compute(device, "fns.b32 %d, %s0, %s1, %s2;", "u32", ("u32", "u32", "s32"), masks, bases, counts)
    assert got.tolist() == [
        want(*row) for row in zip(masks.tolist(), bases.tolist(), counts.tolist(), strict=True)
    ]


@pytest.mark.parametrize("logic", ["and", "or", "xor"])
def test_lop3_joins_a_predicate(device: Device, logic: str) -> None:
    values, flags = np.array([0, 0, 7, 7], np.uint32), np.array([0, 1, 0, 1], np.uint32)
    body = f"""setp.ne.u32 %p1, %s1, 0; lop3.{logic}.b32 %r5|%p2, %s0, %s0, %s0, 0xF0, %p1;
        selp.u32 %r6, 16, 0, %p2; or.b32 %d, %r5, %r6;"""
    function = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[logic]
    got = compute(device, body, "u32", ("u32", "u32"), values, flags)
    assert np.array_equal(got, values | np.where(function(values != 0, flags != 0), 16, 0).astype(np.uint32))


def narrow_table(bits: int, mantissa: int, infinite: bool) -> np.ndarray:
    """What the positive encodings of an 8-bit float mean."""
    codes = np.arange(1 << (bits - 1))
    exponent, fraction = codes >> mantissa, codes & ((1 << mantissa) - 1)
    bias = (1 << (bits - 2 - mantissa)) - 1
    values = np.where(
        exponent == 0,
        fraction * 2.0 ** (1 - bias - mantissa),
        (1 + fraction / 2**mantissa) * 2.0 ** (exponent - bias),
    )
    return values[:0x7C] if infinite else values[:0x7F]


@pytest.mark.parametrize(("kind", "mantissa", "infinite"), [("e4m3x2", 3, False), ("e5m2x2", 2, True)])
def test_eight_bit_floats(device: Device, kind: str, mantissa: int, infinite: bool) -> None:
    table = narrow_table(8, mantissa, infinite)
    middles = (table[1:] + table[:-1]) / 2
    positive = np.concatenate(
        [table, middles, middles * (1 + 2.0**-20), middles * (1 - 2.0**-20), [1e9, np.inf]]
    )
    values = np.concatenate([positive, -positive]).astype(np.float32)
    got = compute(
        device, f"cvt.rn.satfinite.{kind}.f32 %d, %s0, %s1;", "b16", ("f32", "f32"), values, -values
    )

    def nearest(x: float) -> int:
        size = abs(x)
        above = min(int(np.searchsorted(table, size)), len(table) - 1)
        below = max(above - 1, 0)
        low, high = size - table[below], table[above] - size
        code = above if high < low or (high == low and above % 2 == 0) or size >= table[-1] else below
        return code | (0x80 if np.signbit(x) else 0)

    codes = np.array([nearest(x) for x in values.tolist()], np.uint16)
    assert np.array_equal(got, codes << 8 | codes ^ 0x80)
    back = compute(device, f"cvt.rn.f16x2.{kind} %d, %s0;", "b32", ("b16",), codes << 8 | codes).view(
        np.float16
    )
    sign = np.where(codes & 0x80, -1.0, 1.0)
    assert np.array_equal(back[::2], (sign * table[codes & 0x7F]).astype(np.float16))
    nan = compute(
        device, f"cvt.rn.satfinite.{kind}.f32 %d, %s0, %s0;", "b16", ("f32",), np.array([np.nan], np.float32)
    )
    assert nan[0] == 0x7F7F


def test_tf32_keeps_ten_bits(device: Device) -> None:
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 1 << 31, 4000).astype(np.uint32)
    values = np.concatenate([bits, bits & ~np.uint32(0x1FFF) | np.uint32(0x1000)])
    values = values[(values & 0x7F800000) != 0x7F800000]
    for mode, add in (("rna", 0x1000), ("rz", 0)):
        got = compute(device, f"cvt.{mode}.tf32.f32 %d, %s0;", "b32", ("f32",), values.view(np.float32))
        assert np.array_equal(got, values + np.uint32(add) & ~np.uint32(0x1FFF)), mode
    got = compute(device, "cvt.rn.tf32.f32 %d, %s0;", "b32", ("f32",), values.view(np.float32))
    assert np.array_equal(
        got, values + np.uint32(0xFFF) + (values >> np.uint32(13) & np.uint32(1)) & ~np.uint32(0x1FFF)
    )


@pytest.mark.parametrize(
    ("kind", "least", "most", "bits"),
    [("u8", 0, 255, 8), ("s8", -128, 127, 8), ("u4", 0, 15, 4), ("s2", -2, 1, 2)],
)
def test_packing_clamps(device: Device, kind: str, least: int, most: int, bits: int) -> None:
    a, b = cross(
        *[
            np.array(
                [-(2**31), -129, -128, -3, -2, -1, 0, 1, 2, 15, 16, 127, 128, 255, 256, 2**31 - 1], np.int32
            )
        ]
        * 2
    )
    got = compute(
        device, f"cvt.pack.sat.{kind}.s32.b32 %d, %s0, %s1, 0x12345678;", "u32", ("s32", "s32"), a, b
    )
    mask = (1 << bits) - 1
    want = (
        0x12345678 << (2 * bits)
        | (np.clip(a, least, most).astype(np.int64) & mask) << bits
        | np.clip(b, least, most) & mask
    ) & WORD
    assert np.array_equal(got, want.astype(np.uint32))


def test_pairs_of_halves_compare(device: Device) -> None:
    values = np.array([0.0, -0.0, 1.0, -2.0, np.nan, np.inf], np.float16)
    a, b = cross(values, values)
    pairs = [np.stack([x, np.roll(x, 7)], axis=1).copy().view(np.uint32).ravel() for x in (a, b)]
    for name, function in (("lt", np.less), ("neu", np.not_equal), ("ge", np.greater_equal)):
        low, high = function(a, b), function(np.roll(a, 7), np.roll(b, 7))
        body = f"""setp.{name}.f16x2 %p1|%p2, %s0, %s1;
            selp.u32 %r5, 1, 0, %p1; selp.u32 %r6, 2, 0, %p2; or.b32 %d, %r5, %r6;"""
        assert np.array_equal(
            compute(device, body, "u32", ("f16x2", "f16x2"), *pairs), low + 2 * high.astype(np.uint32)
        ), name
        for kind, one in (("f16x2", 0x3C00), ("u32", 0xFFFF)):
            got = compute(device, f"set.{name}.{kind}.f16x2 %d, %s0, %s1;", "u32", ("f16x2", "f16x2"), *pairs)
            assert np.array_equal(got, (low * one + high * (one << 16)).astype(np.uint32)), name


def test_every_pair_of_signs_has_a_dot_product(device: Device) -> None:
    rng = np.random.default_rng(9)
    a, b, c = (rng.integers(0, 1 << 32, 500, dtype=np.uint64).astype(np.uint32) for _ in range(3))
    types = {"u32": (np.uint8, np.uint16), "s32": (np.int8, np.int16)}
    for x, y in itertools.product(types, repeat=2):
        got = compute(device, f"dp4a.{x}.{y} %d, %s0, %s1, %s2;", "u32", ("u32",) * 3, a, b, c)
        products = a.view(types[x][0]).reshape(-1, 4).astype(np.int64) * b.view(types[y][0]).reshape(-1, 4)
        assert np.array_equal(got, (products.sum(axis=1) + c & WORD).astype(np.uint32))
        for half, at in (("lo", 0), ("hi", 2)):
            got = compute(device, f"dp2a.{half}.{x}.{y} %d, %s0, %s1, %s2;", "u32", ("u32",) * 3, a, b, c)
            products = (
                a.view(types[x][1]).reshape(-1, 2).astype(np.int64)
                * b.view(types[y][0]).reshape(-1, 4)[:, at : at + 2]
            )
            assert np.array_equal(got, (products.sum(axis=1) + c & WORD).astype(np.uint32))
