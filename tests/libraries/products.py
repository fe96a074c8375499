"""cuBLAS' products in all types and batches, and its factorisations: how far each is from NumPy."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator

import numpy as np

from tests.libraries.on_device import (
    LETTERS,
    Cublas,
    OnDevice,
    Result,
    Value,
    apart,
    batch_of,
    operated,
    pointer,
    random,
    triangle,
)

Found = Iterator[tuple[str, float]]
SHAPES = [(1, 1, 1), (5, 3, 7), (17, 1, 2), (1, 33, 4), (12, 9, 0), (300, 280, 270)]


def products(blas: Cublas) -> Found:
    for (letter, kind), shape in itertools.product(LETTERS.items(), SHAPES):
        for ops in itertools.product((0, 1, 2), repeat=2):
            m, n, k = shape
            a = random(kind, *((m, k) if ops[0] == 0 else (k, m)))
            b = random(kind, *((k, n) if ops[1] == 0 else (n, k)))
            c = random(kind, m + 3, n)
            alpha, beta = Value(0.5 + 1j, kind), Value(-1.25, kind)
            wanted = c.copy()
            wanted[:m] = alpha.array[0] * operated(a, ops[0]) @ operated(b, ops[1]) + beta.array[0] * c[:m]
            leads = max(1, len(a)), max(1, len(b))
            given = (*ops, *shape, alpha, a, leads[0], b, leads[1], beta)
            for name in (f"{letter}gemm_v2", *([f"{letter}gemm3m"] if letter in "CZ" else [])):
                memory = c.copy(order="F")
                blas(f"cublas{name}", *given, memory, m + 3, changed=[memory])
                yield name, apart(memory, wanted)
            yield from batches(blas, letter, kind, ops, shape)


def batches(blas: Cublas, letter: str, kind: str, ops: tuple[int, int], shape: tuple[int, int, int]) -> Found:
    m, n, k = shape
    count = 3 if m < 100 else 1
    a = [random(kind, *((m, k) if ops[0] == 0 else (k, m))) for _ in range(count)]
    b = [random(kind, *((k, n) if ops[1] == 0 else (n, k))) for _ in range(count)]
    c = [random(kind, m, n) for _ in range(count)]
    alpha, beta = Value(0.5 + 1j, kind), Value(-1.25, kind)
    wanted = [
        alpha.array[0] * operated(x, ops[0]) @ operated(y, ops[1]) + beta.array[0] * z
        for x, y, z in zip(a, b, c, strict=True)
    ]
    leads = max(1, len(a[0])), max(1, len(b[0]))
    flat = [np.concatenate([x.ravel(order="F") for x in each]) for each in (a, b, c)]
    blas(
        f"cublas{letter}gemmStridedBatched",
        *(*ops, m, n, k, alpha, flat[0], leads[0], ctypes.c_longlong(m * k)),
        *(flat[1], leads[1], ctypes.c_longlong(k * n), beta, flat[2], m, ctypes.c_longlong(m * n), count),
        changed=[flat[2]],
    )
    yield f"{letter}gemmStridedBatched", apart(flat[2], np.concatenate([x.ravel(order="F") for x in wanted]))
    on = [batch_of(each) for each in (a, b, c)]
    status = blas.status(
        f"cublas{letter}gemmBatched",
        *(*ops, m, n, k, alpha.pointer(), pointer(on[0][1]), leads[0], pointer(on[1][1]), leads[1]),
        *(beta.pointer(), pointer(on[2][1]), m, count),
    )
    assert status == 0
    for each, one in zip(on[2][0], wanted, strict=True):
        yield f"{letter}gemmBatched", apart(each.get(), one)


def from_bfloat(bits: np.ndarray) -> np.ndarray:
    return (bits.astype("uint32") << 16).view("float32")


def to_bfloat(values: np.ndarray) -> np.ndarray:
    bits = values.astype("float32").view("uint32")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("uint16")


class Kind:
    """A type of GemmEx: its number, how numbers are stored in it and read."""

    def __init__(self, number: int, store: Callable, read: Callable) -> None:
        self.number, self.store, self.read = number, store, read


def plain(number: int, kind: str) -> Kind:
    return Kind(number, lambda x: np.asfortranarray(x.astype(kind)), lambda x: x.astype("complex128"))


KINDS = {
    "f32": plain(0, "float32"),
    "f64": plain(1, "float64"),
    "f16": plain(2, "float16"),
    "i8": Kind(
        3, lambda x: np.asfortranarray((x * 40).clip(-127, 127).astype("int8")), lambda x: x.astype("float64")
    ),
    "c32": plain(4, "complex64"),
    "c64": plain(5, "complex128"),
    "i32": Kind(10, lambda x: np.asfortranarray((x * 40).astype("int32")), lambda x: x.astype("float64")),
    "bf16": Kind(14, lambda x: np.asfortranarray(to_bfloat(np.asfortranarray(x))), from_bfloat),
}
COMBINATIONS = [
    *(("f32", "f32", compute, "float32") for compute in (68, 69, 74, 75, 77)),
    ("f64", "f64", 70, "float64"),
    ("f16", "f16", 64, "float16"),
    ("f16", "f16", 68, "float32"),
    ("f16", "f32", 68, "float32"),
    ("bf16", "bf16", 68, "float32"),
    ("bf16", "f32", 68, "float32"),
    ("i8", "i32", 72, "int32"),
    ("i8", "f32", 68, "float32"),
    ("c32", "c32", 68, "complex64"),
    ("c64", "c64", 70, "complex128"),
]


def types(blas: Cublas) -> Found:
    """Results are rounded once: so they are compared with those that NumPy rounds."""
    for (inputs, output, compute, scalar), ops in itertools.product(
        COMBINATIONS, itertools.product((0, 1), (0, 1))
    ):
        for m, n, k in [(5, 3, 7), (260, 257, 300)]:
            given, result = KINDS[inputs], KINDS[output]
            a = given.store(random("float64", *((m, k) if ops[0] == 0 else (k, m))))
            b = given.store(random("float64", *((k, n) if ops[1] == 0 else (n, k))))
            c = result.store(random("float64", m, n))
            alpha, beta = Value(2, scalar), Value(3, scalar)
            exact = 2 * operated(given.read(a), ops[0]) @ operated(given.read(b), ops[1]) + 3 * result.read(c)
            wanted = result.read(c) if output in ("i32",) else result.read(result.store(np.real(exact)))
            if output == "i32":
                wanted = exact
            if output.startswith("c"):
                wanted = exact
            status_of = (*ops, m, n, k, alpha, a, given.number, len(a), b, given.number, len(b), beta)
            blas("cublasGemmEx", *status_of, c, result.number, m, compute, -1, changed=[c])
            yield f"{inputs}-{output}-{compute}", apart(result.read(c), wanted)


def factorisations(blas: Cublas) -> Found:
    for (letter, kind), n in itertools.product(LETTERS.items(), (1, 5, 20)):
        matrices = [random(kind, n, n) + np.asfortranarray(np.eye(n, dtype=kind) * 2) for _ in range(4)]
        matrices[2][:, 0] = 0  # singular
        right = [random(kind, n, 2) for _ in range(4)]
        yield from solved(blas, letter, kind, n, matrices, right)
        yield from least_squares(blas, letter, kind, n)


def solved(
    blas: Cublas, letter: str, kind: str, n: int, matrices: list[np.ndarray], right: list[np.ndarray]
) -> Found:
    info, pivots = OnDevice(np.full(4, -1, "int32")), OnDevice(np.zeros(4 * n, "int32"))
    each, array = batch_of(matrices)
    status = blas.status(
        f"cublas{letter}getrfBatched", n, pointer(array), n, pointer(pivots), pointer(info), 4
    )
    assert status == 0
    assert [bool(code) for code in info.get()] == [False, False, True, False]
    good = [0, 1, 3]
    for i in good:
        factors = each[i].get()
        rows = np.arange(n)
        for row, pivot in enumerate(pivots.get()[i * n : (i + 1) * n] - 1):
            rows[[row, pivot]] = rows[[pivot, row]]
        found = (triangle(factors, 0, 1) @ triangle(factors, 1))[np.argsort(rows)]
        yield f"{letter}getrfBatched", apart(found, matrices[i])
    code = ctypes.c_int(-7)
    for operation in (0, 1, 2):
        sides, at = batch_of(right)
        status = blas.status(
            *(f"cublas{letter}getrsBatched", operation, n, 2, pointer(array), n, pointer(pivots)),
            *(pointer(at), n, ctypes.byref(code), 4),
        )
        assert (status, code.value) == (0, 0)
        for i in good:
            wanted = np.linalg.solve(operated(matrices[i], operation), right[i])
            yield f"{letter}getrsBatched", apart(sides[i].get(), wanted)
    inverses, at = batch_of([np.zeros((n, n), kind, order="F") for _ in range(4)])
    status = blas.status(
        f"cublas{letter}getriBatched", n, pointer(array), n, pointer(pivots), pointer(at), n, pointer(info), 4
    )
    assert status == 0
    for i in good:
        yield f"{letter}getriBatched", apart(inverses[i].get(), np.linalg.inv(matrices[i]))
    _, plain_array = fresh = batch_of(matrices)
    status = blas.status(
        f"cublas{letter}matinvBatched", n, pointer(plain_array), n, pointer(at), n, pointer(info), 4
    )
    assert status == 0
    assert [bool(one) for one in info.get()] == [False, False, True, False]
    for i in good:
        yield f"{letter}matinvBatched", apart(inverses[i].get(), np.linalg.inv(matrices[i]))
    for i in good:  # without pivots: of matrices that need none
        matrices[i] += np.asfortranarray(np.eye(n, dtype=kind) * 8)
    fresh = batch_of(matrices)
    status = blas.status(f"cublas{letter}getrfBatched", n, pointer(fresh[1]), n, None, pointer(info), 4)
    assert status == 0
    for i in good:
        factors = fresh[0][i].get()
        yield f"{letter}getrfBatched", apart(triangle(factors, 0, 1) @ triangle(factors, 1), matrices[i])


def least_squares(blas: Cublas, letter: str, kind: str, n: int) -> Found:
    m, code = n + 3, ctypes.c_int(-7)
    matrices, right = [random(kind, m, n) for _ in range(3)], [random(kind, m, 2) for _ in range(3)]
    each, array = batch_of(matrices)
    sides, at = batch_of(right)
    info = OnDevice(np.full(3, -1, "int32"))
    status = blas.status(
        *(f"cublas{letter}gelsBatched", 0, m, n, 2, pointer(array), m, pointer(at), m, ctypes.byref(code)),
        *(pointer(info), 3),
    )
    assert (status, code.value, set(info.get())) == (0, 0, {0})
    for i in range(3):
        wanted = np.linalg.lstsq(matrices[i], right[i], rcond=None)[0]
        yield f"{letter}gelsBatched", apart(sides[i].get()[:n], wanted)
    each, array = batch_of(matrices)
    taus, tau_array = batch_of([np.zeros(n, kind) for _ in range(3)])
    status = blas.status(
        f"cublas{letter}geqrfBatched", m, n, pointer(array), m, pointer(tau_array), ctypes.byref(code), 3
    )
    assert (status, code.value) == (0, 0)
    for i in range(3):
        r = np.abs(np.triu(each[i].get()[:n]))
        yield f"{letter}geqrfBatched", apart(r, np.abs(np.linalg.qr(matrices[i], mode="r")))
        assert np.any(taus[i].get() != 0) or n == 1 or letter in "SD"
    triangles_ = [
        np.asfortranarray(triangle(random(kind, n, n), 0) + 3 * np.eye(n, dtype=kind)) for _ in range(3)
    ]
    right = [random(kind, n, 2) for _ in range(3)]
    _, array = held = batch_of(triangles_)
    sides, at = batch_of(right)
    one = Value(2, kind)
    status = blas.status(
        f"cublas{letter}trsmBatched", 0, 0, 0, 0, n, 2, one.pointer(), pointer(array), n, pointer(at), n, 3
    )
    assert status == 0
    for i in range(3):
        yield f"{letter}trsmBatched", apart(sides[i].get(), 2 * np.linalg.solve(triangles_[i], right[i]))
    assert held


def wide(blas: Cublas) -> Found:
    """The forms with integers of 64 bits."""
    long = ctypes.c_longlong
    a, b, c = (random("float32", 6, 6) for _ in range(3))
    one, zero, place = Value(1, "float32"), Value(0, "float32"), Result("int64")
    six = [long(6)] * 3
    blas("cublasSgemm_v2_64", 0, 1, *six, one, a, long(6), b, long(6), zero, c, long(6), changed=[c])
    yield "Sgemm_64", apart(c, a @ b.T)
    x = random("float64", 50)
    blas("cublasIdamax_v2_64", long(50), x, long(1), place)
    yield "Idamax_64", abs(int(place.array[0]) - 1 - int(np.argmax(np.abs(x))))


def mixed(blas: Cublas) -> Found:
    """Functions whose types are arguments."""
    n = 40
    for name, number in {"float32": 0, "float64": 1, "float16": 2, "complex64": 4, "complex128": 5}.items():
        x, y = random(name, n), random(name, n)
        alpha, norm = Value(0.5, name), Result(x.real.dtype.name)
        memory = y.copy()
        blas("cublasAxpyEx", n, alpha, number, x, number, 1, memory, number, 1, number, changed=[memory])
        yield f"axpy-{name}", apart(memory, alpha.array[0] * x + y)
        memory = x.copy()
        blas("cublasScalEx", n, alpha, number, memory, number, 1, number, changed=[memory])
        yield f"scal-{name}", apart(memory, alpha.array[0] * x)
        result = Result(name)
        wider = "complex128" if name.startswith("c") else "float64"
        for function, reference in {"Dot": np.dot, "Dotc": np.vdot}.items():
            blas(f"cublas{function}Ex", n, x, number, 1, y, number, 1, result, number, number)
            yield (
                f"{function.lower()}-{name}",
                apart(result.array[0], reference(x.astype(wider), y.astype(wider))),
            )
        real = {4: 0, 5: 1}.get(number, number)
        blas("cublasNrm2Ex", n, x, number, 1, norm, real, number)
        yield f"nrm2-{name}", apart(norm.array[0], np.linalg.norm(x.astype(wider)))
