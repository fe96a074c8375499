"""Calls cuBLAS as a program does: ``products.py WHAT LIBRARY`` prints what it found as JSON."""

from __future__ import annotations

import ctypes
import itertools
import json
import sys

import numpy as np
from cuda.bindings import driver

what, path = sys.argv[1:]
cublas = ctypes.CDLL(path)
handle = ctypes.c_void_p()
numbers = np.random.default_rng(11)
SCALARS = {"float64": ctypes.c_double, "float32": ctypes.c_float}
TYPES = {"float32": 0, "float64": 1, "float16": 2}
COMPUTES = {"float32": 68, "float64": 70, "float16": 68}


def start() -> None:
    driver.cuInit(0)
    _, device = driver.cuDeviceGet(0)
    _, context = driver.cuDevicePrimaryCtxRetain(device)
    driver.cuCtxPushCurrent(context)
    assert cublas.cublasCreate_v2(ctypes.byref(handle)) == 0


class OnDevice:
    """An array's bytes on the device."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = np.ascontiguousarray(array)
        error, self.address = driver.cuMemAlloc(max(self.array.nbytes, 1))
        assert error == 0, error
        driver.cuMemcpyHtoD(self.address, self.array.ctypes.data, self.array.nbytes)

    def pointer(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(int(self.address))

    def fetch(self) -> np.ndarray:
        out = np.empty_like(self.array)
        (error,) = driver.cuMemcpyDtoH(out.ctypes.data, self.address, out.nbytes)
        assert error == 0, error
        return out


def stored(layers: int, rows: int, columns: int, more: int, kind: str) -> np.ndarray:
    """``layers`` matrices by columns, with ``more`` rows that belong to none: as (layer, column, row)."""
    return numbers.normal(size=(layers, columns, rows + more)).astype(kind)


def seen(array: np.ndarray, rows: int, transposed: int) -> np.ndarray:
    matrix = array[:, :, :rows].swapaxes(1, 2).astype("float64")
    return matrix.swapaxes(1, 2) if transposed else matrix


def product(
    kind: str, shape: tuple[int, int, int], ops: tuple[int, int], more: int, batch: int, beta: float
) -> float:
    m, n, k = shape
    a_rows, b_rows = (k, m)[ops[0] == 0], (n, k)[ops[1] == 0]
    a = stored(batch, a_rows, m + k - a_rows, more, kind)
    b = stored(batch, b_rows, k + n - b_rows, more, kind)
    c = stored(batch, m, n, more, kind)
    wanted = c.astype("float64")
    wanted[:, :, :m] = (
        2 * seen(a, a_rows, ops[0]) @ seen(b, b_rows, ops[1]) + beta * seen(c, m, 0)
    ).swapaxes(1, 2)
    on = [OnDevice(each) for each in (a, b, c)]
    scalar = SCALARS.get(kind, ctypes.c_float)
    alpha, beta_ = scalar(2), scalar(beta)
    operands = [
        (each.pointer(), TYPES[kind], max(1, each.array.shape[2]), ctypes.c_longlong(each.array[0].size))
        for each in on
    ]
    status = cublas.cublasGemmStridedBatchedEx(
        *(handle, *ops, m, n, k, ctypes.byref(alpha), *operands[0], *operands[1]),
        *(ctypes.byref(beta_), *operands[2], batch, COMPUTES[kind], -1),
    )
    assert status == 0, (status, kind, shape, ops)
    found = on[2].fetch().astype("float64")
    for each in on:
        driver.cuMemFree(each.address)
    return float(np.abs(found - wanted).max(initial=0) / max(1, np.abs(wanted).max(initial=0)))


def plain(name: str, kind: str) -> float:
    """The forms with a type in their name, and a matrix with a vector walked in steps of 2 and -1."""
    scalar = SCALARS[kind]
    a, b, c = (stored(1, *shape, 0, kind) for shape in ((5, 4), (4, 3), (5, 3)))
    on = [OnDevice(each) for each in (a, b, c)]
    one, zero = scalar(1), scalar(0)
    pointers = [each.pointer() for each in on]
    if name.endswith("gemm_v2"):
        arguments = (
            0,
            0,
            5,
            3,
            4,
            ctypes.byref(one),
            pointers[0],
            5,
            pointers[1],
            4,
            ctypes.byref(zero),
            pointers[2],
            5,
        )
        assert getattr(cublas, name)(handle, *arguments) == 0
        return float(np.abs(seen(on[2].fetch(), 5, 0) - seen(a, 5, 0) @ seen(b, 4, 0)).max())
    arguments = (
        0,
        5,
        4,
        ctypes.byref(one),
        pointers[0],
        5,
        pointers[1],
        2,
        ctypes.byref(zero),
        pointers[2],
        -1,
    )
    assert getattr(cublas, name)(handle, *arguments) == 0
    y = on[2].fetch().ravel()[:5][::-1].astype("float64")
    return float(np.abs(y - seen(a, 5, 0)[0] @ b.ravel()[:8:2].astype("float64")).max())


def products() -> dict[str, float]:
    worst = dict.fromkeys(TYPES, 0.0)
    shapes = [(1, 1, 1), (5, 3, 7), (17, 1, 2), (1, 33, 4), (12, 9, 0)]
    cases = list(itertools.product(TYPES, shapes, itertools.product((0, 1), (0, 1)), (0, 3), (1, 4)))
    for kind, shape, ops, more, batch in cases:
        worst[kind] = max(worst[kind], product(kind, shape, ops, more, batch, (0.0, 0.5)[more == 0]))
    for letter, kind in (("S", "float32"), ("D", "float64")):
        for form in ("gemm", "gemv"):
            worst[kind] = max(worst[kind], plain(f"cublas{letter}{form}_v2", kind))
    return {**worst, "cases": len(cases)}


def misfits() -> dict[str, int]:
    buffer = OnDevice(np.zeros(64, "float32"))
    at, one = buffer.pointer(), ctypes.c_float(1)
    good = [0, 0, 4, 4, 4, ctypes.byref(one), at, 4, at, 4, ctypes.byref(one), at, 4]
    bad = {
        "operation": (0, 3),
        "m": (2, -1),
        "k": (4, -4),
        "lda": (7, 3),
        "ldb": (9, 0),
        "ldc": (12, -4),
        "alpha": (5, None),
    }
    said = {}
    for name, (place, value) in bad.items():
        said[name] = cublas.cublasSgemm_v2(handle, *good[:place], value, *good[place + 1 :])
    assert not buffer.fetch().any()
    return said


def outside() -> dict[str, int]:
    """A leading dimension that takes the product far beyond its operand."""
    small, one = OnDevice(np.zeros(16, "float32")), ctypes.c_float(1)
    at = small.pointer()
    cublas.cublasSgemm_v2(
        handle, 0, 0, 4, 4, 4, ctypes.byref(one), at, 1 << 30, at, 4, ctypes.byref(one), at, 4
    )
    (error,) = driver.cuCtxSynchronize()
    return {"after": int(error)}


start()
print(json.dumps({"products": products, "misfits": misfits, "outside": outside}[what]()))
