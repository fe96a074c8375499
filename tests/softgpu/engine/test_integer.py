"""Integer instructions against Python's integers, over edge values and whatever Hypothesis finds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.softgpu.bench import Device
from tests.softgpu.engine.elementwise import TYPES, compute, cross, integer_edges
from tests.softgpu.engine.exact import expect

ALL = ("u16", "s16", "u32", "s32", "u64", "s64")
WIDE = ("u32", "s32", "u64", "s64")
Function = Callable[..., int]


def bits_of(kind: str) -> int:
    return 8 * np.dtype(TYPES[kind][0]).itemsize


def wrap(value: int, kind: str) -> int:
    bits = bits_of(kind)
    value &= (1 << bits) - 1
    return value - (1 << bits) if kind[0] == "s" and value >> (bits - 1) else value


def trunc_div(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


def divide(kind: str) -> Function:
    return lambda a, b: -1 if b == 0 else trunc_div(a, b)


def remainder(kind: str) -> Function:
    return lambda a, b: a if b == 0 else a - b * trunc_div(a, b)


def unsigned(value: int, kind: str) -> int:
    return value & ((1 << bits_of(kind)) - 1)


def saturate(value: int) -> int:
    return max(-(1 << 31), min((1 << 31) - 1, value))


def shift_left(kind: str) -> Function:
    return lambda a, b: 0 if b >= bits_of(kind) else a << b


def shift_right(kind: str) -> Function:
    return lambda a, b: a >> min(b, bits_of(kind))


def find_highest(kind: str) -> Function:
    def find(a: int) -> int:
        return unsigned(a if a >= 0 else ~a, kind).bit_length() - 1

    return find


def extract(kind: str) -> Function:
    bits = bits_of(kind)

    def run(a: int, position: int, length: int) -> int:
        position, length = position & 255, length & 255
        raw = unsigned(a, kind)
        sign = 0 if kind[0] == "u" or length == 0 else raw >> min(position + length - 1, bits - 1) & 1
        out = 0
        for i in range(bits):
            inside = i < length and position + i < bits
            out |= (raw >> (position + i) & 1 if inside else sign) << i
        return out

    return run


def insert(kind: str) -> Function:
    bits = bits_of(kind)

    def run(a: int, b: int, position: int, length: int) -> int:
        position, length = position & 255, length & 255
        for i in range(length):
            if position + i < bits:
                b = (b & ~(1 << (position + i))) | ((a >> i & 1) << (position + i))
        return b

    return run


def reverse(kind: str) -> Function:
    return lambda a: int(format(a, f"0{bits_of(kind)}b")[::-1], 2)


# instruction, result, operands, what it computes before wrapping
Case = tuple[str, str, tuple[str, ...], Function]


def cases() -> list[Case]:
    found: list[Case] = []
    for kind in ALL:
        two, three = (kind, kind), (kind, kind, kind)
        found += [
            (f"add.{kind} %d, %s0, %s1;", kind, two, lambda a, b: a + b),
            (f"sub.{kind} %d, %s0, %s1;", kind, two, lambda a, b: a - b),
            (f"mul.lo.{kind} %d, %s0, %s1;", kind, two, lambda a, b: a * b),
            (f"mul.hi.{kind} %d, %s0, %s1;", kind, two, lambda a, b, k=kind: a * b >> bits_of(k)),
            (f"mad.lo.{kind} %d, %s0, %s1, %s2;", kind, three, lambda a, b, c: a * b + c),
            (
                f"mad.hi.{kind} %d, %s0, %s1, %s2;",
                kind,
                three,
                lambda a, b, c, k=kind: (a * b >> bits_of(k)) + c,
            ),
            (f"div.{kind} %d, %s0, %s1;", kind, two, divide(kind)),
            (f"rem.{kind} %d, %s0, %s1;", kind, two, remainder(kind)),
            (f"min.{kind} %d, %s0, %s1;", kind, two, min),
            (f"max.{kind} %d, %s0, %s1;", kind, two, max),
            (f"sad.{kind} %d, %s0, %s1, %s2;", kind, three, lambda a, b, c: c + abs(a - b)),
            (f"shr.{kind} %d, %s0, %s1;", kind, (kind, "u32"), shift_right(kind)),
        ]
        if bits_of(kind) < 64:
            wide = kind[0] + str(2 * bits_of(kind))
            found += [
                (f"mul.wide.{kind} %d, %s0, %s1;", wide, two, lambda a, b: a * b),
                (f"mad.wide.{kind} %d, %s0, %s1, %s2;", wide, (kind, kind, wide), lambda a, b, c: a * b + c),
            ]
    for kind in ("s16", "s32", "s64"):
        found += [
            (f"abs.{kind} %d, %s0;", kind, (kind,), abs),
            (f"neg.{kind} %d, %s0;", kind, (kind,), lambda a: -a),
        ]
    for kind in ("b16", "b32", "b64"):
        two = (kind, kind)
        found += [
            (f"and.{kind} %d, %s0, %s1;", kind, two, lambda a, b: a & b),
            (f"or.{kind} %d, %s0, %s1;", kind, two, lambda a, b: a | b),
            (f"xor.{kind} %d, %s0, %s1;", kind, two, lambda a, b: a ^ b),
            (f"not.{kind} %d, %s0;", kind, (kind,), lambda a: ~a),
            (f"cnot.{kind} %d, %s0;", kind, (kind,), lambda a: int(a == 0)),
            (f"shl.{kind} %d, %s0, %s1;", kind, (kind, "u32"), shift_left(kind)),
        ]
    for kind in ("b32", "b64"):
        found += [
            (f"popc.{kind} %d, %s0;", "u32", (kind,), lambda a: a.bit_count()),
            (f"clz.{kind} %d, %s0;", "u32", (kind,), lambda a, k=kind: bits_of(k) - a.bit_length()),
            (f"brev.{kind} %d, %s0;", kind, (kind,), reverse(kind)),
            (f"bfi.{kind} %d, %s0, %s1, %s2, %s3;", kind, (kind, kind, "u32", "u32"), insert(kind)),
        ]
    for kind in WIDE:
        found += [
            (f"bfind.{kind} %d, %s0;", "u32", (kind,), find_highest(kind)),
            (
                f"bfind.shiftamt.{kind} %d, %s0;",
                "u32",
                (kind,),
                lambda a, k=kind: -1 if (n := find_highest(k)(a)) < 0 else bits_of(k) - 1 - n,
            ),
            (f"bfe.{kind} %d, %s0, %s1, %s2;", kind, (kind, "u32", "u32"), extract(kind)),
        ]
    found += [
        ("add.sat.s32 %d, %s0, %s1;", "s32", ("s32", "s32"), lambda a, b: saturate(a + b)),
        ("sub.sat.s32 %d, %s0, %s1;", "s32", ("s32", "s32"), lambda a, b: saturate(a - b)),
        (
            "mad.hi.sat.s32 %d, %s0, %s1, %s2;",
            "s32",
            ("s32",) * 3,
            lambda a, b, c: saturate((a * b >> 32) + c),
        ),
        (
            "shf.l.clamp.b32 %d, %s0, %s1, %s2;",
            "b32",
            ("b32",) * 3,
            lambda a, b, c: (b << 32 | a) << min(c, 32) >> 32,
        ),
        (
            "shf.r.clamp.b32 %d, %s0, %s1, %s2;",
            "b32",
            ("b32",) * 3,
            lambda a, b, c: (b << 32 | a) >> min(c, 32),
        ),
        (
            "shf.l.wrap.b32 %d, %s0, %s1, %s2;",
            "b32",
            ("b32",) * 3,
            lambda a, b, c: (b << 32 | a) << (c & 31) >> 32,
        ),
        ("shf.r.wrap.b32 %d, %s0, %s1, %s2;", "b32", ("b32",) * 3, lambda a, b, c: (b << 32 | a) >> (c & 31)),
        ("mul24.lo.u32 %d, %s0, %s1;", "u32", ("u32", "u32"), lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF)),
        (
            "mul24.hi.u32 %d, %s0, %s1;",
            "u32",
            ("u32", "u32"),
            lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 16,
        ),
        ("dp4a.u32.u32 %d, %s0, %s1, %s2;", "u32", ("u32",) * 3, lambda a, b, c: c + dot4(a, b, False)),
        ("dp4a.s32.s32 %d, %s0, %s1, %s2;", "u32", ("u32",) * 3, lambda a, b, c: c + dot4(a, b, True)),
        ("prmt.b32 %d, %s0, %s1, %s2;", "b32", ("b32",) * 3, lambda a, b, c: permute(a, b, c)),
    ]
    for table in (0x00, 0xFF, 0x80, 0xFE, 0x96, 0x1B, 0xE8, 0xCA):
        found += [(f"lop3.b32 %d, %s0, %s1, %s2, {table};", "b32", ("b32",) * 3, logic(table))]
    return found


def dot4(a: int, b: int, signed: bool) -> int:
    def part(x: int, i: int) -> int:
        return wrap(x >> (8 * i), "s8" if signed else "u8")

    return sum(part(a, i) * part(b, i) for i in range(4))


def permute(a: int, b: int, selector: int) -> int:
    source, out = (b << 32 | a).to_bytes(8, "little"), 0
    for i in range(4):
        pick = selector >> (4 * i)
        byte = source[pick & 7]
        out |= ((0xFF if byte & 0x80 else 0) if pick & 8 else byte) << (8 * i)
    return out


def logic(table: int) -> Function:
    def run(a: int, b: int, c: int) -> int:
        return sum(
            (table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i for i in range(32)
        )

    return run


CASES = cases()


def check(device: Device, case: Case, arrays: list[np.ndarray]) -> None:
    body, result, operands, function = case
    got = compute(device, body, result, operands, *arrays)
    rows = zip(*[array.tolist() for array in arrays], strict=True)
    kind = result if result[0] != "b" else "u" + result[1:]
    want = np.array([wrap(function(*row), kind) for row in rows], TYPES[result][0])
    expect(got, want, *arrays)


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: case[0].split(" ")[0] + case[0].split(",")[-1].strip(" ;%s")
)
def test_edge_values(device: Device, case: Case) -> None:
    check(device, case, cross(*[integer_edges(kind) for kind in case[2]], most=1500))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_values(device: Device, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(CASES))
    columns = []
    for kind in case[2]:
        bits = bits_of(kind)
        raw = data.draw(st.lists(st.integers(0, (1 << bits) - 1), min_size=40, max_size=40))
        columns.append(np.array(raw, f"u{bits // 8}").view(TYPES[kind][0]))
    check(device, case, columns)


def carry_chain(words: int, opcode: str, kind: str) -> str:
    """A sum or difference of numbers of several words; the last carry becomes the top word."""
    bits = int(kind[1:])
    lines = []
    for i in range(words):
        c = "" if i == 0 else "c"
        lines.append(f"{opcode}{c}.cc.{kind} %x{i}, %a{i}, %b{i};")
    lines.append(f"{opcode}c.{kind} %x{words}, 0, 0;")
    registers = f".reg .b{bits} %a<{words}>, %b<{words}>, %x<{words + 1}>;"
    loads = [
        f"ld.global.b{bits} %{n}{i}, [%rd{r}+{i * bits // 8}];"
        for n, r in (("a", 1), ("b", 2))
        for i in range(words)
    ]
    stores = [f"st.global.b{bits} [%rd3+{i * bits // 8}], %x{i};" for i in range(words + 1)]
    return "\n".join(
        [
            ".version 8.5\n.target sm_75\n.address_size 64",
            ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 x) {",
            ".reg .b64 %rd<4>;",
            registers,
            "ld.param.u64 %rd1, [a];",
            "ld.param.u64 %rd2, [b];",
            "ld.param.u64 %rd3, [x];",
            *loads,
            *lines,
            *stores,
            "ret;",
            "}",
        ]
    )


@pytest.mark.parametrize("kind", ["u32", "u64"])
@settings(max_examples=40, deadline=None)
@given(a=st.integers(0, (1 << 256) - 1), b=st.integers(0, (1 << 256) - 1))
def test_carries_travel_through_long_sums_and_differences(device: Device, kind: str, a: int, b: int) -> None:
    words = 256 // int(kind[1:])
    for opcode, want in (("add", a + b), ("sub", a - b)):
        module = device.load(carry_chain(words, opcode, kind))
        numbers = [device.buffer(np.frombuffer(n.to_bytes(32, "little"), np.uint8)) for n in (a, b)]
        out = device.buffer(np.zeros(32 + int(kind[1:]) // 8, np.uint8))
        module(*numbers, out, block=1)
        size = 256 + int(kind[1:])
        assert int.from_bytes(out.get().tobytes(), "little") == want % (1 << size)
        for buffer in (*numbers, out):
            buffer.free()
        module.unload()


@given(a=st.integers(0, (1 << 64) - 1), b=st.integers(0, (1 << 64) - 1))
@settings(max_examples=40, deadline=None)
def test_a_long_product_by_mad_with_carry(device: Device, a: int, b: int) -> None:
    body = """
    .reg .b32 %a0, %a1, %b0, %b1, %x<4>;
    mov.b64 {%a0, %a1}, %s0; mov.b64 {%b0, %b1}, %s1;
    mul.lo.u32 %x0, %a0, %b0;
    mul.hi.u32 %x1, %a0, %b0;
    mad.lo.cc.u32 %x1, %a0, %b1, %x1;
    madc.hi.u32 %x2, %a0, %b1, 0;
    mad.lo.cc.u32 %x1, %a1, %b0, %x1;
    madc.hi.cc.u32 %x2, %a1, %b0, %x2;
    addc.u32 %x3, 0, 0;
    mad.lo.cc.u32 %x2, %a1, %b1, %x2;
    madc.hi.u32 %x3, %a1, %b1, %x3;
    mov.b64 %d, {%x2, %x3};
    """
    got = compute(device, body, "u64", ("u64", "u64"), np.array([a], np.uint64), np.array([b], np.uint64))
    assert int(got[0]) == a * b >> 64
