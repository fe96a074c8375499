"""What computing instructions mean, by opcode: Python's integers, and rational numbers rounded by the book.

Lanes see each other, memory and control are not here; their tests are kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from operator import and_, or_, xor

import numpy as np
from numpy.typing import NDArray

from tests.softgpu.engine import exact
from tests.softgpu.engine.elementwise import TYPES, float_edges, integer_edges
from tests.softgpu.engine.test_integer import (
    bits_of,
    divide,
    extract,
    find_highest,
    insert,
    remainder,
    reverse,
    saturate,
    unsigned,
    wrap,
)

FLOATS = ("f16", "bf16", "f32", "f64")
PAIRS = ("f16x2", "bf16x2")
ROUNDINGS = ("rn", "rz", "rm", "rp")
INTEGRAL: dict[str, Callable[[Fraction], int]] = {
    "rni": round,
    "rzi": math.trunc,
    "rmi": math.floor,
    "rpi": math.ceil,
}
ORDERED: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a < b or a > b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
LOGIC: dict[str, Callable[[bool, bool], bool]] = {"and": and_, "or": or_, "xor": xor}
SAME_SIGNLESS = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


@dataclass(frozen=True)
class Meaning:
    body: str  # as elementwise.kernel_text wants it
    result: str
    operands: tuple[str, ...]
    function: Callable[..., float]  # of Python's numbers; of integers the result is wrapped


def edges(kind: str) -> NDArray[np.generic]:
    """Values worth trying, as elementwise keeps them."""
    if kind == "bf16":
        return np.unique(float_edges("f32").view(np.uint32) >> 16).astype(np.uint16)
    if kind in PAIRS:
        half = edges(kind[:-2]).view(np.uint16).astype(np.uint32)
        return half | np.roll(half, 5) << 16
    return float_edges(kind) if kind in FLOATS else integer_edges(kind)


def numbers(kind: str, array: NDArray[np.generic]) -> list[float]:
    """What the elements mean."""
    if kind == "bf16":
        return [float(x) for x in (array.astype(np.uint32) << 16).view(np.float32)]
    return list(array.tolist())


def encoded(kind: str, values: list[float]) -> NDArray[np.generic]:
    """The elements that mean the values."""
    if kind == "bf16":
        bits = (np.array(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
        bits[np.isnan(np.array(values))] = 0x7FFF
        return bits
    if kind in FLOATS:
        return np.array(values, TYPES[kind][0])
    as_integer = kind if kind[0] in "us" else "u" + str(bits_of(kind))
    return np.array([wrap(int(value), as_integer) for value in values], TYPES[kind][0])


def rounded(value: float, kind: str, mode: str) -> float:
    if math.isnan(value) or math.isinf(value):
        return value
    return exact.round_to(Fraction(value), kind, mode, exact.sign_of(value))


def clamp(value: float) -> float:
    return 0.0 if math.isnan(value) else min(max(value, 0.0) + 0.0, 1.0)


def smaller(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    return a if (a, not exact.sign_of(a)) <= (b, not exact.sign_of(b)) else b


ARITHMETIC: dict[str, tuple[int, Callable[..., float]]] = {
    "add": (2, exact.add),
    "sub": (2, lambda a, b, kind, mode: exact.add(a, -b, kind, mode)),
    "mul": (2, exact.mul),
    "fma": (3, exact.fma),
    "mad": (3, exact.fma),
    "div": (2, exact.div),
    "sqrt": (1, exact.sqrt),
    "rcp": (1, lambda a, kind, mode: exact.div(1.0, a, kind, mode)),
}
SIMPLE: dict[str, tuple[int, Callable[..., float]]] = {
    "min": (2, smaller),
    "max": (2, lambda a, b: -smaller(-a, -b)),
    "abs": (1, abs),
    "neg": (1, lambda a: -a),
    "copysign": (2, lambda a, b: math.copysign(b, a)),
}


def float_meaning(name: str, modifiers: list[str], kind: str) -> tuple[int, Callable[..., float]] | None:
    flushes, clamps = "ftz" in modifiers, "sat" in modifiers
    relu, strict = "relu" in modifiers, "NaN" in modifiers
    mode = next((m for m in modifiers if m in ROUNDINGS), "rn")
    if name in ARITHMETIC:
        count, inner = ARITHMETIC[name]
        plain: Callable[..., float] = lambda *x: inner(*x, kind, mode)  # noqa: E731
    elif name in SIMPLE:
        count, plain = SIMPLE[name]
    else:
        return None

    def run(*operands: float) -> float:
        if flushes:
            operands = tuple(exact.flush(x, kind) for x in operands)
        if strict and any(math.isnan(x) for x in operands):
            return math.nan
        if "xorsign" in modifiers:
            size = plain(abs(operands[0]), abs(operands[1]))
            negative = exact.sign_of(operands[0]) != exact.sign_of(operands[1])
            return -size if negative else size
        value = plain(*operands)
        if flushes:
            value = exact.flush(value, kind)
        if relu and not math.isnan(value):
            value = max(value, 0.0) + 0.0
        return clamp(value) if clamps else value

    return count, run


def by_halves(kind: str, function: Callable[..., float]) -> Callable[..., float]:
    half = kind[:-2]

    def run(*words: int) -> float:
        out = 0
        for shift in (0, 16):
            raw = [np.array([word >> shift & 0xFFFF], np.uint16) for word in words]
            if half == "f16":
                raw = [bits.view(np.float16) for bits in raw]  # type: ignore[misc]
            values = [numbers(half, bits)[0] for bits in raw]
            got = encoded(half, [function(*values)]).view(np.uint16)
            out |= (
                0x7FFF if math.isnan(numbers(half, got.view(np.dtype(TYPES[half][0])))[0]) else int(got[0])
            ) << shift
        return out

    return run


def integer_meaning(
    name: str, modifiers: list[str], kind: str
) -> tuple[str, tuple[str, ...], Callable[..., float]] | None:
    bits, two, three = bits_of(kind), (kind, kind), (kind, kind, kind)
    wide = kind[0] + str(2 * bits)
    part = next((m for m in modifiers if m in ("lo", "hi", "wide")), "")
    clamped = "sat" in modifiers
    table: dict[str, tuple[str, tuple[str, ...], Callable[..., float]]] = {
        "add": (kind, two, lambda a, b: saturate(a + b) if clamped else a + b),
        "sub": (kind, two, lambda a, b: saturate(a - b) if clamped else a - b),
        "div": (kind, two, divide(kind)),
        "rem": (kind, two, remainder(kind)),
        "min": (kind, two, lambda a, b: max(min(a, b), 0) if "relu" in modifiers else min(a, b)),
        "max": (kind, two, lambda a, b: max(max(a, b), 0) if "relu" in modifiers else max(a, b)),
        "abs": (kind, (kind,), abs),
        "neg": (kind, (kind,), lambda a: -a),
        "and": (kind, two, lambda a, b: a & b),
        "or": (kind, two, lambda a, b: a | b),
        "xor": (kind, two, lambda a, b: a ^ b),
        "not": (kind, (kind,), lambda a: ~a),
        "cnot": (kind, (kind,), lambda a: int(a == 0)),
        "shl": (kind, (kind, "u32"), lambda a, b: 0 if b >= bits else a << b),
        "shr": (kind, (kind, "u32"), lambda a, b: a >> min(b, bits)),
        "popc": ("u32", (kind,), lambda a: unsigned(a, kind).bit_count()),
        "clz": ("u32", (kind,), lambda a: bits - unsigned(a, kind).bit_length()),
        "brev": (kind, (kind,), reverse(kind)),
        "bfe": (kind, (kind, "u32", "u32"), extract(kind)),
        "bfi": (kind, (kind, kind, "u32", "u32"), insert(kind)),
        "sad": (kind, three, lambda a, b, c: c + abs(a - b)),
    }
    if name == "bfind":
        highest = find_highest(kind)
        from_top = "shiftamt" in modifiers
        return "u32", (kind,), lambda a: bits - 1 - n if from_top and (n := highest(a)) >= 0 else highest(a)
    if name in ("mul", "mad"):
        result = wide if part == "wide" else kind
        count = 2 if name == "mul" else 3
        shift = bits if part == "hi" else 0

        def product(a: int, b: int, c: int = 0) -> int:
            value = (a * b >> shift) + c
            return saturate(value) if clamped else value

        return result, (kind, kind, result)[:count], product
    return table.get(name)


def to_integer(value: float, source: str, kind: str, mode: str) -> int:
    info = np.iinfo(TYPES[kind][0])
    least, most = int(info.min), int(info.max)
    if math.isnan(value):
        wide = source == "f64" or bits_of(kind) == 64
        return (least if least else (most >> 1) + 1) if wide else 0
    if math.isinf(value):
        return most if value > 0 else least
    return min(max(INTEGRAL[mode](Fraction(value)), least), most)


def conversion(modifiers: list[str], result: str, source: str) -> Callable[..., float]:
    mode = next((m for m in modifiers if m in ROUNDINGS or m in INTEGRAL), "rn")
    flushes, clamps, relu = "ftz" in modifiers, "sat" in modifiers, "relu" in modifiers
    finite = "satfinite" in modifiers

    def to_float(value: float) -> float:
        if flushes and source == "f32":
            value = exact.flush(value)
        if clamps and source in FLOATS and mode not in INTEGRAL:
            value = clamp(value)
        if mode in INTEGRAL and not (math.isnan(value) or math.isinf(value)):
            value = math.copysign(float(INTEGRAL[mode](Fraction(value))), value)
        if isinstance(value, float):
            value = rounded(value, result, mode if mode in ROUNDINGS else "rn")
        else:
            value = exact.round_to(Fraction(value), result, mode)
        if clamps:
            value = clamp(value)
        if relu and not math.isnan(value):
            value = max(value, 0.0) + 0.0
        if finite and math.isinf(value):
            value = math.copysign(float(exact.FORMATS[result].limit), value)
        return exact.flush(value) if flushes and result == "f32" else value

    def run(value: float) -> float:
        if result in FLOATS:
            return to_float(value)
        if source in FLOATS:
            return to_integer(
                exact.flush(value) if flushes and source == "f32" else value, source, result, mode
            )
        info = np.iinfo(TYPES[result][0])
        return min(max(int(value), int(info.min)), int(info.max)) if clamps else value

    return run


def comparison(name: str, flushes: bool, kind: str) -> Callable[..., float]:
    def run(a: float, b: float) -> float:
        if kind in FLOATS and flushes:
            a, b = exact.flush(a, kind), exact.flush(b, kind)
        unordered = kind in FLOATS and (math.isnan(a) or math.isnan(b))
        if name in ("num", "nan"):
            return unordered == (name == "nan")
        if kind in FLOATS and name.endswith("u"):
            return unordered or ORDERED[name[:-1]](a, b)
        return ORDERED[SAME_SIGNLESS.get(name, name)](a, b)

    return run


def meaning(opcode: str) -> Meaning | None:
    """None for what is no arithmetic of this page."""
    name, *modifiers = opcode.split(".")
    if not modifiers or modifiers[-1] not in TYPES:
        return None
    kind = modifiers.pop()
    if name == "setp" and kind not in PAIRS:
        compare = comparison(modifiers[0], "ftz" in modifiers, kind)
        logic = next((LOGIC[m] for m in modifiers if m in LOGIC), None)
        if logic is None:
            return Meaning(f"{opcode} %q, %s0, %s1;", "pred", (kind, kind), compare)
        text = f"setp.ne.u32 %p1, %s2, 0; {opcode} %q, %s0, %s1, %p1;"
        joined: Callable[..., float] = lambda a, b, c: logic(bool(compare(a, b)), c != 0)  # noqa: E731
        return Meaning(text, "pred", (kind, kind, "u32"), joined)
    if (
        name == "cvt"
        and modifiers
        and "pack" not in modifiers
        and modifiers[-1] in TYPES
        and kind not in PAIRS
        and modifiers[-1] not in PAIRS
    ):
        result = modifiers.pop()
        return Meaning(f"{opcode} %d, %s0;", result, (kind,), conversion(modifiers, result, kind))
    if name == "mov":
        return Meaning(f"{opcode} %d, %s0;", kind, (kind,), lambda a: a)
    if name == "selp":
        text = f"setp.ne.u32 %p1, %s2, 0; {opcode} %d, %s0, %s1, %p1;"
        return Meaning(text, kind, (kind, kind, "u32"), lambda a, b, c: a if c else b)
    if "pack" in modifiers or "approx" in modifiers or "full" in modifiers or "cc" in modifiers:
        return None
    if kind in FLOATS or kind in PAIRS:
        found = float_meaning(name, modifiers, kind.removesuffix("x2"))
        if found is None:
            return None
        count, function = found
        operands = ", ".join(f"%s{i}" for i in range(count))
        whole = by_halves(kind, function) if kind in PAIRS else function
        return Meaning(f"{opcode} %d, {operands};", kind, (kind,) * count, whole)
    known = integer_meaning(name, modifiers, kind)
    if known is None:
        return None
    result, kinds, function = known
    operands = ", ".join(f"%s{i}" for i in range(len(kinds)))
    return Meaning(f"{opcode} %d, {operands};", result, kinds, function)
