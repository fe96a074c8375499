"""cuBLAS' functions on vectors, of a matrix and vectors, and of matrices: how far each is from NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from tests.libraries.on_device import (
    LETTERS,
    REAL,
    Cublas,
    Result,
    Value,
    apart,
    mirrored,
    operated,
    random,
    triangle,
)

Found = Iterator[tuple[str, float]]
PREFIX = {"S": "S", "D": "D", "C": "Sc", "Z": "Dz"}  # of what has a real result
SCALED = {"C": "Cs", "Z": "Zd"}  # of what has a real scalar
ROTATED = {"C": "Cs", "Z": "Zd"}


def strided(values: np.ndarray, step: int) -> np.ndarray:
    """A vector's memory when it is walked in steps, backwards too."""
    memory = np.full(1 + (len(values) - 1) * abs(step), 7, values.dtype)
    memory[:: abs(step)] = values if step > 0 else values[::-1]
    return memory


def walked(memory: np.ndarray, step: int) -> np.ndarray:
    return memory[:: abs(step)] if step > 0 else memory[:: abs(step)][::-1]


def level1(blas: Cublas) -> Found:
    for (letter, kind), (n, ix, iy) in itertools.product(
        LETTERS.items(), [(1, 1, 1), (7, 2, -3), (1000, 1, 1)]
    ):
        x, y = random(kind, n), random(kind, n)
        alpha = Value(1.5 - 0.5j, kind)
        scale = alpha.array[0]
        at_x, at_y = strided(x, ix), strided(y, iy)
        blas(f"cublas{letter}axpy_v2", n, alpha, at_x, ix, at_y, iy, changed=[at_y])
        yield f"{letter}axpy", apart(walked(at_y, iy), scale * x + y)
        at_y = strided(y, iy)
        blas(f"cublas{letter}copy_v2", n, at_x, ix, at_y, iy, changed=[at_y])
        yield f"{letter}copy", apart(walked(at_y, iy), x)
        at_y = strided(y, iy)
        blas(f"cublas{letter}swap_v2", n, at_x, ix, at_y, iy, changed=[at_x, at_y])
        yield f"{letter}swap", apart(walked(at_y, iy), x) + apart(walked(at_x, ix), y)
        at_x = strided(x, ix)
        blas(f"cublas{letter}scal_v2", n, alpha, at_x, ix, changed=[at_x])
        yield f"{letter}scal", apart(walked(at_x, ix), scale * x)
        yield from reductions(blas, letter, kind, x, y, ix, iy)
        yield from rotations(blas, letter, kind, x, y, ix, iy)


def reductions(blas: Cublas, letter: str, kind: str, x: np.ndarray, y: np.ndarray, ix: int, iy: int) -> Found:
    n, at_x, at_y = len(x), strided(x, ix), strided(y, iy)
    result, real, place = Result(kind), Result(REAL[letter]), Result("int32")
    dots = {"dot": np.dot} if letter in "SD" else {"dotu": np.dot, "dotc": np.vdot}
    for name, reference in dots.items():
        blas(f"cublas{letter}{name}_v2", n, at_x, ix, at_y, iy, result)
        yield f"{letter}{name}", apart(result.array[0], reference(x, y))
    sizes = np.abs(x.real) + np.abs(x.imag)
    blas(f"cublas{PREFIX[letter]}nrm2_v2", n, at_x, ix, real)
    yield f"{letter}nrm2", apart(real.array[0], np.linalg.norm(x))
    blas(f"cublas{PREFIX[letter]}asum_v2", n, at_x, ix, real)
    yield f"{letter}asum", apart(real.array[0], sizes.sum())
    for name, reference in {"amax": np.argmax, "amin": np.argmin}.items():
        blas(f"cublasI{letter.lower()}{name}_v2", n, at_x, ix, place)
        yield f"{letter}{name}", abs(int(place.array[0]) - 1 - int(reference(sizes)))


