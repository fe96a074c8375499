"""Float instructions against rational arithmetic rounded by the book, in every rounding mode."""

from __future__ import annotations

from collections.abc import Callable
from math import isinf, isnan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.softgpu.bench import Device
from tests.softgpu.engine import exact
from tests.softgpu.engine.elementwise import TYPES, compute, cross, float_edges
from tests.softgpu.engine.exact import expect

Function = Callable[..., float]
MODES = ("rn", "rz", "rm", "rp")


def finish(function: Function, kind: str, ftz: bool, sat: bool) -> Function:
    def run(*operands: float) -> float:
        if ftz:
            operands = tuple(exact.flush(x) for x in operands)
        value = function(*operands)
        if ftz:
            value = exact.flush(value)
        if sat:
            return 0.0 if isnan(value) else min(max(value, 0.0) + 0.0, 1.0)
        return value

    return run


Case = tuple[str, str, int, Function]


def rounded_cases() -> list[Case]:
    found: list[Case] = []
    operations = [("add", 2, exact.add), ("mul", 2, exact.mul), ("fma", 3, exact.fma), ("div", 2, exact.div)]
    operations += [("sqrt", 1, exact.sqrt), ("rcp", 1, lambda a, kind, mode: exact.div(1.0, a, kind, mode))]
    operations += [("sub", 2, lambda a, b, kind, mode: exact.add(a, -b, kind, mode))]
    for name, count, function in operations:
        for mode in MODES:
            for kind in ("f32", "f64"):
                plain = lambda *x, f=function, k=kind, m=mode: f(*x, k, m)  # noqa: E731
                text = f"{name}.{mode}"
                found.append((f"{text}.{kind}", kind, count, plain))
                if kind == "f32":
                    found.append((f"{text}.ftz.f32", kind, count, finish(plain, kind, True, False)))
                    if name in ("add", "sub", "mul", "fma"):
                        found.append((f"{text}.sat.f32", kind, count, finish(plain, kind, False, True)))
                        found.append((f"{text}.ftz.sat.f32", kind, count, finish(plain, kind, True, True)))
    return found


def pick_smaller(a: float, b: float) -> float:
    if isnan(a) or isnan(b):
        return b if isnan(a) else a
    return a if (a, not exact.sign_of(a)) <= (b, not exact.sign_of(b)) else b


def pick_larger(a: float, b: float) -> float:
    return -pick_smaller(-a, -b)


def simple_cases() -> list[Case]:
    found: list[Case] = []
    for kind in ("f32", "f64"):
        found += [
            (f"min.{kind}", kind, 2, pick_smaller),
            (f"max.{kind}", kind, 2, pick_larger),
            (f"abs.{kind}", kind, 1, abs),
            (f"neg.{kind}", kind, 1, lambda a: -a),
            (f"copysign.{kind}", kind, 2, lambda a, b: float(np.copysign(b, a))),
            (f"add.{kind}", kind, 2, lambda a, b, k=kind: exact.add(a, b, k, "rn")),
            (f"mul.{kind}", kind, 2, lambda a, b, k=kind: exact.mul(a, b, k, "rn")),
            (f"mad.rn.{kind}", kind, 3, lambda a, b, c, k=kind: exact.fma(a, b, c, k, "rn")),
        ]
    nan = float("nan")
    found += [
        ("min.ftz.f32", "f32", 2, finish(pick_smaller, "f32", True, False)),
        ("max.ftz.f32", "f32", 2, finish(pick_larger, "f32", True, False)),
        ("min.NaN.f32", "f32", 2, lambda a, b: nan if isnan(a) or isnan(b) else pick_smaller(a, b)),
        ("max.NaN.f32", "f32", 2, lambda a, b: nan if isnan(a) or isnan(b) else pick_larger(a, b)),
        ("abs.ftz.f32", "f32", 1, finish(abs, "f32", True, False)),
        ("neg.ftz.f32", "f32", 1, finish(lambda a: -a, "f32", True, False)),
    ]
    return found


CASES = rounded_cases() + simple_cases()


def check(device: Device, case: Case, arrays: list[np.ndarray]) -> None:
    name, kind, count, function = case
    body = f"{name} %d, " + ", ".join(f"%s{i}" for i in range(count)) + ";"
    got = compute(device, body, kind, (kind,) * count, *arrays)
    rows = zip(*[array.tolist() for array in arrays], strict=True)
    want = np.array([function(*row) for row in rows], TYPES[kind][0])
    expect(got, want, *arrays)
    if kind == "f32" and name.split(".")[0] not in ("abs", "neg", "copysign"):
        assert set(got.view(np.uint32)[np.isnan(got)].tolist()) <= {0x7FFFFFFF}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_edge_values(device: Device, case: Case) -> None:
    check(device, case, cross(*[float_edges(case[1])] * case[2], most=400))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_values(device: Device, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(CASES))
    bits = 8 * np.dtype(TYPES[case[1]][0]).itemsize
    columns = []
    for _ in range(case[2]):
        raw = data.draw(st.lists(st.integers(0, (1 << bits) - 1), min_size=24, max_size=24))
        columns.append(np.array(raw, f"u{bits // 8}").view(TYPES[case[1]][0]))
    check(device, case, columns)


