"""How cuBLAS behaves beside its results: ``cublas_behaviour.py WHAT LIBRARY`` prints that as JSON."""

from __future__ import annotations

import ctypes
import json
import sys
import threading

import numpy as np
from cuda.bindings import driver

from tests.libraries.on_device import Cublas, OnDevice, Result, Value, batch_of, pointer, random, start

what, path = sys.argv[1:]
start()
blas = Cublas(path)
HOST, DEVICE = 0, 1


def address(value: Value) -> ctypes.c_void_p:
    return value.pointer()


def misfits() -> dict[str, int]:
    """Each argument that does not go together with the others, one at a time."""
    buffer, one = OnDevice(np.zeros(64, "float32")), Value(1, "float32")
    at = pointer(buffer)
    good: list[object] = [0, 0, 4, 4, 4, address(one), at, 4, at, 4, address(one), at, 4]
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
        said[name] = blas.status("cublasSgemm_v2", *good[:place], value, *good[place + 1 :])
    long = ctypes.c_longlong
    strided = [0, 0, 2, 2, 2, address(one), at, 2, long(4), at, 2, long(4), address(one), at, 2]
    said["stride"] = blas.status("cublasSgemmStridedBatched", *strided, long(-4), 2)
    said["batch"] = blas.status("cublasSgemmStridedBatched", *strided, long(4), -2)
    assert blas.status("cublasSgemmStridedBatched", *strided, long(4), 0) == 0
    said["step"] = blas.status("cublasSscal_v2", 4, address(one), at, 0)
    said["fill"] = blas.status("cublasSsyrk_v2", 5, 0, 2, 2, address(one), at, 2, address(one), at, 2)
    # A symmetric product is not conjugated, and a Hermitian one not transposed alone.
    pair, real = Value(1, "complex64"), address(one)
    rank = (0, 2, 2, 2, address(pair), at, 2)
    said["conjugated"] = blas.status("cublasCsyrk_v2", *rank, address(pair), at, 2)
    said["conjugated, two"] = blas.status("cublasCsyr2k_v2", *rank, at, 2, address(pair), at, 2)
    said["transposed"] = blas.status("cublasCherk_v2", 0, 1, 2, 2, real, at, 2, real, at, 2)
    assert blas.status("cublasSsyrk_v2", 0, 2, 2, 2, real, at, 2, address(Value(0, "float32")), at, 2) == 0
    assert not buffer.get().any()
    return said


def unsupported() -> dict[str, int]:
    buffer, one = OnDevice(np.zeros(64, "float32")), Value(1, "float32")
    at = pointer(buffer)
    given = [0, 0, 2, 2, 2, address(one)]
    return {
        "types": blas.status("cublasGemmEx", *given, at, 28, 2, at, 28, 2, address(one), at, 28, 2, 68, -1),
        "complex times real": blas.status("cublasScalEx", 4, address(Value(1j, "complex64")), 4, at, 0, 1, 0),
        "arrays": blas.status("cublasSgemmBatched", *given, at, 2, at, 2, address(one), at, 2, (1 << 20) + 1),
    }


def outside() -> dict[str, int]:
    """A leading dimension that takes the product far beyond its operand."""
    small, one = OnDevice(np.zeros(16, "float32")), Value(1, "float32")
    at = pointer(small)
    status = blas.status(
        "cublasSgemm_v2", 0, 0, 4, 4, 4, address(one), at, 1 << 30, at, 4, address(one), at, 4
    )
    (error,) = driver.cuCtxSynchronize()
    return {"status": status, "after": int(error)}


def wrapping() -> dict[str, int]:
    """Sizes whose product is more than 64 bits hold."""
    small, one, long = OnDevice(np.zeros(16, "float32")), Value(1, "float32"), ctypes.c_longlong
    at, huge = pointer(small), 1 << 62
    status = blas.status(
        *("cublasSgemm_v2_64", 0, 0, long(4), long(huge), long(4), address(one), at, long(4), at, long(4)),
        *(address(one), at, long(4)),
    )
    (error,) = driver.cuCtxSynchronize()
    return {"status": status, "after": int(error)}


def misaligned() -> dict[str, int]:
    small, one = OnDevice(np.zeros(64, "float64")), Value(1, "float64")
    at = ctypes.c_void_p(int(small.address) + 4)
    status = blas.status("cublasDscal_v2", 4, address(one), at, 1)
    (error,) = driver.cuCtxSynchronize()
    return {"status": status, "after": int(error)}


