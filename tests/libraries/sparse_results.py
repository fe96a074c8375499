"""cuSPARSE's functions as programs call them: ``sparse_results.py GROUP LIBRARY`` prints as JSON how
far each is from what it is to be, by function and what is special about it."""

from __future__ import annotations

import ctypes
import itertools
import json
import sys
from collections.abc import Iterator

import numpy as np

from tests.libraries.on_device import OnDevice, apart, operated, random, start
from tests.libraries.sparse import (
    BY_COLUMNS,
    BY_ROWS,
    DEVICE,
    HOST,
    INDEX_TYPES,
    TYPES,
    Held,
    Sparse,
    lines_of,
    long,
    some,
)

Found = Iterator[tuple[str, float]]
FOUR = ("float32", "float64", "complex64", "complex128")
FORMATS = ("csr", "csc", "coo", "bsr by rows", "bsr by columns")
INDICES = tuple(itertools.product(INDEX_TYPES, (0, 1)))
COMPUTED_IN = {"float16": "float32"}


def scalar(value: complex, kind: str) -> np.ndarray:
    kind = COMPUTED_IN.get(kind, kind)
    return np.array([value if kind.startswith("complex") else np.real(value)], kind)


def computed(kind: str) -> int:
    return TYPES[COMPUTED_IN.get(kind, kind)]


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype("complex128")


def vectors(lib: Sparse) -> Found:
    """Sparse ones with dense ones."""
    for kind, (index, base) in zip((*FOUR, "float16"), itertools.cycle(INDICES), strict=False):
        sparse, full = some(kind, 1, 30)[0], random(kind, 30)
        x, y = lib.entries(sparse, index, base), lib.vector(full)
        said = f"{kind} {index} {base}"
        result = np.zeros(1, COMPUTED_IN.get(kind, kind))
        lib.sized("SpVV", 2, x, y, result, computed(kind))
        yield f"SpVV {said}", apart(result[0], np.sum(np.conj(wide(sparse)) * wide(full)))
        lib("Gather", y, x)
        yield f"Gather {said}", apart(x.values.get(), full[np.flatnonzero(sparse)])
        x = lib.entries(sparse, index, base)
        alpha, beta = scalar(2 - 1j, kind), scalar(0.5 + 1j, kind)
        lib("Axpby", alpha, x, beta, y)
        wanted = alpha[0] * sparse + beta[0] * full
        yield f"Axpby {said}", apart(y.values.get(), wanted)
        y = lib.vector(full)
        lib("Scatter", x, y)
        yield f"Scatter {said}", apart(y.values.get(), np.where(sparse != 0, sparse, full))
        y, places = lib.vector(full), np.flatnonzero(sparse)
        c, s = scalar(0.6, kind), scalar(0.8, kind)
        lib("Rot", c, s, x, y)
        yield f"Rot x {said}", apart(x.values.get(), c[0] * sparse[places] + s[0] * full[places])
        rotated = full.copy()
        rotated[places] = c[0] * full[places] - s[0] * sparse[places]
        yield f"Rot y {said}", apart(y.values.get(), rotated)


def spmv(lib: Sparse) -> Found:
    for number, (how, kind, op) in enumerate(itertools.product(FORMATS, (*FOUR, "float16"), range(3))):
        index, base = INDICES[number % len(INDICES)]
        a = some(kind, 10, 9)
        x = random(kind, 9 if op == 0 else 10)
        y = random(kind, 10 if op == 0 else 9)
        alpha, beta = scalar(2 - 1j, kind), scalar(0.5j, kind)
        held, result = lib.sparse(a, how, index, base), lib.vector(y)
        lib.sized("SpMV", op, alpha, held, lib.vector(x), beta, result, computed(kind), 0)
        wanted = alpha[0] * (operated(wide(a), op) @ wide(x)) + beta[0] * wide(y)
        yield f"SpMV {how} {kind} {index} {base} {op}", apart(result.values.get(), wanted)


def integers(lib: Sparse) -> Found:
    """Small ones, whose sums are exact."""
    a, x = some("int8", 20, 30), random("float32", 30).astype("int8")
    for kind in ("int32", "float32"):
        y = lib.vector(np.full(20, 7, kind))
        alpha, beta = np.array([3], kind), np.array([2], kind)
        lib.sized("SpMV", 0, alpha, lib.sparse(a, "csr"), lib.vector(x), beta, y, TYPES[kind], 0)
        yield f"SpMV int8 {kind}", apart(y.values.get(), 3 * (a.astype(int) @ x.astype(int)) + 14)


