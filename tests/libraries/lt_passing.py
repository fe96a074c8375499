"""Calls cuBLASLt with values of which no two are alike: prints as JSON what it passed, by word of the log."""

from __future__ import annotations

import ctypes
import json
import sys

from cuda.bindings import driver

from tests.libraries.lt import (
    BATCH,
    BIAS,
    BIAS_GRADIENT,
    BIAS_POINTER,
    BIAS_STRIDE,
    BIAS_TYPE,
    EPILOGUE,
    GELU,
    KEPT,
    KEPT_LEAD,
    KEPT_POINTER,
    KEPT_STRIDE,
    OP_A,
    ORDER,
    RELU_BACK,
    STRIDE,
    TRANSFORM_B,
    Lt,
    Result,
)
from tests.libraries.on_device import Value, start

start()
lt = Lt(sys.argv[1])


def memory() -> int:
    error, address = driver.cuMemAlloc(1 << 20)
    assert error == 0
    return int(address)


def layout(type_: int, rows: int, columns: int, lead: int, stride: int, order: int = 0) -> ctypes.c_void_p:
    sizes = (ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(lead))
    made = lt.make("MatrixLayout", type_, *sizes)
    for attribute, value in ((ORDER, order), (BATCH, 3), (STRIDE, stride)):
        assert lt.set("MatrixLayout", made, attribute, value) == 0
    return made


def said_of(address: int, type_: int, rows: int, columns: int, lead: int, stride: int, order: int = 0) -> str:
    return f"{hex(address)} {type_} {rows} {columns} {lead} 1={order}:4 5=3:4 6={stride}:8"


def at(address: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(address)


a, b, c, d, bias, kept, extra = (memory() for _ in range(7))
shapes = {
    "A": (2, 5, 4, 6, 100),  # of half precision, transposed
    "B": (2, 5, 7, 8, 200, 0),
    "C": (0, 4, 7, 9, 300),
    "D": (0, 4, 7, 16, 400),
}
places = {"A": a, "B": b, "C": c, "D": d}
attributes = {
    OP_A: 1,
    EPILOGUE: GELU | BIAS | KEPT,
    BIAS_POINTER: bias,
    BIAS_STRIDE: 11,
    BIAS_TYPE: 2,
    KEPT_POINTER: kept,
    KEPT_LEAD: 24,
    KEPT_STRIDE: 500,
}
product = lt.product("float16", attributes)
layouts = [layout(*shape) for shape in shapes.values()]
alpha, beta = Value(2.5, "float32"), Value(0.5, "float32")
_, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
for workspace, bytes_ in ((extra, 1 << 16), (0, 0)):
    status = lt.library.cublasLtMatmul(
        *(lt.handle, product, alpha.pointer(), at(a), layouts[0], at(b), layouts[1], beta.pointer(), at(c)),
        *(layouts[2], at(d), layouts[3], None, at(workspace), ctypes.c_size_t(bytes_)),
        ctypes.c_void_p(int(stream)),
    )
    assert status == 0
passed = {f"Lt{name}": said_of(places[name], *shape) for name, shape in shapes.items()}
passed["LtProduct"] = (
    f"68 0 2=0:4 3=1:4 4=0:4 7={GELU | BIAS | KEPT}:4 8={bias}:8 10=11:8 26=2:4 11={kept}:8 12=24:8 13=500:8"
)
passed["LtScalars"] = "2.5 0.5"
passed["LtWorkspace"] = f"{hex(extra)} {1 << 16}"


def product_of(rows: int) -> list[ctypes.c_void_p]:
    """The layouts of one with a result of so many rows."""
    shapes = ((2, 5, rows, 6, 100), (2, 5, 7, 8, 200), *[(0, rows, 7, rows, 7 * rows)] * 2)
    return [layout(*shape) for shape in shapes]


def asked(rows: int, attributes: dict) -> tuple[int, int]:
    """What the heuristic says of it."""
    status, count, _ = lt.heuristic(lt.product("float16", attributes), *product_of(rows))
    return status, count


def needs_workspace() -> list[list[int]]:
    """What the heuristic says, by how much it may take, and what the check of its algorithm says."""
    needy, layouts = lt.product("float16", {OP_A: 1}), product_of(12)
    said = []
    for most in (4 << 20, 32 << 20):
        status, count, result = lt.heuristic(needy, *layouts, most=most)
        said.append([status, count, result.workspace])
    checked = Result()
    algorithm = ctypes.byref(result.algorithm)
    status = lt.library.cublasLtMatmulAlgoCheck(lt.handle, needy, *layouts, algorithm, ctypes.byref(checked))
    return [*said, [status, 1, checked.workspace]]


many = (1 << 20) + 1
sums = {OP_A: 1, EPILOGUE: RELU_BACK | BIAS_GRADIENT | KEPT, KEPT_LEAD: 1 << 21, BIAS_POINTER: bias}
asked_of = {"done": asked(4, {OP_A: 1}), "not done": asked(13, {OP_A: 1}), "many sums": asked(many, sums)}
sum_ = lt.make("MatrixTransformDesc", 0)
assert lt.set("MatrixTransformDesc", sum_, TRANSFORM_B, 1) == 0
shapes = {"A": (0, 3, 5, 13, 600, 1), "B": (0, 5, 3, 14, 700, 0), "C": (0, 3, 5, 15, 800, 1)}
layouts = [layout(*shape) for shape in shapes.values()]
status = lt.library.cublasLtMatrixTransform(
    *(lt.handle, sum_, alpha.pointer(), at(a), layouts[0], beta.pointer(), at(b), layouts[1], at(c)),
    *(layouts[2], None),
)
assert status == 0
passed |= {f"Transform{name}": said_of(places[name], *shape) for name, shape in shapes.items()}
passed["TransformSum"] = "0 1=0:4 2=0:4 3=1:4"
passed["TransformScalars"] = "2.5 0.5"
assert int(driver.cuCtxSynchronize()[0]) == 0
# The same question again, whose bias lies elsewhere as well aligned, is one that was answered.
again = [asked(4, {OP_A: 1, EPILOGUE: BIAS, BIAS_POINTER: place}) for place in (bias, extra, extra + 256)]
asked_of["again"] = again
passed["workspaces"] = needs_workspace()
# Work that fails later: the recording driver has no such fill. Whose question comes next is not told of it.
assert int(driver.cuMemsetD16(d, 1, 8)[0]) == 0
asked_of["after work that fails"] = [*asked(6, {OP_A: 1}), int(driver.cuCtxSynchronize()[0])]
passed["asked"] = asked_of
print(json.dumps(passed))