def long_vectors() -> dict[str, int]:
    """Of more elements than OpenBLAS' own buffer has room for."""
    n = 2_000_000
    diagonal, x = OnDevice(np.ones(n)), OnDevice(np.ones(n))
    status = blas.status("cublasDtbmv_v2", 0, 0, 0, n, 0, pointer(diagonal), 1, pointer(x), 1)
    (error,) = driver.cuCtxSynchronize()
    return {"status": status, "after": int(error)}


def endless_rotation() -> dict[str, int]:
    """Of which OpenBLAS' scaling has no end."""
    assert blas.library.cublasSetPointerMode_v2(blas.handle, DEVICE) == 0
    places = [OnDevice(np.full(5, np.inf, "float32")) for _ in range(5)]
    status = blas.status("cublasSrotmg_v2", *map(pointer, places))
    (error,) = driver.cuCtxSynchronize()
    return {"status": status, "after": int(error)}


def new_life() -> dict[str, bool]:
    """A result goes through memory of the handle's, which a slice that was given back has no more: not
    through what lies at its address by now."""
    result = Result("float32")

    def dot() -> bool:
        x = OnDevice(np.full(8, 3, "float32"))
        others = [OnDevice(np.full(256, 7, "uint8")) for _ in range(40)]
        given = (8, pointer(x), 1, pointer(x), 1, result.pointer())
        right = blas.status("cublasSdot_v2", *given) == 0 and result.array[0] == 72
        return bool(right and all((other.get() == 7).all() for other in others))

    x = OnDevice(np.ones(8, "float32"))
    before = blas.status("cublasSdot_v2", 8, pointer(x), 1, pointer(x), 1, result.pointer()) == 0
    del x
    assert ctypes.CDLL("libcuda.so.1").gkNewLife() == 0
    start()
    return {"before": before, "after": dot()}


def foreign_matrix() -> dict[str, int]:
    """An array of addresses, one of which is this process's own memory and no device's."""
    own, one = np.zeros(16, "float32"), Value(1, "float32")
    each, _ = batch_of([np.zeros((4, 4), "float32") for _ in range(3)])
    addresses = OnDevice(np.array([int(each[0].address), own.ctypes.data, int(each[2].address)], "uint64"))
    at = pointer(addresses)
    status = blas.status(
        "cublasSgemmBatched", 0, 0, 4, 4, 4, address(one), at, 4, at, 4, address(one), at, 4, 3
    )
    (error,) = driver.cuCtxSynchronize()
    return {"status": status, "after": int(error)}


def wrong_pivots() -> dict[str, int]:
    each, array = batch_of([np.asfortranarray(np.eye(4, dtype="float32"))])
    right, sides = batch_of([np.zeros((4, 1), "float32")])
    pivots, code = OnDevice(np.array([1, 2, 1 << 30, 4], "int32")), ctypes.c_int()
    status = blas.status(
        *("cublasSgetrsBatched", 0, 4, 1, pointer(array), 4, pointer(pivots), pointer(sides), 4),
        *(ctypes.byref(code), 1),
    )
    (error,) = driver.cuCtxSynchronize()
    assert each
    assert right
    return {"status": status, "after": int(error)}


