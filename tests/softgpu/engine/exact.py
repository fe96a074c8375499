"""Reference arithmetic: rational numbers rounded to a floating format in a given mode."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor, isinf, isnan, isqrt

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Format:
    precision: int  # significand bits with the hidden one
    least: int  # exponent of the smallest normal number
    most: int  # exponent of the largest

    @property
    def limit(self) -> Fraction:
        return Fraction(2) ** self.most * (2 - Fraction(1, 1 << (self.precision - 1)))


FORMATS = {
    "f16": Format(11, -14, 15),
    "bf16": Format(8, -126, 127),
    "tf32": Format(11, -126, 127),
    "e5m2": Format(3, -14, 15),
    "e4m3": Format(4, -6, 8),  # its largest number is 448: one encoding less than this says
    "f32": Format(24, -126, 127),
    "f64": Format(53, -1022, 1023),
}


def exponent_of(value: Fraction) -> int:
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= value else exponent - 1


def round_up_wanted(rest: Fraction, odd: bool, negative: bool, mode: str) -> bool:
    if mode == "rn":
        return rest > Fraction(1, 2) or (rest == Fraction(1, 2) and odd)
    if mode == "rna":
        return rest >= Fraction(1, 2)
    return rest > 0 and mode == ("rm" if negative else "rp")


def round_to(value: Fraction, kind: str, mode: str = "rn", negative_zero: bool = False) -> float:
    """What the mode chooses for an exact value; a float of Python holds the numbers of every format."""
    form = FORMATS[kind]
    if value == 0:
        return -0.0 if negative_zero else 0.0
    negative, size = value < 0, abs(value)
    last = max(exponent_of(size), form.least) - form.precision + 1
    scaled = size / Fraction(2) ** last
    whole = floor(scaled)
    whole += round_up_wanted(scaled - whole, bool(whole & 1), negative, mode)
    rounded = whole * Fraction(2) ** last
    if rounded > form.limit:
        outward = mode in ("rn", "rna") or mode == ("rm" if negative else "rp")
        result = float("inf") if outward else float(form.limit)
    else:
        result = float(rounded)
    return -result if negative else result


def flush(x: float, kind: str = "f32") -> float:
    return x * 0.0 if abs(x) < 2.0 ** FORMATS[kind].least else x


def sign_of(x: float) -> bool:
    return bool(np.signbit(x))


def add(a: float, b: float, kind: str, mode: str) -> float:
    if isnan(a) or isnan(b) or (isinf(a) and isinf(b) and a != b):
        return float("nan")
    if isinf(a) or isinf(b):
        return a if isinf(a) else b
    both_negative = sign_of(a) and sign_of(b)
    exact_zero = Fraction(a) + Fraction(b) == 0
    # A sum that vanishes is -0 when both were, or when rounding down and not both +0.
    cancelled = mode == "rm" and (sign_of(a) or sign_of(b))
    return round_to(Fraction(a) + Fraction(b), kind, mode, exact_zero and (both_negative or cancelled))


def fma(a: float, b: float, c: float, kind: str, mode: str) -> float:
    if isnan(a) or isnan(b) or isnan(c):
        return float("nan")
    if isinf(a) or isinf(b):
        if a == 0 or b == 0:
            return float("nan")
        product = float("inf") * (-1.0 if sign_of(a) != sign_of(b) else 1.0)
        return float("nan") if isinf(c) and c != product else product
    if isinf(c):
        return c
    product_negative = sign_of(a) != sign_of(b)
    total = Fraction(a) * Fraction(b) + Fraction(c)
    zero_negative = (product_negative and sign_of(c)) or (mode == "rm" and (product_negative or sign_of(c)))
    return round_to(total, kind, mode, total == 0 and zero_negative)


def mul(a: float, b: float, kind: str, mode: str) -> float:
    if isnan(a) or isnan(b) or (isinf(a) and b == 0) or (isinf(b) and a == 0):
        return float("nan")
    negative = sign_of(a) != sign_of(b)
    if isinf(a) or isinf(b):
        return -float("inf") if negative else float("inf")
    return round_to(Fraction(a) * Fraction(b), kind, mode, negative)


def div(a: float, b: float, kind: str, mode: str) -> float:
    if isnan(a) or isnan(b) or (isinf(a) and isinf(b)) or (a == 0 and b == 0):
        return float("nan")
    negative = sign_of(a) != sign_of(b)
    if isinf(a) or b == 0:
        return -float("inf") if negative else float("inf")
    if isinf(b):
        return -0.0 if negative else 0.0
    return round_to(Fraction(a) / Fraction(b), kind, mode, negative)


def sqrt(a: float, kind: str, mode: str) -> float:
    if isnan(a) or a < 0:
        return float("nan")
    if a == 0 or isinf(a):
        return a
    value = Fraction(a)
    # Enough bits that the rest only has to say whether it is zero.
    shift = 2 * (FORMATS[kind].precision + 8 + max(0, -exponent_of(value)))
    scaled = value * (Fraction(4) ** shift)
    root = isqrt(floor(scaled))
    exact = root * root == scaled
    approximate = Fraction(root, 1) / Fraction(2) ** shift
    return round_to(approximate if exact else approximate + Fraction(1, 1 << (2 * shift)), kind, mode)


def same(got: NDArray[np.generic], want: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Equal bit by bit, with all NaNs equal."""
    assert got.dtype == want.dtype
    bits = np.dtype(f"u{got.dtype.itemsize}")
    return (got.view(bits) == want.view(bits)) | (np.isnan(got) & np.isnan(want))


def expect(got: NDArray[np.generic], want: NDArray[np.generic], *inputs: NDArray[np.generic]) -> None:
    wrong = np.flatnonzero(~same(got, want)) if got.dtype.kind == "f" else np.flatnonzero(got != want)
    shown = [(*[array[i] for array in inputs], got[i], want[i]) for i in wrong[:5]]
    assert not len(wrong), f"{len(wrong)} of {len(got)} wrong; (operands, got, want): {shown}"