# instruction, reference in double, most error in units of the last place, or absolute
APPROXIMATE = [
    ("rcp.approx.f32", lambda x: 1 / x, 1.0, 0),
    ("rcp.approx.ftz.f32", lambda x: 1 / x, 1.0, 0),
    ("sqrt.approx.f32", np.sqrt, 1.0, 0),
    ("sqrt.approx.ftz.f32", np.sqrt, 1.0, 0),
    ("rsqrt.approx.f32", lambda x: 1 / np.sqrt(x), 1.0, 0),
    ("rsqrt.approx.ftz.f32", lambda x: 1 / np.sqrt(x), 1.0, 0),
    ("ex2.approx.f32", np.exp2, 1.0, 0),
    ("ex2.approx.ftz.f32", np.exp2, 1.0, 0),
    ("lg2.approx.f32", np.log2, 1.0, 0),
    ("lg2.approx.ftz.f32", np.log2, 1.0, 0),
    ("sin.approx.f32", np.sin, 1.0, 1e-9),
    ("cos.approx.f32", np.cos, 1.0, 1e-9),
    ("tanh.approx.f32", np.tanh, 1.0, 0),
    ("rcp.approx.ftz.f64", lambda x: 1 / x, 2.0, 0),
    ("rsqrt.approx.f64", lambda x: 1 / np.sqrt(x), 2.0, 0),
]


@pytest.mark.parametrize("case", APPROXIMATE, ids=lambda case: case[0])
def test_approximations_are_as_good_as_promised(device: Device, case: tuple) -> None:
    name, function, ulps, absolute = case
    kind = name.split(".")[-1]
    rng = np.random.default_rng(5)
    values = np.concatenate([float_edges(kind), rng.normal(0, 10, 4000), 10.0 ** rng.uniform(-30, 30, 2000)])
    with np.errstate(all="ignore"):
        values = values.astype(TYPES[kind][0])
        if name.startswith(("sin", "cos")):
            values = values[np.abs(values) < 1e5]
        inputs = (
            np.where(np.abs(values) < np.finfo(kind.replace("f", "float")).tiny, values * 0, values)
            if "ftz" in name
            else values
        )
        want = function(inputs.astype(np.float64))
        got = compute(device, f"{name} %d, %s0;", kind, (kind,), values)
        if "ftz" in name:
            want = np.where(np.abs(want) < np.finfo(got.dtype).tiny, want * 0, want)
        narrow = want.astype(got.dtype)
    assert np.array_equal(np.isnan(got), np.isnan(narrow))
    finite = np.isfinite(narrow) & np.isfinite(got)
    assert np.array_equal(got[~finite & ~np.isnan(got)], narrow[~finite & ~np.isnan(got)])
    spacing = np.abs(np.spacing(narrow[finite])).astype(np.float64)
    error = np.abs(got[finite].astype(np.float64) - want[finite])
    assert np.all(error <= ulps * spacing + absolute), values[finite][np.argmax(error / spacing)]


@pytest.mark.parametrize("name", ["div.approx.f32", "div.full.f32", "div.approx.ftz.f32", "div.full.ftz.f32"])
def test_approximate_division_divides(device: Device, name: str) -> None:
    a, b = np.random.default_rng(1).uniform(-100, 100, (2, 1000)).astype(np.float32)
    assert np.array_equal(compute(device, f"{name} %d, %s0, %s1;", "f32", ("f32", "f32"), a, b), a / b)


def test_sine_of_something_huge_is_a_number_and_of_infinity_is_none(device: Device) -> None:
    values = np.array([1e20, -3e38, np.inf, -np.inf, np.nan], np.float32)
    for name in ("sin", "cos"):
        got = compute(device, f"{name}.approx.f32 %d, %s0;", "f32", ("f32",), values)
        assert np.all(np.abs(got[:2]) <= 1)
        assert np.all(np.isnan(got[2:]))


COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a < b or a > b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "num": lambda a, b: not isnan(a) and not isnan(b),
    "nan": lambda a, b: isnan(a) or isnan(b),
}
UNORDERED = {"equ": "eq", "neu": "ne", "ltu": "lt", "leu": "le", "gtu": "gt", "geu": "ge"}


