"""cuSPARSE's older functions as programs call them: ``sparse_older.py GROUP LIBRARY`` prints as JSON how far
each is from what it is to be, by function and what is special about it."""

from __future__ import annotations

import ctypes
import itertools
import json
import sys

import numpy as np

from tests.libraries.on_device import LETTERS, OnDevice, apart, operated, random, start
from tests.libraries.sparse import Held, Sparse, some
from tests.libraries.sparse_results import Found, scalar, wide

N, SIZE = 8, 2
ZERO_PIVOT = 9


def described(lib: Sparse, base: int, fill: int = 0, unit: int = 0) -> ctypes.c_void_p:
    made = lib.make("CreateMatDescr")
    for name, value in {"IndexBase": base, "FillMode": fill, "DiagType": unit, "Type": 0}.items():
        assert getattr(lib.library, f"cusparseSetMat{name}")(made, value) == 0
    return made


def parts(held: Held) -> tuple[OnDevice, OnDevice, OnDevice]:
    """In the order in which the older functions take them."""
    offsets, indices, values = held.arrays
    return values, offsets, indices


def blocks(lib: Sparse) -> Found:
    """Products."""
    for (letter, kind), direction, base in itertools.product(LETTERS.items(), range(2), range(2)):
        a, b = some(kind, N, 12), random(kind, 12, 5)
        alpha, beta = scalar(2 - 1j, kind), scalar(0.5j, kind)
        said = f"{kind} {direction} {base}"
        made = described(lib, base)
        square = lib.sparse(a, ("square by rows", "square by columns")[direction], "int32", base)
        count = len(square.arrays[1].array)
        x, y = random(kind, 12), random(kind, N)
        on_x, on_y = OnDevice(x), OnDevice(y)
        sizes = (direction, 0, N // SIZE, 12 // SIZE, count)
        lib(f"{letter}bsrmv", *sizes, alpha, made, *parts(square), SIZE, on_x, beta, on_y)
        yield f"bsrmv {said}", apart(on_y.get(), alpha[0] * (wide(a) @ wide(x)) + beta[0] * y)
        for op_b in range(2):
            right = np.asfortranarray(b.T if op_b else b)
            c = random(kind, N, 5)
            on_b, on_c = OnDevice(right), OnDevice(c)
            sizes = (direction, 0, op_b, N // SIZE, 5, 12 // SIZE, count)
            given = (made, *parts(square), SIZE, on_b, right.shape[0], beta, on_c, N)
            lib(f"{letter}bsrmm", *sizes, alpha, *given)
            wanted = alpha[0] * (wide(a) @ wide(b)) + beta[0] * wide(c)
            yield f"bsrmm {said} {op_b}", apart(on_c.get(), wanted)


def systems(lib: Sparse) -> Found:
    for (letter, kind), direction, op in itertools.product(LETTERS.items(), range(2), range(3)):
        for fill, unit in itertools.product(range(2), repeat=2):
            a = some(kind, N, N) + 4 * np.eye(N, dtype=kind)
            held = lib.sparse(a, ("square by rows", "square by columns")[direction], "int32", fill)
            count, made = len(held.arrays[1].array), described(lib, fill, fill, unit)
            part = np.tril(a) if fill == 0 else np.triu(a)
            if unit:
                part = part - np.diag(np.diag(part)) + np.eye(N)
            left, alpha = operated(wide(part), op), scalar(2 - 1j, kind)
            said = f"{kind} {direction} {op} {fill} {unit}"
            f, x, room = random(kind, N), OnDevice(np.zeros(N, kind)), ctypes.c_int()
            info = lib.make("CreateBsrsv2Info")
            sizes, of = (direction, op, N // SIZE, count), (made, *parts(held), SIZE, info)
            lib(f"{letter}bsrsv2_bufferSize", *sizes, *of, ctypes.byref(room))
            lib(f"{letter}bsrsv2_analysis", *sizes, *of, 0, lib.room)
            lib(f"{letter}bsrsv2_solve", *sizes, alpha, *of, OnDevice(f), x, 0, lib.room)
            yield f"bsrsv2 {said}", apart(left @ x.get(), alpha[0] * f)
            position = ctypes.c_int()
            lib("Xbsrsv2_zeroPivot", info, ctypes.byref(position))
            assert position.value == -1
            for transposed in range(2):
                b, info = random(kind, N, 3), lib.make("CreateBsrsm2Info")
                given = np.asfortranarray(b.T if transposed else b)
                solution = OnDevice(np.zeros_like(given))
                sizes, of = (direction, op, transposed, N // SIZE, 3, count), (made, *parts(held), SIZE, info)
                lib(f"{letter}bsrsm2_bufferSize", *sizes, *of, ctypes.byref(room))
                lib(f"{letter}bsrsm2_analysis", *sizes, *of, 0, lib.room)
                lead = given.shape[0]
                sides = (OnDevice(given), lead, solution, lead, 0, lib.room)
                lib(f"{letter}bsrsm2_solve", *sizes, alpha, *of, *sides)
                found = solution.get().T if transposed else solution.get()
                yield f"bsrsm2 {said} {transposed}", apart(left @ wide(found), alpha[0] * b)
    a[5, 5] = 0
    held = lib.sparse(a, "square by rows")
    made, info = described(lib, 0, 0, 0), lib.make("CreateBsrsv2Info")
    sizes = (0, 0, N // SIZE, len(held.arrays[1].array))
    lib(f"{letter}bsrsv2_analysis", *sizes, made, *parts(held), SIZE, info, 0, lib.room)
    assert lib.status("Xbsrsv2_zeroPivot", info, ctypes.byref(position)) == ZERO_PIVOT
    yield "zeroPivot", abs(position.value - 5 // SIZE)


def sums(lib: Sparse) -> Found:
    for (letter, kind), base in itertools.product(LETTERS.items(), range(2)):
        a, b = some(kind, 7, 9), some(kind, 7, 9)
        first, second = (lib.sparse(each, "csr", "int32", base) for each in (a, b))
        made, size, count = described(lib, base), ctypes.c_size_t(), ctypes.c_int()
        offsets, alpha, beta = OnDevice(np.zeros(8, "int32")), scalar(2 - 1j, kind), scalar(1 + 3j, kind)
        counts = [len(each.arrays[1].array) for each in (first, second)]
        pattern = [(made, n, *each.arrays[:2]) for n, each in zip(counts, (first, second), strict=True)]
        lib("Xcsrgeam2Nnz", 7, 9, *pattern[0], *pattern[1], made, offsets, ctypes.byref(count), lib.room)
        assert count.value == np.count_nonzero((a != 0) | (b != 0))
        indices, values = OnDevice(np.zeros(count.value, "int32")), OnDevice(np.zeros(count.value, kind))
        given = (alpha, made, counts[0], *parts(first), beta, made, counts[1], *parts(second), made)
        given = (7, 9, *given, values, offsets, indices)
        lib(f"{letter}csrgeam2_bufferSizeExt", *given, ctypes.byref(size))
        lib(f"{letter}csrgeam2", *given, lib.room)
        found, ends = np.zeros((7, 9), "complex128"), offsets.get() - base
        for row, (begin, end) in enumerate(itertools.pairwise(ends)):
            found[row, indices.get()[begin:end] - base] = values.get()[begin:end]
        yield f"csrgeam2 {kind} {base}", apart(found, alpha[0] * wide(a) + beta[0] * wide(b))


def orders(lib: Sparse) -> Found:
    """Of entries, by row, by column, and within rows."""
    generator = np.random.default_rng(2)
    for base in range(2):
        rows, columns = np.nonzero(some("float32", 9, 11))
        count = len(rows)
        on_rows, offsets = OnDevice((rows + base).astype("int32")), OnDevice(np.zeros(10, "int32"))
        lib("Xcoo2csr", on_rows, count, 9, offsets, base)
        wanted = np.searchsorted(rows, np.arange(10)) + base
        yield f"coo2csr {base}", apart(offsets.get(), wanted)
        back = OnDevice(np.zeros(count, "int32"))
        lib("Xcsr2coo", offsets, count, 9, back, base)
        yield f"csr2coo {base}", apart(back.get(), rows + base)
        order = generator.permutation(count)
        for name, keys in {"ByRow": (columns, rows), "ByColumn": (rows, columns)}.items():
            mixed = [OnDevice((each[order] + base).astype("int32")) for each in (rows, columns)]
            along, size = OnDevice(np.zeros(count, "int32")), ctypes.c_size_t()
            lib("CreateIdentityPermutation", count, along)
            lib("Xcoosort_bufferSizeExt", 9, 11, count, *mixed, ctypes.byref(size))
            lib(f"Xcoosort{name}", 9, 11, count, *mixed, along, lib.room)
            sorted_ = np.lexsort([each[order] for each in keys])
            yield f"coosort{name} {base}", apart(along.get(), sorted_)
            yield f"coosort{name} rows {base}", apart(mixed[0].get(), rows[order][sorted_] + base)
        within = np.lexsort([generator.random(count), rows])
        indices, along = OnDevice((columns[within] + base).astype("int32")), OnDevice(within.astype("int32"))
        made = described(lib, base)
        lib("Xcsrsort_bufferSizeExt", 9, 11, count, offsets, indices, ctypes.byref(size))
        lib("Xcsrsort", 9, 11, count, made, offsets, indices, along, lib.room)
        yield f"csrsort {base}", apart(indices.get(), columns + base)
        yield f"csrsort along {base}", apart(along.get(), np.arange(count))


def tridiagonal(lib: Sparse) -> Found:
    size = ctypes.c_size_t()
    for letter, kind in LETTERS.items():
        for m, n in ((3, 1), (17, 4)):
            below, on, above = (random(kind, m) for _ in range(3))
            on[m // 2] = 0  # which wants an exchange of rows
            a = np.diag(wide(on)) + np.diag(wide(below[1:]), -1) + np.diag(wide(above[:-1]), 1)
            given, b = tuple(map(OnDevice, (below, on, above))), random(kind, m + 2, n)
            for name in ("gtsv2", "gtsv2_nopivot"):
                changed = OnDevice(b)
                lib(f"{letter}{name}_bufferSizeExt", m, n, *given, changed, m + 2, ctypes.byref(size))
                lib(f"{letter}{name}", m, n, *given, changed, m + 2, lib.room)
                assert (changed.get()[m:] == b[m:]).all()
                yield f"{letter}{name} {kind} {m}", apart(a @ wide(changed.get()[:m]), b[:m])
        m, batch, apart_ = 9, 3, 11
        diagonals = [random(kind, batch, apart_).copy(order="C") for _ in range(3)]
        diagonals[1] += 4
        x, given = random(kind, batch, apart_).copy(order="C"), tuple(map(OnDevice, diagonals))
        changed = OnDevice(x)
        lib(f"{letter}gtsv2StridedBatch_bufferSizeExt", m, *given, changed, batch, apart_, ctypes.byref(size))
        lib(f"{letter}gtsv2StridedBatch", m, *given, changed, batch, apart_, lib.room)
        found = changed.get()
        assert (found[:, m:] == x[:, m:]).all()
        for i in range(batch):
            below, on, above = (wide(each[i, :m]) for each in diagonals)
            a = np.diag(on) + np.diag(below[1:], -1) + np.diag(above[:-1], 1)
            yield f"{letter}gtsv2StridedBatch {kind} {i}", apart(a @ wide(found[i, :m]), x[i, :m])


if __name__ == "__main__":
    group, path = sys.argv[1:]
    start()
    print(json.dumps(dict(globals()[group](Sparse(path)))))