def rotations(blas: Cublas, letter: str, kind: str, x: np.ndarray, y: np.ndarray, ix: int, iy: int) -> Found:
    n = len(x)
    c, s, real_s = Value(0.6, REAL[letter]), Value(0.48 + 0.64j, kind), Value(0.8, REAL[letter])
    for name, sine in {f"{letter}rot": s, f"{ROTATED.get(letter, letter)}rot": real_s}.items():
        if letter in "SD" and sine is real_s:
            continue
        at_x, at_y = strided(x, ix), strided(y, iy)
        blas(f"cublas{name}_v2", n, at_x, ix, at_y, iy, c, sine, changed=[at_x, at_y])
        cosine, by = c.array[0], sine.array[0]
        yield name, apart(walked(at_x, ix), cosine * x + by * y)
        yield name, apart(walked(at_y, iy), cosine * y - np.conj(by) * x)
    if letter in SCALED:
        at_x = strided(x, ix)
        blas(f"cublas{SCALED[letter]}scal_v2", n, real_s, at_x, ix, changed=[at_x])
        yield f"{SCALED[letter]}scal", apart(walked(at_x, ix), real_s.array[0] * x)
    a, b, cosine, sine = Value(3 + 1j, kind), Value(4 - 2j, kind), Result(REAL[letter]), Result(kind)
    given = np.array([a.array[0], b.array[0]])
    blas(f"cublas{letter}rotg_v2", a, b, cosine, sine)
    turned = cosine.array[0] * given[1] - np.conj(sine.array[0]) * given[0]
    yield f"{letter}rotg", float(abs(turned) / 5)
    yield f"{letter}rotg", apart(a.array[0], cosine.array[0] * given[0] + sine.array[0] * given[1])
    if letter in "SD":
        at_x, at_y, param = strided(x, ix), strided(y, iy), Result(kind, 5)
        param.array[:] = [-1, 0.5, -0.25, 2, 1.5]
        blas(f"cublas{letter}rotm_v2", n, at_x, ix, at_y, iy, param, changed=[at_x, at_y])
        yield f"{letter}rotm", apart(walked(at_x, ix), 0.5 * x + 2 * y)
        yield f"{letter}rotm", apart(walked(at_y, iy), -0.25 * x + 1.5 * y)
        d1, d2, x1 = Value(2, kind), Value(3, kind), Value(1, kind)
        blas(f"cublas{letter}rotmg_v2", d1, d2, x1, Value(0.5, kind), param)
        flag, _, h21, _, h22 = (float(p) for p in param.array)
        rows = {-1: (h21, h22), 0: (h21, 1), 1: (-1, h22)}[int(flag)]
        yield f"{letter}rotmg", abs(rows[0] * 1 + rows[1] * 0.5)  # the second coordinate becomes 0


def level2(blas: Cublas) -> Found:
    for letter, kind in LETTERS.items():
        yield from rectangles(blas, letter, kind)
        for fill, unit, operation in itertools.product((0, 1), (0, 1), (0, 1, 2)):
            yield from triangles(blas, letter, kind, fill, unit, operation)
        for fill in (0, 1):
            yield from symmetric(blas, letter, kind, fill)
            yield from updates(blas, letter, kind, fill)


