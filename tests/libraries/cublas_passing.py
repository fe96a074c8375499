"""Calls cuBLAS with arguments of which no two are alike: prints as JSON what it passed, by function."""

from __future__ import annotations

import ctypes
import json
import sys

from cuda.bindings import driver

from tests.libraries.on_device import Cublas, OnDevice, Result, Value, start

start()
blas = Cublas(sys.argv[1])
long = ctypes.c_longlong


def memory() -> int:
    error, address = driver.cuMemAlloc(1 << 20)
    assert error == 0
    return int(address)


def at(address: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(address)


def call(name: str, *arguments: object) -> None:
    passed = [a.pointer() if isinstance(a, Value | Result) else a for a in arguments]
    assert blas.status(name, *passed) == 0, name


def said(*values: object) -> list[str]:
    return [hex(value) if isinstance(value, int) and value > 1 << 32 else f"{value:g}" for value in values]


a, b, c, extra = memory(), memory(), memory(), memory()
_, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
passed: dict[str, object] = {}

two, half = Value(2.5, "float32"), Value(0.5, "float32")
call("cublasSgemm_v2", 1, 0, 3, 4, 5, two, at(a), 6, at(b), 7, half, at(c), 8)
passed["Sgemm"] = said(1, 0, 3, 4, 5, 2.5, a, 6, b, 7, 0.5, c, 8)

assert blas.library.cublasSetStream_v2(blas.handle, ctypes.c_void_p(int(stream))) == 0
assert blas.library.cublasSetWorkspace_v2(blas.handle, at(extra), ctypes.c_size_t(1 << 16)) == 0
assert blas.library.cublasSetMathMode(blas.handle, 3) == 0
assert blas.library.cublasSetAtomicsMode(blas.handle, 1) == 0
sizes = [long(size) for size in (13, 14, 15)]
call("cublasSgemm_v2_64", 0, 1, *sizes, two, at(a), long(16), at(b), long(17), half, at(c), long(18))
passed["Sgemm64"] = said(0, 1, 13, 14, 15, 2.5, a, 16, b, 17, 0.5, c, 18)
passed["workspace"] = said(extra, 1 << 16)

call(
    *(
        "cublasGemmStridedBatchedEx",
        1,
        1,
        9,
        10,
        11,
        two,
        at(a),
        2,
        12,
        long(300),
        at(b),
        2,
        13,
        long(400),
        half,
    ),
    *(at(c), 0, 14, long(500), 15, 68, 99),
)
passed["GemmStridedBatchedEx"] = said(
    *(1, 1, 9, 10, 11, 2.5, a, 2, 12, 300, b, 2, 13, 400, 0.5, c, 0, 14, 500, 15, 68, 99)
)
call("cublasDtrsm_v2", 1, 0, 2, 1, 6, 5, Value(1.5, "float64"), at(a), 7, at(b), 8)
passed["Dtrsm"] = said(1, 0, 2, 1, 6, 5, 1.5, a, 7, b, 8)
alpha = Value(1 + 2j, "complex128")
call("cublasZher2k_v2", 1, 2, 4, 5, alpha, at(a), 6, at(b), 7, Value(0.25, "float64"), at(c), 8)
passed["Zher2k"] = said(1, 2, 4, 5, 1, 2, a, 6, b, 7, 0.25, c, 8)
code = ctypes.c_int(-5)
call("cublasCgetrsBatched", 2, 3, 4, at(a), 5, at(extra), at(b), 6, ctypes.byref(code), 7)
passed["CgetrsBatched"] = said(2, 3, 4, a, 5, extra, b, 6, 7)
passed["info"] = code.value
result = Result("float32")
call("cublasSdot_v2", 20, at(a), 2, at(b), -3, result)
passed["Sdot"] = [*said(20, a, 2, b, -3), "there"]

assert blas.library.cublasSetPointerMode_v2(blas.handle, 1) == 0
call("cublasSgemm_v2", 0, 0, 2, 2, 2, at(extra), at(a), 2, at(b), 2, at(extra + 64), at(c), 2)
passed["on the device"] = said(0, 0, 2, 2, 2, extra, a, 2, b, 2, extra + 64, c, 2)
driver.cuCtxSynchronize()

outside = blas.status(
    "cublasSgemm_v2", 0, 0, 2, 2, 2, at(extra), at(a), 1 << 30, at(b), 2, at(extra), at(c), 2
)
passed["outside"] = [outside, int(driver.cuCtxSynchronize()[0])]
blas.library.cublasSetPointerMode_v2(blas.handle, 0)
# What went wrong before is told by the call that waits, which is done once.
far = at(a), 1 << 30, at(b), 2, half.pointer(), at(c), 2
before = blas.status("cublasSgemm_v2", 0, 0, 2, 2, 2, two.pointer(), *far)
after = blas.status("cublasSdot_v2", 21, at(b), 3, at(a), 4, Result("float32").pointer())
passed["after an error"] = [before, after]
passed["Sdot after an error"] = [*said(21, b, 3, a, 4), "there"]
refused = blas.status(
    "cublasHgemm", 0, 0, 2, 2, 2, two.pointer(), at(a), 2, at(b), 2, half.pointer(), at(c), 2
)
passed["refused"] = [refused, int(driver.cuCtxSynchronize()[0])]
failed = blas.status("cublasStrsm_v2", 0, 0, 0, 0, 2, 2, two.pointer(), at(a), 2, at(b), 2)
# Once: the context is healthy, and goes on.
passed["failed"] = [failed, *(int(driver.cuCtxSynchronize()[0]) for _ in range(2))]
assert OnDevice
print(json.dumps(passed))