def spmm(lib: Sparse) -> Found:
    orders = itertools.cycle(itertools.product((BY_COLUMNS, BY_ROWS), repeat=2))
    ops = tuple(itertools.product(range(3), repeat=2))
    for how, (op_a, op_b) in itertools.product(FORMATS, ops):
        for kind, (order_b, order_c) in zip((*FOUR, "float16"), orders, strict=False):
            a = some(kind, 8, 12)
            b = random(kind, *((a.shape[1 if op_a == 0 else 0], 5)[:: 1 if op_b == 0 else -1]))
            c = random(kind, a.shape[0 if op_a == 0 else 1], 5)
            alpha, beta = scalar(2 - 1j, kind), scalar(0.5j, kind)
            result = lib.dense(c, order_c, 2)
            given = (lib.sparse(a, how), lib.dense(b, order_b, 1), beta, result)
            lib.sized("SpMM", op_a, op_b, alpha, *given, computed(kind), 0)
            wanted = alpha[0] * (operated(wide(a), op_a) @ operated(wide(b), op_b)) + beta[0] * wide(c)
            yield (
                f"SpMM {how} {kind} {op_a} {op_b} {order_b} {order_c}",
                apart(lines_of(result, order_c, 2), wanted),
            )


def batches(lib: Sparse) -> Found:
    """Each with each, and one with all."""
    for kind, order in itertools.product(FOUR, (BY_COLUMNS, BY_ROWS)):
        one, many = some(kind, 6, 7), some(kind, 4, 6, 7)
        b_one, b_many, c = random(kind, 7, 3), random(kind, 4, 7, 3), np.zeros((4, 6, 3), kind)
        c = np.ascontiguousarray(c)
        for said, a, b in (("each", many, b_many), ("one A", one, b_many), ("one B", many, b_one)):
            held = lib.sparse(a, "csr")
            if a is many:  # values are apart, the pattern is the same
                stride = held.values.array.shape[1]
                offsets = held.arrays[0].array
                repeated = [
                    OnDevice(np.concatenate([offsets] * 4)),
                    OnDevice(np.concatenate([held.arrays[1].array] * 4)),
                    held.values,
                ]
                sizes = (long(6), long(7), long(stride))
                made = lib.make("CreateCsr", *sizes, *repeated, 2, 2, 0, TYPES[kind])
                assert lib.library.cusparseCsrSetStridedBatch(made, 4, long(offsets.size), long(stride)) == 0
                held = Held(made, repeated)
            result = lib.dense(c, order, 1)
            one_, zero = scalar(1, kind), scalar(0, kind)
            lib.sized("SpMM", 0, 0, one_, held, lib.dense(b, order), zero, result, TYPES[kind], 0)
            yield f"SpMM {said} {kind} {order}", apart(lines_of(result, order, 1), wide(a) @ wide(b))
        samples = lib.sparse(one, "csr")
        left, right = random(kind, 6, 5), random(kind, 5, 7)
        given = (lib.dense(left, order, 2), lib.dense(right, order))
        lib.sized("SDDMM", 0, 0, scalar(1, kind), *given, scalar(0, kind), samples, TYPES[kind], 0)
        rows, columns = np.nonzero(one)
        yield (
            f"SDDMM one {kind} {order}",
            apart(samples.values.get()[0], (wide(left) @ wide(right))[rows, columns]),
        )


def sddmm(lib: Sparse) -> Found:
    ops = tuple(itertools.product(range(2), repeat=2))
    cases = itertools.product(("csr", "csc", "coo", "bsr by rows"), FOUR, ops)
    for number, (how, kind, (op_a, op_b)) in enumerate(cases):
        index, base = INDICES[number % len(INDICES)]
        pattern = some(kind, 8, 9)
        a, b = random(kind, 8, 5), random(kind, 5, 9)
        alpha, beta = scalar(2 - 1j, kind), scalar(0.5j, kind)
        c = lib.sparse(pattern, how, index, base)
        given = (lib.dense(operated(a, op_a).copy()), lib.dense(operated(b, op_b).copy(), BY_ROWS))
        lib("SDDMM_preprocess", op_a, op_b, alpha, *given, beta, c, TYPES[kind], 0, lib.room)
        lib.sized("SDDMM", op_a, op_b, alpha, *given, beta, c, TYPES[kind], 0)
        dense = lib.dense(np.zeros_like(pattern))
        lib.sized("SparseToDense", c, dense, 0)
        where = (
            np.kron(pattern.reshape(4, 2, 3, 3).any(axis=(1, 3)), np.ones((2, 3)))
            if how[0] == "b"
            else pattern != 0
        )
        wanted = where * (alpha[0] * (wide(a) @ wide(b)) + beta[0] * wide(pattern))
        yield f"SDDMM {how} {kind} {op_a} {op_b} {index} {base}", apart(lines_of(dense, BY_COLUMNS), wanted)