def nothing_spreads() -> dict[str, bool]:
    """What is not looked at may hold anything, and need not be there."""
    nan = np.full((4, 4), np.nan, "float32", order="F")
    ones = np.asfortranarray(np.ones((4, 4), "float32"))
    one, zero = Value(1, "float32"), Value(0, "float32")
    found = {}

    def keeps(name: str, function: str, *arguments: object, result: np.ndarray) -> None:
        blas(function, *arguments, changed=[result])
        found[name] = bool(np.isfinite(result).all())

    shape = (0, 0, 4, 4, 4)
    for name, (alpha, beta, a, c) in {
        "gemm beta": (one, zero, ones, nan),
        "gemm alpha": (zero, one, nan, ones),
        "gemm both": (zero, zero, nan, nan),
        "gemm alpha, nothing there": (zero, one, None, ones),
    }.items():
        c = c.copy(order="F")
        keeps(name, "cublasSgemm_v2", *shape, alpha, a, 4, a, 4, beta, c, 4, result=c)
    for op in (0, 1):
        vector, x = np.full(4, np.nan, "float32"), np.ones(4, "float32")
        shape_of = (op, 4, 4, one, ones, 4, x, 1, zero)
        keeps(f"gemv beta {op}", "cublasSgemv_v2", *shape_of, vector, 1, result=vector)
        vector = np.ones(4, "float32")
        keeps("gemv alpha", "cublasSgemv_v2", op, 4, 4, zero, None, 4, None, 1, one, vector, 1, result=vector)
    for side in (0, 1):
        c = nan.copy(order="F")
        keeps(
            f"symm beta {side}", "cublasSsymm_v2", side, 0, 4, 4, one, ones, 4, ones, 4, zero, c, 4, result=c
        )
        b = nan.copy(order="F")
        keeps(f"trsm alpha {side}", "cublasStrsm_v2", side, 0, 0, 0, 4, 4, zero, None, 4, b, 4, result=b)
        c = nan.copy(order="F")
        keeps(
            f"trmm alpha {side}",
            "cublasStrmm_v2",
            side,
            0,
            0,
            0,
            4,
            4,
            zero,
            None,
            4,
            None,
            4,
            c,
            4,
            result=c,
        )
    for fill in (0, 1):
        c = np.asfortranarray(
            np.where(np.tri(4, dtype=bool) if fill == 0 else np.tri(4, dtype=bool).T, np.nan, 1)
        )
        c = np.asfortranarray(c.astype("float32"))
        keeps(f"syrk beta {fill}", "cublasSsyrk_v2", fill, 0, 4, 4, one, ones, 4, zero, c, 4, result=c)
        part = np.tri(4, dtype=bool) if fill == 0 else np.tri(4, dtype=bool).T
        c = np.asfortranarray(np.where(part, np.nan, 1).astype("float32"))
        both = (fill, 0, 4, 4, one, ones, 4, ones, 4, zero)
        keeps(f"syrkx beta {fill}", "cublasSsyrkx", *both, c, 4, result=c)
        c = ones.copy(order="F")
        keeps("syrk alpha", "cublasSsyrk_v2", fill, 0, 4, 4, zero, None, 4, one, c, 4, result=c)
        c = ones.copy(order="F")
        keeps("syrkx alpha", "cublasSsyrkx", fill, 0, 4, 4, zero, None, 4, None, 4, one, c, 4, result=c)
    c = nan.copy(order="F")
    keeps("geam", "cublasSgeam", 0, 0, 4, 4, one, ones, 4, zero, None, 4, c, 4, result=c)
    half = np.full((4, 4), np.nan, "float16", order="F")
    ex = (0, 0, 4, 4, 4, one, np.asfortranarray(np.ones((4, 4), "float16")), 2, 4)
    right = np.asfortranarray(np.ones((4, 4), "float16"))
    keeps("half beta", "cublasGemmEx", *ex, right, 2, 4, zero, half, 2, 4, 68, -1, result=half)
    return found


def scalars_of_the_device() -> dict[str, float]:
    assert blas.library.cublasSetPointerMode_v2(blas.handle, DEVICE) == 0
    mode = ctypes.c_int(-1)
    assert blas.library.cublasGetPointerMode_v2(blas.handle, ctypes.byref(mode)) == 0
    assert mode.value == DEVICE
    a, b, c = (random("float64", 5, 5) for _ in range(3))
    alpha, beta = np.array([2.0]), np.array([-1.0])
    wanted = 2 * a @ b - c
    blas("cublasDgemm_v2", 0, 0, 5, 5, 5, alpha, a, 5, b, 5, beta, c, 5, changed=[c])
    x, y = random("float64", 30), random("float64", 30)
    dot, place, norm = np.zeros(1), np.zeros(1, "int32"), np.zeros(1)
    blas("cublasDdot_v2", 30, x, 1, y, 1, dot, changed=[dot])
    blas("cublasIdamax_v2", 30, x, 1, place, changed=[place])
    blas("cublasDnrm2_v2", 30, x, 1, norm, changed=[norm])
    return {
        "gemm": float(np.abs(c - wanted).max()),
        "dot": float(abs(dot[0] - x @ y)),
        "amax": float(abs(int(place[0]) - 1 - np.abs(x).argmax())),
        "nrm2": float(abs(norm[0] - np.linalg.norm(x))),
    }


def handles() -> dict[str, int]:
    """A handle that was destroyed, one that never was, and none."""
    other, one = ctypes.c_void_p(), Value(1, "float32")
    assert blas.library.cublasCreate_v2(ctypes.byref(other)) == 0
    assert blas.library.cublasDestroy_v2(other) == 0
    buffer = OnDevice(np.ones(4, "float32"))
    call = (4, address(one), pointer(buffer), 1)
    said = {
        "destroyed": blas.library.cublasSscal_v2(other, *call),
        "destroyed twice": blas.library.cublasDestroy_v2(other),
        "invented": blas.library.cublasSscal_v2(ctypes.c_void_p(buffer.array.ctypes.data), *call),
        "none": blas.library.cublasSscal_v2(None, *call),
        "of a stream": blas.library.cublasSetStream_v2(other, None),
    }
    assert blas.library.cublasSscal_v2(blas.handle, *call) == 0
    return said