def rectangles(blas: Cublas, letter: str, kind: str) -> Found:
    m, n = 6, 4
    alpha, beta = Value(0.5 + 1j, kind), Value(-1.25, kind)
    a = random(kind, m + 2, n)
    for operation, step in itertools.product((0, 1, 2), (1, -2)):
        matrix = operated(a[:m], operation)
        x, y = random(kind, matrix.shape[1]), random(kind, matrix.shape[0])
        at_x, at_y = strided(x, 3), strided(y, step)
        blas(
            f"cublas{letter}gemv_v2",
            operation,
            m,
            n,
            alpha,
            a,
            m + 2,
            at_x,
            3,
            beta,
            at_y,
            step,
            changed=[at_y],
        )
        wanted = alpha.array[0] * matrix @ x + beta.array[0] * y
        yield f"{letter}gemv", apart(walked(at_y, step), wanted)
        kl, ku, band = 2, 1, np.zeros((4, n), kind, order="F")
        whole = np.triu(np.tril(a[:m], ku), -kl)
        for j in range(n):
            for i in range(max(0, j - ku), min(m, j + kl + 1)):
                band[ku + i - j, j] = whole[i, j]
        at_y = strided(y, step)
        blas(
            *(f"cublas{letter}gbmv_v2", operation, m, n, kl, ku, alpha, band, 4, at_x, 3, beta, at_y, step),
            changed=[at_y],
        )
        wanted = alpha.array[0] * operated(whole, operation) @ x + beta.array[0] * y
        yield f"{letter}gbmv", apart(walked(at_y, step), wanted)
    x, y = random(kind, m), random(kind, n)
    for name in ("ger",) if letter in "SD" else ("geru", "gerc"):
        changed = a.copy(order="F")
        blas(f"cublas{letter}{name}_v2", m, n, alpha, x, 1, y, 1, changed, m + 2, changed=[changed])
        outer = np.outer(x, y.conj() if name == "gerc" else y)
        wanted = a.copy()
        wanted[:m] += alpha.array[0] * outer
        yield f"{letter}{name}", apart(changed, wanted)


def banded(matrix: np.ndarray, fill: int, k: int) -> np.ndarray:
    """The band of a triangle, as BLAS stores it."""
    n = len(matrix)
    band = np.zeros((k + 1, n), matrix.dtype, order="F")
    for j in range(n):
        for i in range(max(0, j - k), j + 1) if fill else range(j, min(n, j + k + 1)):
            band[(k if fill else 0) + i - j, j] = matrix[i, j]
    return band


def packed(matrix: np.ndarray, fill: int) -> np.ndarray:
    n = len(matrix)
    return np.concatenate([matrix[: j + 1, j] if fill else matrix[j:, j] for j in range(n)])


def triangles(blas: Cublas, letter: str, kind: str, fill: int, unit: int, operation: int) -> Found:
    n, k = 7, 2
    a = random(kind, n, n) * 0.2 + np.asfortranarray(2 * np.eye(n).astype(kind))
    band = a * (np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= k)
    x = random(kind, n)
    shape = (fill, operation, unit)
    forms = {
        "tr": (a, (n, a, n)),
        "tb": (band, (n, k, banded(band, fill, k), k + 1)),
        "tp": (a, (n, packed(a, fill))),
    }
    for name, (whole, arguments) in forms.items():
        matrix = operated(triangle(whole, fill, unit), operation)
        at = strided(x, 2)
        blas(f"cublas{letter}{name}mv_v2", *shape, *arguments, at, 2, changed=[at])
        yield f"{letter}{name}mv", apart(walked(at, 2), matrix @ x)
        at = strided(x, -1)
        blas(f"cublas{letter}{name}sv_v2", *shape, *arguments, at, -1, changed=[at])
        yield f"{letter}{name}sv", apart(walked(at, -1), np.linalg.solve(matrix, x))


def symmetric(blas: Cublas, letter: str, kind: str, fill: int) -> Found:
    n, k = 6, 2
    alpha, beta = Value(0.5 + 1j, kind), Value(-1.25 + 1j, kind)
    a, x, y = random(kind, n, n), random(kind, n), random(kind, n)
    near = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= k
    hermitian = letter in "CZ"
    calls: dict[str, tuple[np.ndarray, tuple[object, ...]]] = {
        "symv": (mirrored(a, fill, False), (n, alpha, a, n)),
        ("sbmv", "hbmv")[hermitian]: (
            mirrored(a * near, fill, hermitian),
            (n, k, alpha, banded(a * near, fill, k), k + 1),
        ),
        ("spmv", "hpmv")[hermitian]: (mirrored(a, fill, hermitian), (n, alpha, packed(a, fill))),
    }
    if hermitian:
        calls["hemv"] = (mirrored(a, fill, True), (n, alpha, a, n))
    for name, (matrix, arguments) in calls.items():
        at_x, at_y = strided(x, -2), strided(y, 3)
        blas(f"cublas{letter}{name}_v2", fill, *arguments, at_x, -2, beta, at_y, 3, changed=[at_y])
        yield f"{letter}{name}", apart(walked(at_y, 3), alpha.array[0] * matrix @ x + beta.array[0] * y)