def counted(lib: Sparse, held: Held) -> int:
    sizes = [ctypes.c_int64() for _ in range(3)]
    assert lib.library.cusparseSpMatGetSize(held.name, *map(ctypes.byref, sizes)) == 0
    return sizes[2].value


def empty(lib: Sparse, how: str, shape: tuple[int, int], index: str, base: int, kind: str) -> Held:
    """A matrix whose entries are not known yet."""
    count = shape[how == "csc"] + 1
    offsets = [OnDevice(np.zeros(count, index))] if how != "coo" else []
    kinds = [INDEX_TYPES[index]] * (1 if how == "coo" else 2)
    pointers = [*offsets, None, None] if offsets else [None] * 3
    name = lib.make(
        f"Create{how.capitalize()}",
        long(shape[0]),
        long(shape[1]),
        long(0),
        *pointers,
        *kinds,
        base,
        TYPES[kind],
    )
    return Held(name, offsets)


def give_room(lib: Sparse, held: Held, how: str, index: str, kind: str) -> None:
    """For as many entries as the library says."""
    count = counted(lib, held)
    held.arrays += [OnDevice(np.zeros(count, index)) for _ in range(2 if how == "coo" else 1)]
    held.arrays.append(OnDevice(np.zeros(count, kind)))
    set_pointers = getattr(lib.library, f"cusparse{how.capitalize()}SetPointers")
    assert set_pointers(held.name, *(ctypes.c_void_p(int(on.address)) for on in held.arrays)) == 0


def as_dense(lib: Sparse, held: Held, shape: tuple[int, int], kind: str) -> np.ndarray:
    dense = lib.dense(np.full(shape, 5, kind), BY_ROWS, 3)
    lib.sized("SparseToDense", held, dense, 0)
    return lines_of(dense, BY_ROWS, 3)


def spgemm(lib: Sparse) -> Found:
    for kind, (index, base) in itertools.product(FOUR, INDICES):
        a, b = some(kind, 9, 8), some(kind, 8, 11)
        c = empty(lib, "csr", (9, 11), index, base, kind)
        alpha, beta, steps = scalar(2 - 1j, kind), scalar(0, kind), lib.make("SpGEMM_createDescr")
        given = (0, 0, alpha, lib.sparse(a, "csr", index, base), lib.sparse(b, "csr", index, base))
        given = (*given, beta, c, TYPES[kind], 0, steps)
        size = ctypes.c_size_t()
        for step in ("workEstimation", "compute"):
            lib(f"SpGEMM_{step}", *given, ctypes.byref(size), None)
            lib(f"SpGEMM_{step}", *given, ctypes.byref(size), lib.room)
        assert counted(lib, c) == np.count_nonzero((a != 0).astype(int) @ (b != 0).astype(int))
        give_room(lib, c, "csr", index, kind)
        lib("SpGEMM_copy", *given)
        assert lib.library.cusparseSpGEMM_destroyDescr(steps) == 0
        columns = c.arrays[1].get() - base
        offsets = c.arrays[0].get() - base
        assert all((np.diff(columns[i:j]) > 0).all() for i, j in itertools.pairwise(offsets))
        yield (
            f"SpGEMM {kind} {index} {base}",
            apart(as_dense(lib, c, (9, 11), kind), alpha[0] * (wide(a) @ wide(b))),
        )


def conversions(lib: Sparse) -> Found:
    cases = itertools.product(("csr", "csc", "coo"), (*FOUR, "float16", "int8"))
    for number, (how, kind) in enumerate(cases):
        index, base = INDICES[number % len(INDICES)]
        a = some(kind, 7, 9)
        b = empty(lib, how, (7, 9), index, base, kind)
        given = (lib.dense(a, BY_ROWS if base else BY_COLUMNS, 1), b, 0)
        size = ctypes.c_size_t()
        lib("DenseToSparse_bufferSize", *given, ctypes.byref(size))
        lib("DenseToSparse_analysis", *given, lib.room)
        assert counted(lib, b) == np.count_nonzero(a), (how, kind, counted(lib, b), np.count_nonzero(a))
        give_room(lib, b, how, index, kind)
        lib("DenseToSparse_convert", *given, lib.room)
        yield f"DenseToSparse {how} {kind} {index} {base}", apart(as_dense(lib, b, (7, 9), kind), a)


