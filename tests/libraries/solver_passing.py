"""Calls cuSOLVER with arguments of which no two are alike: prints as JSON what it passed, by function."""

from __future__ import annotations

import ctypes
import json
import sys

import numpy as np
from cuda.bindings import driver

from tests.libraries.on_device import start
from tests.libraries.solver_results import Solver, SparseSolver, long

start()
lib = Solver(sys.argv[1])


def memory() -> int:
    error, address = driver.cuMemAlloc(1 << 20)
    assert error == 0
    return int(address)


def at(address: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(address)


def said(*values: object) -> list[str]:
    return [hex(value) if isinstance(value, int) and value > 1 << 32 else str(value) for value in values]


a, w, pivots, info = (memory() for _ in range(4))
_, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
assert lib.library.cusolverDnSetStream(lib.handle, ctypes.c_void_p(int(stream))) == 0
passed: dict[str, object] = {}

assert lib.status("Dgetrf", 5, 4, at(a), 6, None, at(pivots), at(info)) == 0
passed["DgetrfSize"] = said(5, 4, a, 6)
passed["Dgetrf"] = said(5, 4, a, 6, pivots, info)

settings = lib.settings("syevj")
assert lib.library.cusolverDnXsyevjSetSortEig(settings, 0) == 0
sizes = (1, 0, 7, at(a), 8, at(w))
assert lib.status("CheevjBatched", *sizes, None, 1, at(info), settings, 3) == 0
passed["CheevjBatchedSize"] = said(1, 0, 7, a, 8, w, 3)
passed["CheevjBatched"] = said(1, 0, 7, a, 8, w, 1 << 20, info, 3)
passed |= {"Tolerance": ["1e-07"], "Sweeps": ["15"], "Sorted": ["0"]}

size = ctypes.c_size_t
given = (0, 1, long(9), 5, at(a), long(11), 1, at(w), 5, None, size(1), None, size(1), at(info))
assert lib.status("Xsyevd", lib.params, *given) == 0
passed["Xsyevd"] = said(0, 1, 9, 5, a, 11, 1, w, 5, "room", 12345, "room", 678, info)
assert int(driver.cuCtxSynchronize()[0]) == 0

given = (0, 1, long(9), 0, at(a), long(11), 4, at(w), 0, None, long(1), 0, at(pivots), long(12), 0)
assert lib.status("Xgeev", lib.params, *given, None, size(1), None, size(1), at(info)) == 0
passed["Xgeev"] = said(
    0, 1, 9, 0, a, 11, 4, w, 0, "(nil)", 1, 0, pivots, 12, 0, "room", 222, "room", 33, info
)
sizes = (1, 3, 7, 5, at(a), 8, long(50), at(w), long(4), at(pivots), 9, long(60), at(a), 10, long(70))
assert lib.status("CgesvdaStridedBatched", *sizes, None, 1, at(info), None, 2) == 0
values = (1, 3, 7, 5, a, 8, 50, w, 4, pivots, 9, 60, a, 10, 70)
passed["CgesvdaSize"] = said(*values, 2)
passed["Cgesvda"] = said(*values, 500, info, "(nil)", 2)
assert int(driver.cuCtxSynchronize()[0]) == 0

# Reduction to tridiagonal form.
sizes = (1, 6, at(a), 7, at(w), at(pivots), at(info))
assert lib.status("Zhetrd", *sizes, None, 1, at(info + 64)) == 0
passed["ZhetrdSize"] = said(1, 6, a, 7, w, pivots, info)
passed["Zhetrd"] = said(1, 6, a, 7, w, pivots, info, 640, info + 64)

# What the library writes on the host is there when the call returns.
error, code = ctypes.c_double(), ctypes.c_int()
given = (1, 1, long(9), long(7), 5, at(a), long(11), 1, at(w), 5, at(pivots), long(12), 5, at(w), long(13), 5)
rooms = (None, size(1), None, size(1))
assert lib.status("Xgesvdp", lib.params, *given, *rooms, at(info), ctypes.byref(error)) == 0
passed["Xgesvdp"] = said(1, 1, 9, 7, 5, a, 11, 1, w, 5, pivots, 12, 5, w, 13, 5, 77, 0, info)
passed["error"] = error.value

own = SparseSolver(sys.argv[1])
assert own.cusparse.cusparseSetMatIndexBase(own.descriptor, 1) == 0
assert own.library.cusolverSpSetStream(own.handle, ctypes.c_void_p(int(stream))) == 0


def put(address: int, kind: str, numbers: list[int]) -> None:
    array = np.array(numbers, kind)
    assert int(driver.cuMemcpyHtoD(address, array.ctypes.data, array.nbytes)[0]) == 0


def solve(offsets: list[int], indices: list[int], rows: int = 3) -> list[int]:
    """The call's status, and the session's error behind it."""
    put(w, "int32", offsets)
    put(pivots, "int32", indices)
    given = (at(a), at(w), at(pivots), at(info), ctypes.c_float(0.25), 2, at(a + 64), ctypes.byref(code))
    status = own.library.cusolverSpCcsrlsvqr(own.handle, rows, 4, own.descriptor, *given)
    return [status, int(driver.cuCtxSynchronize()[0])]


put(a, "float32", [*range(8), *[0] * 16])
put(info, "float32", list(range(20, 26)))
assert solve([1, 2, 4, 5], [1, 3, 2, 3]) == [0, 0]  # a row that is not in order
passed["SparseOffsets"], passed["SparseIndices"] = said(1, 2, 4, 5), said(1, 2, 3, 3)
passed["Ccsrlsvqr"] = said(3, 4, 1, 0, 4, 7, "0.25", 2)
passed["singularity"], solution = code.value, np.zeros(6, "float32")
assert int(driver.cuMemcpyDtoH(solution.ctypes.data, a + 64, solution.nbytes)[0]) == 0
passed["solution"] = solution.tolist()
passed["slice"] = said(a, w, pivots)
wrong = {
    "a column behind": ([1, 2, 4, 5], [1, 2, 3, 4]),
    "a column before": ([1, 2, 4, 5], [0, 2, 3, 3]),
    "a row behind": ([1, 2, 1 << 30, 5], [1, 2, 3, 3]),
    "a row going back": ([1, 4, 2, 5], [1, 2, 3, 3]),
    "a row before": ([-9, 2, 4, 5], [1, 2, 3, 3]),
    "too few entries": ([1, 2, 3, 4], [1, 2, 3, 3]),
    "a column twice": ([1, 2, 4, 5], [1, 2, 2, 3]),
}
passed["wrong"] = {what: solve(*lists) for what, lists in wrong.items()}
passed["too many rows"] = solve([1, 2, 4, 5], [1, 2, 3, 3], 30_000)

# What is not wanted has no address, whatever the program says.
sizes = (0, 0, 5, 4, at(a), 6, at(w), ctypes.c_void_p(64), 6, ctypes.c_void_p(128), 6)
assert lib.status("Sgesvdj", *sizes, None, 1, at(info), lib.settings("gesvdj")) == 0
passed["Sgesvdj"] = passed["SgesvdjSize"] = said(0, "(nil)", "(nil)")
assert int(driver.cuCtxSynchronize()[0]) == 0

given = (0, 1, long(77), 5, at(a), long(77), 1, at(w), 5, None, size(1), None, size(1), at(info))
too_much = lib.status("Xsyevd", lib.params, *given)
passed["too much on the host"] = [too_much, int(driver.cuCtxSynchronize()[0])]

outside = lib.status("Dgetrf", 5, 4, at(a), 1 << 30, None, at(pivots), at(info))
passed["outside"] = [outside, int(driver.cuCtxSynchronize()[0])]
refused = lib.status("Spotrs", 0, 2, 2, at(a), 2, at(w), 2, at(info))
passed["refused"] = [refused, int(driver.cuCtxSynchronize()[0])]
print(json.dumps(passed))