def updates(blas: Cublas, letter: str, kind: str, fill: int) -> Found:
    n = 6
    alpha, real = Value(0.5 + 1j, kind), Value(0.75, REAL[letter])
    a, x, y = random(kind, n, n), random(kind, n), random(kind, n)
    both = np.outer(x, y)
    sums = {"syr": alpha.array[0] * np.outer(x, x), "syr2": alpha.array[0] * (both + both.T)}
    if letter in "CZ":
        mixed = alpha.array[0] * np.outer(x, y.conj())
        sums["her"] = sums["hpr"] = real.array[0] * np.outer(x, x.conj())
        sums["her2"] = sums["hpr2"] = mixed + mixed.conj().T
    else:
        sums["spr"], sums["spr2"] = real.array[0] * np.outer(x, x), sums["syr2"]
    for name, added in sums.items():
        scalar = real if name in ("her", "hpr", "spr") else alpha
        second = (y, 1) if name.endswith("2") else ()
        wanted = triangle(a + added, fill)
        if name.startswith("h"):
            wanted = wanted - 1j * np.diag(np.diag(wanted).imag)
        if name[1] == "p":
            memory = packed(a, fill)
            blas(f"cublas{letter}{name}_v2", fill, n, scalar, x, 1, *second, memory, changed=[memory])
            yield f"{letter}{name}", apart(memory, packed(wanted, fill))
            continue
        memory = a.copy(order="F")
        blas(f"cublas{letter}{name}_v2", fill, n, scalar, x, 1, *second, memory, n, changed=[memory])
        yield f"{letter}{name}", apart(triangle(memory, fill), wanted)
        yield f"{letter}{name}", apart(memory - triangle(memory, fill), a - triangle(a, fill))


def level3(blas: Cublas) -> Found:
    for letter, kind in LETTERS.items():
        for fill, operation in itertools.product((0, 1), (0, 1, 2)):
            yield from ranks(blas, letter, kind, fill, operation)
        for side, fill, operation, unit in itertools.product((0, 1), (0, 1), (0, 1, 2), (0, 1)):
            yield from sides(blas, letter, kind, side, fill, operation, unit)
        yield from elementwise(blas, letter, kind)


def ranks(blas: Cublas, letter: str, kind: str, fill: int, operation: int) -> Found:
    n, k = 6, 4
    alpha, beta = Value(0.5 + 1j, kind), Value(-1.25 + 0.5j, kind)
    real, real_beta = Value(0.75, REAL[letter]), Value(-1.25, REAL[letter])
    shape = (n, k) if operation == 0 else (k, n)
    a, b, c = random(kind, *shape), random(kind, *shape), random(kind, n, n)
    x, y = operated(a, operation), operated(b, operation)
    lead = shape[0]
    al, be, by = alpha.array[0], beta.array[0], real_beta.array[0]
    calls: dict[str, tuple[Value, tuple[object, ...], Value, np.ndarray]] = {}
    if operation != 2:
        calls["syrk_v2"] = (alpha, (a, lead), beta, al * x @ x.T + be * c)
        calls["syr2k_v2"] = (alpha, (a, lead, b, lead), beta, al * (x @ y.T + y @ x.T) + be * c)
        calls["syrkx"] = (alpha, (a, lead, b, lead), beta, al * x @ y.T + be * c)
    if letter in "CZ" and operation != 1:
        hermitian = c - 1j * np.diag(c.diagonal().imag)
        mixed = al * x @ y.conj().T
        calls["herk_v2"] = (real, (a, lead), real_beta, real.array[0] * x @ x.conj().T + by * hermitian)
        calls["her2k_v2"] = (alpha, (a, lead, b, lead), real_beta, mixed + mixed.conj().T + by * hermitian)
        square = real.array[0] * x @ x.conj().T + by * hermitian
        calls["herkx"] = (Value(real.array[0], kind), (a, lead, a, lead), real_beta, square)
    for name, (first, operands, second, wanted) in calls.items():
        memory = c.copy(order="F")
        blas(
            f"cublas{letter}{name}",
            fill,
            operation,
            n,
            k,
            first,
            *operands,
            second,
            memory,
            n,
            changed=[memory],
        )
        yield f"{letter}{name}", apart(triangle(memory, fill), triangle(wanted, fill))


