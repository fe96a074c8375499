"""cuBLASLt on arrays: what the programs of its tests have in common."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

import numpy as np

from tests.libraries.on_device import OnDevice, Value, pointer

TYPES = {"float32": 0, "float64": 1, "float16": 2, "int8": 3, "complex64": 4, "complex128": 5, "int32": 10}
COMPUTE_16F, COMPUTE_32F, COMPUTE_64F, COMPUTE_32I = 64, 68, 70, 72
BY_COLUMNS, BY_ROWS = 0, 1
RELU, BIAS, RELU_BACK, BIAS_GRADIENT, GELU, GELU_BACK, KEPT = 2, 4, 8, 16, 32, 64, 128
GRADIENT_A, GRADIENT_B = 256, 512
INVALID_VALUE, NOT_SUPPORTED = 7, 15

# Of layouts, products, transforms and preferences: number and type.
ORDER, BATCH, STRIDE = (1, ctypes.c_int32), (5, ctypes.c_int32), (6, ctypes.c_int64)
POINTER_MODE, OP_A, OP_B = (2, ctypes.c_int32), (3, ctypes.c_int32), (4, ctypes.c_int32)
EPILOGUE, BIAS_POINTER, BIAS_STRIDE = (7, ctypes.c_uint32), (8, ctypes.c_uint64), (10, ctypes.c_int64)
KEPT_POINTER, KEPT_LEAD, KEPT_STRIDE = (11, ctypes.c_uint64), (12, ctypes.c_int64), (13, ctypes.c_int64)
BIAS_TYPE, FACTOR_A = (26, ctypes.c_int32), (17, ctypes.c_uint64)
TRANSFORM_MODE, TRANSFORM_A, TRANSFORM_B = (1, ctypes.c_int32), (2, ctypes.c_int32), (3, ctypes.c_int32)
MOST_WORKSPACE = (1, ctypes.c_uint64)


def compute_of(kind: str) -> int:
    return {"float64": COMPUTE_64F, "complex128": COMPUTE_64F, "int8": COMPUTE_32I}.get(kind, COMPUTE_32F)


def scalars_of(kind: str) -> str:
    return {"float16": "float32", "int8": "int32"}.get(kind, kind)


class Result(ctypes.Structure):
    """Of the heuristic."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


@dataclass
class Matrix:
    """Matrices on the device, one behind the other: of ``values`` the first index is the batch's, and
    ``lead`` and ``stride`` are as small as they can be, or larger by what ``gap`` says."""

    values: np.ndarray
    order: int = BY_COLUMNS
    gap: int = 0
    on: OnDevice = field(init=False)

    def __post_init__(self) -> None:
        batch, rows, columns = self.values.shape
        inner, outer = (rows, columns) if self.order == BY_COLUMNS else (columns, rows)
        self.lead = inner + self.gap
        self.stride = self.lead * outer + self.gap
        flat = np.zeros(self.stride * batch, self.values.dtype)
        self.parts(flat)[...] = self.values
        self.on = OnDevice(flat)

    def parts(self, flat: np.ndarray) -> np.ndarray:
        batch, rows, columns = self.values.shape
        inner, outer = (self.lead, 1) if self.order == BY_ROWS else (1, self.lead)
        bytes_ = flat.itemsize
        steps = (self.stride * bytes_, inner * bytes_, outer * bytes_)
        return np.lib.stride_tricks.as_strided(flat, (batch, rows, columns), steps)

    def get(self) -> np.ndarray:
        return self.parts(self.on.get()).copy()

    @property
    def pointer(self) -> ctypes.c_void_p:
        return pointer(self.on)


class Lt:
    """A library and a handle of it."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        self.handle = ctypes.c_void_p()
        assert self.library.cublasLtCreate(ctypes.byref(self.handle)) == 0

    def make(self, kind: str, *values: object, **attributes: object) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        assert getattr(self.library, f"cublasLt{kind}Create")(ctypes.byref(made), *values) == 0
        return made

    def set(self, kind: str, descriptor: ctypes.c_void_p, attribute: tuple[int, type], value: int) -> int:
        number, of = attribute
        place = of(value)
        setter = getattr(self.library, f"cublasLt{kind}SetAttribute")
        return int(setter(descriptor, number, ctypes.byref(place), ctypes.c_size_t(ctypes.sizeof(place))))

    def layout(self, matrix: Matrix, type_: int | None = None) -> ctypes.c_void_p:
        batch, rows, columns = matrix.values.shape
        number = TYPES[matrix.values.dtype.name] if type_ is None else type_
        made = self.make(
            "MatrixLayout",
            *(number, ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(matrix.lead)),
        )
        for attribute, value in ((ORDER, matrix.order), (BATCH, batch), (STRIDE, matrix.stride)):
            assert self.set("MatrixLayout", made, attribute, value) == 0
        return made

    def product(self, kind: str, attributes: dict[tuple[int, type], int]) -> ctypes.c_void_p:
        made = self.make("MatmulDesc", compute_of(kind), TYPES[scalars_of(kind)])
        for attribute, value in attributes.items():
            assert self.set("MatmulDesc", made, attribute, value) == 0
        return made

    def heuristic(
        self, product: ctypes.c_void_p, *layouts: ctypes.c_void_p, most: int = 1 << 20
    ) -> tuple[int, int, Result]:
        preference, result, count = self.make("MatmulPreference"), Result(), ctypes.c_int(-1)
        assert self.set("MatmulPreference", preference, MOST_WORKSPACE, most) == 0
        status = self.library.cublasLtMatmulAlgoGetHeuristic(
            *(self.handle, product, *layouts, preference, 1, ctypes.byref(result), ctypes.byref(count))
        )
        assert self.library.cublasLtMatmulPreferenceDestroy(preference) == 0
        return status, count.value, result

    def matmul(
        self,
        kind: str,
        attributes: dict[tuple[int, type], int],
        scalars: tuple[object, object],
        a: Matrix,
        b: Matrix,
        c: Matrix,
        d: Matrix,
        stream: object = None,
    ) -> int:
        """As programs call it: the heuristic first, whose algorithm is the call's."""
        product, layouts = self.product(kind, attributes), [self.layout(one) for one in (a, b, c, d)]
        alpha, beta = (one.pointer() if isinstance(one, Value) else one for one in scalars)
        status, count, result = self.heuristic(product, *layouts)
        assert (status, count) in ((0, 1), (status, 0))
        done = self.library.cublasLtMatmul(
            *(self.handle, product, alpha, a.pointer, layouts[0], b.pointer, layouts[1], beta),
            *(c.pointer, layouts[2], d.pointer, layouts[3]),
            *(ctypes.byref(result.algorithm), None, ctypes.c_size_t(0), stream),
        )
        assert status == done  # who is given an algorithm can use it
        for layout in layouts:
            assert self.library.cublasLtMatrixLayoutDestroy(layout) == 0
        assert self.library.cublasLtMatmulDescDestroy(product) == 0
        return int(done)
