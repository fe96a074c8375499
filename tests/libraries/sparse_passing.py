"""Calls cuSPARSE with arguments of which no two are alike: prints as JSON what it passed, by function."""

from __future__ import annotations

import ctypes
import json
import sys

import numpy as np
from cuda.bindings import driver

from tests.libraries.on_device import start
from tests.libraries.sparse import BY_COLUMNS, BY_ROWS, DEVICE, HOST, Held, Sparse, long

start()
lib = Sparse(sys.argv[1])
F32, F64, INT32, INT64 = 0, 1, 2, 3


def memory() -> int:
    error, address = driver.cuMemAlloc(1 << 20)
    assert error == 0
    return int(address)


def made(what: str, *arguments: object) -> Held:
    passed = [ctypes.c_void_p(a) if isinstance(a, int) and a > 1 << 32 else a for a in arguments]
    return Held(lib.make(what, *passed))


def joined(*groups: tuple[object, ...]) -> str:
    text = [[hex(v) if isinstance(v, int) and v > 1 << 32 else str(v) for v in group] for group in groups]
    return ":".join(",".join(group) for group in text)


p, i, v, x, y, b, c = (memory() for _ in range(7))
_, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
lib("SetStream", ctypes.c_void_p(int(stream)))
passed: dict[str, object] = {}
alpha, beta, zero = np.array([1.5]), np.array([-2.5]), np.zeros(1)

a = made("CreateCsr", long(5), long(7), long(11), p, i, v, INT64, INT32, 1, F64)
csr = joined(("csr",), (5, 7, 11), (p, i, v), (INT64, INT32, 1, F64))
dense_x, dense_y = made("CreateDnVec", long(7), x, F64), made("CreateDnVec", long(5), y, F64)
lib("SpMV", 0, alpha, a, dense_x, beta, dense_y, F64, 2, None)
passed["SpMV"] = ["0", "1.5", csr, joined((7,), (x,), (F64,)), "-2.5", joined((5,), (y,), (F64,)), "1", "2"]
passed["SpMVSize"] = passed["SpMV"]

blocks = made(
    "CreateBsr", long(3), long(4), long(6), long(2), long(5), p, i, v, INT32, INT32, 0, F32, BY_ROWS
)
bsr = joined(("bsr",), (3, 4, 6, 2, 5), (p, i, v), (INT32, INT32, 0, F32, BY_ROWS))
left = made("CreateDnMat", long(20), long(3), long(21), b, F32, BY_COLUMNS)
right = made("CreateDnMat", long(6), long(3), long(4), c, F32, BY_ROWS)
for held, stride in ((left, 64), (right, 25)):
    assert lib.library.cusparseDnMatSetStridedBatch(held.name, 3, long(stride)) == 0
lib("SetPointerMode", DEVICE)
lib("SpMM", 0, 0, ctypes.c_void_p(x), blocks, left, ctypes.c_void_p(y), right, F32, 0, None)
lib("SetPointerMode", HOST)
sides = (
    joined((20, 3, 21), (b,), (F32, BY_COLUMNS), ("b3", 64)),
    joined((6, 3, 4), (c,), (F32, BY_ROWS), ("b3", 25)),
)
passed["SpMM"] = ["0", "0", hex(x), bsr, sides[0], hex(y), sides[1], "0", "0", "mode1"]

few = made("CreateSpVec", long(9), long(4), i, v, INT32, 1, F32)
many = made("CreateDnVec", long(9), y, F32)
lib("Axpby", np.array([3], "float32"), few, np.array([4], "float32"), many)
passed["Axpby"] = ["3", joined((9, 4), (i, v), (INT32, 1, F32)), "4", joined((9,), (y,), (F32,))]

square = made("CreateCoo", long(6), long(6), long(8), p, i, v, INT32, 0, F64)
for attribute in (0, 1):
    lib.attribute(square, attribute, 1)
steps = lib.make("SpSV_createDescr")
six = [made("CreateDnVec", long(6), where, F64) for where in (x, y)]
lib("SpSV_solve", 1, alpha, square, *six, F64, 0, steps)
coo = joined(("coo",), (6, 6, 8), (p, i, v), (INT32, 0, F64)) + ":f1:d1"
passed["SpSV"] = [
    "1",
    "1.5",
    coo,
    joined((6,), (x,), (1,)),
    joined((6,), (y,), (1,)),
    "1",
    "0",
    "steps:sized:analysed",
]

first = made("CreateCsr", long(4), long(5), long(3), p, i, v, INT32, INT32, 0, F64)
second = made("CreateCsr", long(5), long(6), long(2), x, y, b, INT32, INT32, 0, F64)
product = made("CreateCsr", long(4), long(6), long(0), None, None, None, INT32, INT32, 0, F64)
steps, size = lib.make("SpGEMM_createDescr"), ctypes.c_size_t()
given = (0, 0, alpha, first, second, zero, product, F64, 0, steps)
lib("SpGEMM_compute", *given, ctypes.byref(size), lib.room)
sizes = [ctypes.c_int64() for _ in range(3)]
assert lib.library.cusparseSpMatGetSize(product.name, *map(ctypes.byref, sizes)) == 0
passed["sizes"] = [each.value for each in sizes]
assert lib.library.cusparseCsrSetPointers(product.name, *map(ctypes.c_void_p, (c, x, y))) == 0
lib("SpGEMM_copy", *given)
kinds = (INT32, INT32, 0, F64)
factors = [
    joined(("csr",), (4, 5, 3), (p, i, v), kinds),
    joined(("csr",), (5, 6, 2), (x, y, b), kinds),
]
empty = joined(("csr",), (4, 6, 0), ("(nil)",) * 3, kinds)
estimated = "steps:estimated300:computed500"
passed["SpGEMMCompute"] = ["0", "0", "1", *factors, "0", empty, "1", "0", estimated]
empty = joined(("csr",), (4, 6, 0), (c, "(nil)", "(nil)"), kinds)
passed["SpGEMMCopy"] = ["0", "0", "1.5", *factors, "0", f"{empty}:p" + joined((c, x, y)), "1", "0", estimated]
assert int(driver.cuCtxSynchronize()[0]) == 0

