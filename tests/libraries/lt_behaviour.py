"""How cuBLASLt behaves beside its results: ``lt_behaviour.py WHAT LIBRARY`` prints that as JSON."""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable

import numpy as np
from cuda.bindings import driver

from tests.libraries.lt import (
    BATCH,
    BIAS,
    BIAS_GRADIENT,
    BIAS_POINTER,
    EPILOGUE,
    FACTOR_A,
    KEPT,
    KEPT_LEAD,
    KEPT_POINTER,
    OP_A,
    ORDER,
    POINTER_MODE,
    RELU,
    RELU_BACK,
    STRIDE,
    Lt,
    Matrix,
    Result,
)
from tests.libraries.on_device import Value, random, start

what, path = sys.argv[1:]
start()
lt = Lt(path)
one, zero = Value(1, "float32"), Value(0, "float32")
LEAD = (4, ctypes.c_int64)
ROWS = (2, ctypes.c_uint64)


class Nowhere:
    pointer = None


class Product:
    """One of 4 by 4 matrices, whose descriptors a test changes."""

    def __init__(self) -> None:
        self.matrices = [Matrix(np.ones((1, 4, 4), "float32")) for _ in range(4)]
        self.layouts = [lt.layout(each) for each in self.matrices]
        self.product = lt.product("float32", {})

    def call(self, stream: object = None) -> int:
        a, b, c, d = (each.pointer for each in self.matrices)
        return int(
            lt.library.cublasLtMatmul(
                *(lt.handle, self.product, one.pointer(), a, self.layouts[0], b, self.layouts[1]),
                *(one.pointer(), c, self.layouts[2], d, self.layouts[3], None, None),
                *(ctypes.c_size_t(0), stream),
            )
        )

    def status(self) -> int:
        """Of the heuristic and of the call, which agree."""
        status, count, _ = lt.heuristic(self.product, *self.layouts)
        assert count == (status == 0)
        assert self.call() == status
        return status

    def with_layout(self, number: int, attribute: tuple[int, type], value: int) -> Product:
        assert lt.set("MatrixLayout", self.layouts[number], attribute, value) == 0
        return self

    def with_product(self, attributes: dict[tuple[int, type], int]) -> Product:
        for attribute, value in attributes.items():
            assert lt.set("MatmulDesc", self.product, attribute, value) == 0
        return self


def misfits() -> dict[str, int]:
    """Each value that does not go together with the others, one at a time."""
    said = {
        "rows": Product().with_layout(0, ROWS, 5).status(),
        "rows beyond": Product().with_layout(2, ROWS, 1 << 63).status(),
        "lead": Product().with_layout(1, LEAD, 3).status(),
        "lead below": Product().with_layout(3, LEAD, -4).status(),
        "batch": Product().with_layout(1, BATCH, 2).status(),
        "operation": Product().with_product({OP_A: 3}).status(),
        "lead of bits": Product()
        .with_product({EPILOGUE: RELU | KEPT, KEPT_POINTER: 256, KEPT_LEAD: 64})
        .status(),
    }
    strided = Product()
    for number in range(4):
        strided.with_layout(number, BATCH, 2).with_layout(number, STRIDE, -16 if number == 3 else 16)
    said["stride"] = strided.status()
    below = Product()
    for number in range(4):
        below.with_layout(number, BATCH, -1)
    said["batch below"] = below.status()
    untouched = Product()
    assert (untouched.matrices[3].get() == 1).all()
    return said


def nulls() -> dict[str, int]:
    """What must be there and is not: no end is asked, and nothing fails later."""
    said = {}
    for name, number in (("A", 0), ("B", 1), ("C", 2), ("D", 3)):
        product = Product()
        product.matrices[number] = Nowhere()
        said[name] = product.call()
    said["bias"] = Product().with_product({EPILOGUE: BIAS}).call()
    said["kept"] = Product().with_product({EPILOGUE: RELU | KEPT, KEPT_LEAD: 128}).call()
    return said


def unsupported() -> dict[str, int]:
    eight_bits = Product()
    eight_bits.layouts[0] = lt.layout(eight_bits.matrices[0], 28)
    return {
        "8-bit floats": eight_bits.status(),
        "order": Product().with_layout(0, ORDER, 2).status(),
        "epilogue": Product().with_product({EPILOGUE: RELU | 32}).status(),
        "alpha as a vector": Product().with_product({POINTER_MODE: 3}).status(),
        "factors": Product().with_product({FACTOR_A: 256}).status(),
        "planes": Product().with_layout(0, (7, ctypes.c_int64), 64).status(),
        "attribute": lt.set("MatmulDesc", Product().product, (99, ctypes.c_int32), 1),
    }


def many_sums() -> dict[str, object]:
    """A gradient of a bias that comes with a product of more rows than its sums have room."""
    rows = (1 << 20) + 1
    attributes = {EPILOGUE: RELU_BACK | BIAS_GRADIENT | KEPT, KEPT_LEAD: 1 << 21}
    said = {}
    for more in (0, 1, 0):
        sizes = ((1, rows + more, 1), (1, 1, 1), (1, rows + more, 1), (1, rows + more, 1))
        layouts = [lt.layout(Matrix(np.zeros(size, "float32"))) for size in sizes]
        said["status"], said["count"], _ = lt.heuristic(lt.product("float32", attributes), *layouts)
    return said


def after(status: int) -> dict[str, int]:
    (error,) = driver.cuCtxSynchronize()
    return {"status": status, "after": int(error)}


def outside() -> dict[str, int]:
    return after(Product().with_layout(0, LEAD, 1 << 30).call())


def wrapping() -> dict[str, int]:
    product = Product()
    for number in range(4):
        product.with_layout(number, BATCH, 1 << 30).with_layout(number, STRIDE, 1 << 60)
    return after(product.call())