@pytest.mark.parametrize("kind", ["f32", "f64", "f16"])
@pytest.mark.parametrize("name", [*COMPARISONS, *UNORDERED])
def test_float_comparisons_and_nan(device: Device, name: str, kind: str) -> None:
    a, b = cross(float_edges(kind), float_edges(kind))

    def want(x: float, y: float) -> bool:
        unordered = name in UNORDERED and (isnan(x) or isnan(y))
        return unordered or COMPARISONS[UNORDERED.get(name, name)](x, y)

    got = compute(device, f"setp.{name}.{kind} %q, %s0, %s1;", "pred", (kind, kind), a, b)
    expect(got, np.array([want(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)], np.uint32), a, b)


def test_comparison_flushes_denormals_when_told(device: Device) -> None:
    tiny = np.array([1e-40, -1e-40, 0.0], np.float32)
    a, b = cross(tiny, tiny)
    assert compute(device, "setp.eq.ftz.f32 %q, %s0, %s1;", "pred", ("f32", "f32"), a, b).all()
    assert compute(device, "setp.eq.f32 %q, %s0, %s1;", "pred", ("f32", "f32"), a, b).sum() == 3


PROPERTIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda x: ~np.isnan(x),
    "notanumber": np.isnan,
    "normal": lambda x: np.isfinite(x) & (np.abs(x) >= np.finfo(x.dtype).tiny),
    "subnormal": lambda x: (x != 0) & (np.abs(x) < np.finfo(x.dtype).tiny),
}


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name", PROPERTIES)
def test_properties(device: Device, name: str, kind: str) -> None:
    values = float_edges(kind)
    got = compute(device, f"testp.{name}.{kind} %q, %s0;", "pred", (kind,), values)
    expect(got, PROPERTIES[name](values).astype(np.uint32), values)


HALF = {
    "add": (2, lambda a, b: exact.add(a, b, "f16", "rn")),
    "sub": (2, lambda a, b: exact.add(a, -b, "f16", "rn")),
    "mul": (2, lambda a, b: exact.mul(a, b, "f16", "rn")),
    "fma.rn": (3, lambda a, b, c: exact.fma(a, b, c, "f16", "rn")),
    "min": (2, pick_smaller),
    "max": (2, pick_larger),
    "neg": (1, lambda a: -a),
    "abs": (1, abs),
}


@pytest.mark.parametrize("name", HALF)
def test_half_precision(device: Device, name: str) -> None:
    count, function = HALF[name]
    rng = np.random.default_rng(3)
    edges = cross(*[float_edges("f16")] * count, most=1500)
    drawn = [rng.integers(0, 1 << 16, 1500).astype(np.uint16).view(np.float16) for _ in range(count)]
    arrays = [np.concatenate(pair) for pair in zip(edges, drawn, strict=True)]
    operands = ", ".join(f"%s{i}" for i in range(count))
    got = compute(device, f"{name}.f16 %d, {operands};", "f16", ("f16",) * count, *arrays)
    want = np.array([function(*row) for row in zip(*[a.tolist() for a in arrays], strict=True)], np.float16)
    expect(got, want, *arrays)


def test_half_precision_pairs_work_on_both_halves(device: Device) -> None:
    rng = np.random.default_rng(4)
    a, b, c = rng.normal(0, 3, (3, 2000)).astype(np.float16)
    words = [x.view(np.uint32) for x in (a, b, c)]
    got = compute(device, "fma.rn.f16x2 %d, %s0, %s1, %s2;", "f16x2", ("f16x2",) * 3, *words).view(np.float16)
    want = [exact.fma(*row, "f16", "rn") for row in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)]
    expect(got, np.array(want, np.float16), a, b, c)


def test_brain_floats_round_to_nearest_even(device: Device) -> None:
    rng = np.random.default_rng(6)
    values = np.concatenate([rng.normal(0, 100, 3000).astype(np.float32), float_edges("f32")])
    got = compute(device, "cvt.rn.bf16.f32 %d, %s0;", "bf16", ("f32",), values)
    bits = values.view(np.uint32).astype(np.uint64)
    want = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    want[np.isnan(values)] = 0x7FFF
    assert np.array_equal(got, want)
    sums = compute(device, "add.rn.bf16 %d, %s0, %s0;", "bf16", ("bf16",), got)
    finite = np.isfinite(values) & (np.abs(values) < 1e38)
    doubled = compute(device, "cvt.f32.bf16 %d, %s0;", "f32", ("bf16",), sums)
    single = compute(device, "cvt.f32.bf16 %d, %s0;", "f32", ("bf16",), got)
    assert np.array_equal(doubled[finite], 2 * single[finite])


def test_infinite_results_saturate(device: Device) -> None:
    values = np.array([np.inf, -np.inf, np.nan, 0.25, 3.0, -3.0], np.float32)
    got = compute(device, "cvt.sat.f32.f32 %d, %s0;", "f32", ("f32",), values)
    assert got.tolist() == [1.0, 0.0, 0.0, 0.25, 1.0, 0.0]
    assert not any(isinf(x) for x in got.tolist())