is_ = made("CreateMatDescr")
for name in ("FillMode", "DiagType", "IndexBase"):
    assert getattr(lib.library, f"cusparseSetMat{name}")(is_.name, 1) == 0
text, places = "m:f1:d1:b1", [ctypes.c_void_p(each) for each in (v, p, i)]
at_b, at_c, at_x, at_y = (ctypes.c_void_p(each) for each in (b, c, x, y))
memory_of = [hex(each) for each in (v, p, i)]
lib("Dbsrmv", 1, 0, 6, 5, 9, alpha, is_, *places, 3, at_x, beta, at_y)
passed["Bsrmv"] = [*"10659", "1.5", text, *memory_of, "3", hex(x), "-2.5", hex(y)]
lib("Dbsrmm", 0, 0, 1, 6, 7, 5, 9, alpha, is_, *places, 3, at_b, 8, beta, at_c, 19)
sides = [hex(b), "8", "-2.5", hex(c), "19"]
passed["Bsrmm"] = [*"0016759", "1.5", text, *memory_of, "3", *sides]
info = made("CreateBsrsv2Info")
lib("Dbsrsv2_analysis", 1, 2, 6, 9, is_, *places, 3, info, 0, None)
position = ctypes.c_int()
passed["zero"] = [lib.status("Xbsrsv2_zeroPivot", info, ctypes.byref(position)), position.value]
lib("Dbsrsv2_solve", 1, 2, 6, 9, alpha, is_, *places, 3, info, at_x, at_y, 0, None)
passed["Bsrsv2Size"] = [*"1269", text, *memory_of, "3"]
passed["Bsrsv2"] = [*"1269", "1.5", text, *memory_of, "3", "info:sized:analysed", hex(x), hex(y), "0"]
info = made("CreateBsrsm2Info")
lib("Dbsrsm2_solve", 0, 1, 1, 6, 4, 9, alpha, is_, *places, 3, info, at_b, 11, at_c, 13, 0, None)
sides = [hex(b), "11", hex(c), "13", "0"]
passed["Bsrsm2"] = [*"011649", "1.5", text, *memory_of, "3", "info:sized:analysed", *sides]
lib("Xcsrgeam2Nnz", 5, 6, is_, 7, *places[1:], is_, 8, at_x, at_y, is_, at_c, ctypes.byref(position), None)
passed["added"] = position.value
passed["SumCount"] = ["5", "6", text, "7", *memory_of[1:], text, "8", hex(x), hex(y), text, hex(c)]
first = (alpha, is_, 7, *places)
lib("Dcsrgeam2", 5, 6, *first, beta, is_, 8, at_b, at_x, at_y, is_, *places, None)
passed["Sum"] = [
    "5",
    "6",
    "1.5",
    text,
    "7",
    *memory_of,
    "-2.5",
    text,
    "8",
    hex(b),
    hex(x),
    hex(y),
    text,
    *memory_of,
]
passed["cusparseDcsrgeam2_bufferSizeExt"] = passed["Sum"]
lib("XcoosortByColumn", 5, 6, 7, *places, None)
passed["SortByColumn"] = ["5", "6", "7", *memory_of]
lib("Xcsrsort", 5, 6, 7, is_, *places, None)
passed["SortRows"] = ["5", "6", "7", text.replace("m:", "m:t0:"), *memory_of]
lib("Zgtsv2", 7, 2, *places, at_b, 9, None)
passed["Tridiagonal"] = ["7", "2", *memory_of, hex(b), "9"]
lib("Sgtsv2StridedBatch", 7, *places, at_b, 3, 8, None)
passed["TridiagonalBatch"] = ["7", *memory_of, hex(b), "3", "8"]
assert int(driver.cuCtxSynchronize()[0]) == 0

wrong = made("CreateDnVec", long(7), 1 << 33, F64)
outside = lib.status("SpMV", 0, alpha, a, wrong, beta, dense_y, F64, 2, None)
passed["outside"] = [outside, int(driver.cuCtxSynchronize()[0])]
result = (is_, at_x, places[1], ctypes.c_void_p(b + (1 << 20) - 12345))
lib("Dcsrgeam2", 5, 6, *first, beta, is_, 8, at_b, at_x, at_y, *result, None)
passed["no room for a sum"] = int(driver.cuCtxSynchronize()[0])
lib("SetPointerMode", DEVICE)
scalars = [ctypes.c_void_p(x), ctypes.c_void_p(y)]
on_device = (0, 0, scalars[0], given[3], given[4], scalars[1], product, F64, 0, steps)
passed["beta on the device"] = [lib.status("SpGEMM_copy", *on_device), int(driver.cuCtxSynchronize()[0])]
lib("SetPointerMode", HOST)
refused = lib.status("Scatter", few, many)
passed["refused"] = [refused, int(driver.cuCtxSynchronize()[0])]
print(json.dumps(passed))