def foreign_bias() -> dict[str, int]:
    """This process's own memory, and no device's."""
    own = np.ones(4, "float32")
    return after(Product().with_product({EPILOGUE: BIAS, BIAS_POINTER: own.ctypes.data}).call())


def foreign_kept() -> dict[str, int]:
    own = np.zeros(64, "uint8")
    kept = {EPILOGUE: RELU | KEPT, KEPT_POINTER: own.ctypes.data, KEPT_LEAD: 128}
    said = after(Product().with_product(kept).call())
    assert not own.any()
    return said


def short_bias() -> dict[str, int]:
    """Of which one element is beyond the end of its memory."""
    _, address = driver.cuMemAlloc(1 << 20)
    last = int(address) + (1 << 20) - 12
    return after(Product().with_product({EPILOGUE: BIAS, BIAS_POINTER: last}).call())


def descriptors() -> dict[str, int]:
    """Ones that were destroyed, never were, or are of another kind."""
    gone = Product()
    assert lt.library.cublasLtMatrixLayoutDestroy(gone.layouts[0]) == 0
    said = {  # before another one takes its place
        "destroyed": gone.status(),
        "destroyed twice": lt.library.cublasLtMatrixLayoutDestroy(gone.layouts[0]),
        "set": lt.set("MatrixLayout", gone.layouts[0], LEAD, 4),
    }
    invented, mixed, none = Product(), Product(), Product()
    said["length"] = lt.set("MatrixLayout", mixed.layouts[0], (4, ctypes.c_int32), 4)
    invented.layouts[1] = ctypes.c_void_p(invented.matrices[0].values.ctypes.data)
    mixed.layouts[2] = mixed.product
    none.product = ctypes.c_void_p()
    said |= {"invented": invented.status(), "of another kind": mixed.status(), "none": none.status()}
    assert Product().status() == 0
    return said


def attributes() -> dict[str, int]:
    """What was set is what is read, and the algorithm may be configured."""
    layout, place, written = Product().layouts[0], ctypes.c_int64(), ctypes.c_size_t()
    lt.set("MatrixLayout", layout, STRIDE, 77)
    get = lt.library.cublasLtMatrixLayoutGetAttribute
    said = {"asked": get(layout, 6, None, ctypes.c_size_t(0), ctypes.byref(written)), "bytes": written.value}
    get(layout, 6, ctypes.byref(place), ctypes.c_size_t(8), None)
    said["stride"] = place.value
    algorithm, ids, count = Result(), (ctypes.c_int * 4)(), ctypes.c_int()
    kinds = (68, 0, 0, 0, 0, 0)
    said["ids"] = lt.library.cublasLtMatmulAlgoGetIds(lt.handle, *kinds, 4, ids, ctypes.byref(count))
    said["count"] = count.value
    at = ctypes.byref(algorithm)
    said["init"] = lt.library.cublasLtMatmulAlgoInit(lt.handle, *kinds, ids[0], at)
    split = ctypes.c_int32(3)
    assert (
        lt.library.cublasLtMatmulAlgoConfigSetAttribute(at, 2, ctypes.byref(split), ctypes.c_size_t(4)) == 0
    )
    back = ctypes.c_int32()
    configured = lt.library.cublasLtMatmulAlgoConfigGetAttribute
    assert configured(at, 2, ctypes.byref(back), ctypes.c_size_t(4), None) == 0
    said["split"] = back.value
    product, result = Product(), Result()
    said["check"] = lt.library.cublasLtMatmulAlgoCheck(
        lt.handle, product.product, *product.layouts, at, ctypes.byref(result)
    )
    said["workspace"] = result.workspace
    return said


def within_a_function() -> dict[str, int]:
    """The heuristic asks nobody on a software GPU, so a function that a stream calls may ask."""
    product, said = Product(), {}

    def ask(_: object) -> None:
        said["status"], said["count"], _ = lt.heuristic(product.product, *product.layouts)

    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ask)
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert driver.cuLaunchHostFunc(0, driver.CUhostFn(address), 0)[0] == 0
    assert driver.cuCtxSynchronize()[0] == 0
    return said


def nothing_spreads() -> dict[str, bool]:
    """With beta 0 there need be no C, and a NaN in the result's memory does not spread."""
    a = Matrix(random("float32", 4, 4)[None])
    d = Matrix(np.full((1, 4, 4), np.nan, "float32"))
    layouts = [lt.layout(each) for each in (a, a, d, d)]
    done = lt.library.cublasLtMatmul(
        *(lt.handle, lt.product("float32", {}), one.pointer(), a.pointer, layouts[0], a.pointer, layouts[1]),
        *(zero.pointer(), None, layouts[2], d.pointer, layouts[3], None, None, ctypes.c_size_t(0), None),
    )
    return {"done": done == 0, "finite": bool(np.isfinite(d.get()).all())}


def captured() -> dict[str, int]:
    _, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    product, on = Product(), ctypes.c_void_p(int(stream))
    driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    status = product.call(on)
    error, _ = driver.cuStreamEndCapture(stream)
    again = product.call(on)
    driver.cuStreamSynchronize(stream)
    return {
        "status": status,
        "end": int(error),
        "again": again,
        "value": int(product.matrices[3].get()[0, 0, 0]),
    }


def of_cublas() -> dict[str, int]:
    """A handle of cuBLAS serves as one of cuBLASLt."""
    blas, handle = ctypes.CDLL(path.replace("cublasLt", "cublas")), ctypes.c_void_p()
    assert blas.cublasCreate_v2(ctypes.byref(handle)) == 0
    lt.handle = handle
    return {"status": Product().status()}


run: Callable[[], dict[str, int]] = globals()[what]
print(json.dumps(run()))