def sides(blas: Cublas, letter: str, kind: str, side: int, fill: int, operation: int, unit: int) -> Found:
    m, n = 5, 3
    order = n if side else m
    alpha, beta = Value(0.5 + 1j, kind), Value(-1.25, kind)
    a = random(kind, order, order) * 0.2 + np.asfortranarray(2 * np.eye(order).astype(kind))
    b, c = random(kind, m, n), random(kind, m, n)

    def beside(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return y @ x if side else x @ y

    matrix = operated(triangle(a, fill, unit), operation)
    shape, memory = (side, fill, operation, unit), c.copy(order="F")
    blas(f"cublas{letter}trmm_v2", *shape, m, n, alpha, a, order, b, m, memory, m, changed=[memory])
    yield f"{letter}trmm", apart(memory, alpha.array[0] * beside(matrix, b))
    memory = b.copy(order="F")
    blas(f"cublas{letter}trsm_v2", *shape, m, n, alpha, a, order, memory, m, changed=[memory])
    yield f"{letter}trsm", apart(memory, alpha.array[0] * beside(np.linalg.inv(matrix), b))
    if operation or unit:
        return
    for name in ("symm", "hemm") if letter in "CZ" else ("symm",):
        memory, whole = c.copy(order="F"), mirrored(a, fill, name == "hemm")
        blas(
            *(f"cublas{letter}{name}_v2", side, fill, m, n, alpha, a, order, b, m, beta, memory, m),
            changed=[memory],
        )
        yield f"{letter}{name}", apart(memory, alpha.array[0] * beside(whole, b) + beta.array[0] * c)


def elementwise(blas: Cublas, letter: str, kind: str) -> Found:
    m, n = 5, 3
    alpha, beta = Value(0.5 + 1j, kind), Value(-1.25, kind)
    for op_a, op_b in itertools.product((0, 1, 2), (0, 1, 2)):
        a, b = (random(kind, *((m, n) if op == 0 else (n, m))) for op in (op_a, op_b))
        c = random(kind, m, n)
        blas(
            *(f"cublas{letter}geam", op_a, op_b, m, n, alpha, a, len(a), beta, b, len(b), c, m),
            changed=[c],
        )
        yield (
            f"{letter}geam",
            apart(c, alpha.array[0] * operated(a, op_a) + beta.array[0] * operated(b, op_b)),
        )
    for side in (0, 1):
        a, x, c = random(kind, m, n), random(kind, n if side else m), random(kind, m, n)
        blas(f"cublas{letter}dgmm", side, m, n, a, m, x, 1, c, m, changed=[c])
        yield f"{letter}dgmm", apart(c, a * x if side else (a.T * x).T)
    for fill in (0, 1):
        a = random(kind, n, n)
        flat, back = np.zeros(n * (n + 1) // 2, kind), np.zeros((n, n), kind, order="F")
        blas(f"cublas{letter}trttp", fill, n, a, n, flat, changed=[flat])
        blas(f"cublas{letter}tpttr", fill, n, flat, back, n, changed=[back])
        yield f"{letter}trttp", apart(flat, packed(a, fill))
        yield f"{letter}tpttr", apart(back, triangle(a, fill))