def triangles(lib: Sparse) -> Found:
    for number, (how, kind, op) in enumerate(itertools.product(("csr", "csc", "coo"), FOUR, range(3))):
        index, base = INDICES[number % len(INDICES)]
        for fill, unit in itertools.product(range(2), repeat=2):
            a = some(kind, 9, 9) + 4 * np.eye(9, dtype=kind)
            held = lib.sparse(a, how, index, base)
            for attribute, value in enumerate((fill, unit)):
                chosen = ctypes.c_int(value)
                assert (
                    lib.library.cusparseSpMatSetAttribute(
                        held.name, attribute, ctypes.byref(chosen), ctypes.c_size_t(4)
                    )
                    == 0
                )
            part = np.tril(a) if fill == 0 else np.triu(a)
            if unit:
                part = part - np.diag(np.diag(part)) + np.eye(9)
            left, alpha = operated(wide(part), op), scalar(2 - 1j, kind)
            said = f"{how} {kind} {op} {index} {base} {fill} {unit}"
            x, y, steps = random(kind, 9), lib.vector(np.zeros(9, kind)), lib.make("SpSV_createDescr")
            given = (op, alpha, held, lib.vector(x), y, TYPES[kind], 0, steps)
            lib("SpSV_bufferSize", *given, ctypes.byref(ctypes.c_size_t()))
            lib("SpSV_analysis", *given, lib.room)
            lib("SpSV_solve", *given)
            yield f"SpSV {said}", apart(left @ y.values.get(), alpha[0] * x)
            op_b = 1 if unit else 0
            b, c = random(kind, 9, 3), lib.dense(np.zeros((9, 3), kind), BY_ROWS, 1)
            steps = lib.make("SpSM_createDescr")
            right = lib.dense(b.T.copy() if op_b else b, BY_COLUMNS if fill else BY_ROWS, 2)
            given = (op, op_b, alpha, held, right, c, TYPES[kind], 0, steps)
            lib("SpSM_bufferSize", *given, ctypes.byref(ctypes.c_size_t()))
            lib("SpSM_analysis", *given, lib.room)
            lib("SpSM_solve", *given)
            yield f"SpSM {said}", apart(left @ wide(lines_of(c, BY_ROWS, 1)), alpha[0] * b)


def on_the_device(lib: Sparse) -> Found:
    """Scalars and results where the pointer mode says."""
    kind = "complex128"
    a, x, y = some(kind, 12, 9), random(kind, 9), random(kind, 12)
    alpha, beta = scalar(2 - 1j, kind), scalar(0.5j, kind)
    lib("SetPointerMode", DEVICE)
    held, result = lib.sparse(a, "csr"), lib.vector(y)
    lib.sized("SpMV", 0, OnDevice(alpha), held, lib.vector(x), OnDevice(beta), result, TYPES[kind], 0)
    yield "SpMV", apart(result.values.get(), alpha[0] * (a @ x) + beta[0] * y)
    sparse, dot = some(kind, 1, 12)[0], OnDevice(np.zeros(1, kind))
    lib.sized("SpVV", 0, lib.entries(sparse), lib.vector(y), dot, TYPES[kind])
    yield "SpVV", apart(dot.get()[0], sparse @ y)
    lib("SetPointerMode", HOST)
    # With beta 0 what was there is not read, and with alpha 0 the product is not.
    result = lib.vector(np.full(12, np.nan, kind))
    lib.sized("SpMV", 0, alpha, held, lib.vector(x), scalar(0, kind), result, TYPES[kind], 0)
    yield "beta 0", apart(result.values.get(), alpha[0] * (a @ x))
    result, nothing = lib.vector(y), lib.vector(np.full(9, np.nan, kind))
    lib.sized("SpMV", 0, scalar(0, kind), held, nothing, beta, result, TYPES[kind], 0)
    yield "alpha 0", apart(result.values.get(), beta[0] * y)


def sizes(lib: Sparse) -> Found:
    """Large ones, and ones of nothing."""
    kind = "float32"
    for rows, columns in ((0, 5), (5, 0), (0, 0), (1, 1), (700, 900)):
        a = some(kind, rows, columns)
        for how, op in itertools.product(("csr", "csc", "coo"), range(2)):
            x = random(kind, rows if op else columns)
            y = random(kind, columns if op else rows)
            result = lib.vector(y)
            lib.sized(
                "SpMV", op, scalar(1, kind), lib.sparse(a, how), lib.vector(x), scalar(2, kind), result, 0, 0
            )
            wanted = operated(a, op) @ x + 2 * y
            yield f"SpMV {rows} {columns} {how} {op}", apart(result.values.get(), wanted)


if __name__ == "__main__":
    group, path = sys.argv[1:]
    start()
    print(json.dumps(dict(globals()[group](Sparse(path)))))