def threads() -> dict[str, int]:
    """Ten at once, each with a stream; half of them share one handle."""
    _, context = driver.cuCtxGetCurrent()
    wrong: list[object] = []
    one, zero = Value(1, "float64"), Value(0, "float64")

    def work(number: int) -> None:
        driver.cuCtxSetCurrent(context)
        own = blas if number % 2 else Cublas(path)
        if own is not blas:
            _, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
            assert own.library.cublasSetStream_v2(own.handle, ctypes.c_void_p(int(stream))) == 0
        generator = np.random.default_rng(number)
        for _ in range(20):
            a, b = (np.asfortranarray(generator.normal(size=(9, 9))) for _ in range(2))
            c, dot = np.zeros((9, 9), order="F"), Result("float64")
            on = {name: OnDevice(each) for name, each in {"a": a, "b": b, "c": c}.items()}
            given = (0, 0, 9, 9, 9, address(one), pointer(on["a"]), 9, pointer(on["b"]), 9)
            status = own.status("cublasDgemm_v2", *given, address(zero), pointer(on["c"]), 9)
            other = own.status("cublasDdot_v2", 81, pointer(on["a"]), 1, pointer(on["b"]), 1, dot.pointer())
            driver.cuCtxSynchronize()
            near = np.allclose(on["c"].get(), a @ b) and np.isclose(dot.array[0], (a * b).sum())
            if status or other or not near:
                wrong.append((number, status, other, near))

    running = [threading.Thread(target=work, args=(i,)) for i in range(10)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return {"wrong": len(wrong)}


def captured() -> dict[str, int]:
    _, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    assert blas.library.cublasSetStream_v2(blas.handle, ctypes.c_void_p(int(stream))) == 0
    buffer, one = OnDevice(np.ones(4, "float32")), Value(2, "float32")
    driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    status = blas.status("cublasSscal_v2", 4, address(one), pointer(buffer), 1)
    error, _ = driver.cuStreamEndCapture(stream)
    again = blas.status("cublasSscal_v2", 4, address(one), pointer(buffer), 1)
    driver.cuStreamSynchronize(stream)
    return {"status": status, "end": int(error), "again": again, "value": int(buffer.get()[0])}


def order() -> dict[str, bool]:
    """Between other work of a stream, with nothing that waits."""
    _, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    assert blas.library.cublasSetStream_v2(blas.handle, ctypes.c_void_p(int(stream))) == 0
    n = 512
    a, c = OnDevice(np.zeros((n, n), "float32")), OnDevice(np.zeros((n, n), "float32"))
    one, zero = Value(1, "float32"), Value(0, "float32")
    two = int(np.float32(2).view("uint32"))
    out = np.zeros((n, n), "float32")
    for _ in range(5):
        driver.cuMemsetD32Async(a.address, two, n * n, stream)
        given = (0, 0, n, n, n, address(one), pointer(a), n, pointer(a), n, address(zero), pointer(c), n)
        assert blas.status("cublasSgemm_v2", *given) == 0
        driver.cuMemsetD32Async(a.address, 0, n * n, stream)
        driver.cuMemcpyDtoHAsync(out.ctypes.data, c.address, out.nbytes, stream)
        driver.cuStreamSynchronize(stream)
        if not (out == 4 * n).all():
            return {"right": False}
    return {"right": True}


def copies() -> dict[str, bool]:
    """cuBLAS' own copies of vectors and matrices."""
    a = random("float32", 5, 3)
    on = OnDevice(np.zeros((8, 3), "float32", order="F"))
    back = np.zeros((6, 3), "float32", order="F")
    library = blas.library
    assert library.cublasSetMatrix(5, 3, 4, ctypes.c_void_p(a.ctypes.data), 5, pointer(on), 8) == 0
    assert library.cublasGetMatrix(5, 3, 4, pointer(on), 8, ctypes.c_void_p(back.ctypes.data), 6) == 0
    vector, line = np.arange(12, dtype="float64"), np.zeros(12)
    place = OnDevice(np.zeros(12))
    assert library.cublasSetVector(6, 8, ctypes.c_void_p(vector.ctypes.data), 2, pointer(place), 1) == 0
    assert (
        library.cublasGetVectorAsync(6, 8, pointer(place), 1, ctypes.c_void_p(line.ctypes.data), 2, None) == 0
    )
    driver.cuCtxSynchronize()
    return {"matrix": bool((back[:5] == a).all()), "vector": bool((line[::2] == vector[::2]).all())}


print(json.dumps(globals()[what]()))
