"""cuDNN on arrays: what the programs of these tests have in common."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tests.libraries.on_device import OnDevice
from tests.libraries.products import from_bfloat, to_bfloat

BAD_PARAMETER, NOT_SUPPORTED = 2000, 3000
numbers = np.random.default_rng(7)


def same(values: np.ndarray) -> np.ndarray:
    return values


@dataclass(frozen=True)
class Kind:
    """A type of cuDNN's: its number, what NumPy stores it as, and the numbers' way there and back."""

    code: int
    stored: str
    to: Callable[[np.ndarray], np.ndarray] = same
    back: Callable[[np.ndarray], np.ndarray] = same

    def rounded(self, values: np.ndarray) -> np.ndarray:
        """As float64, what is left of them in this type."""
        return self.back(self.to(values.astype("float32" if self is not DOUBLE else "float64"))).astype(
            "float64"
        )


FLOAT = Kind(0, "float32", lambda x: x.astype("float32"))
DOUBLE = Kind(1, "float64")
HALF = Kind(2, "float16", lambda x: x.astype("float16"))
BFLOAT16 = Kind(9, "uint16", lambda x: to_bfloat(x.astype("float32")), from_bfloat)
KINDS = {"float": FLOAT, "double": DOUBLE, "half": HALF, "bfloat16": BFLOAT16}


def random(kind: Kind, *shape: int) -> np.ndarray:
    """Numbers that the type holds exactly."""
    return kind.rounded(numbers.normal(size=shape))


def strides_of(shape: Sequence[int], layout: str) -> list[int]:
    """``nchw``, ``nhwc``, or ``gaps``: NCHW with room between rows and between images."""
    order = list(range(len(shape)))
    if layout == "nhwc":
        order = [0, *order[2:], 1]
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
        if layout == "gaps" and axis in (0, len(shape) - 1):
            step += 3
    return strides


class Tensor:
    """An array on the device in a layout, and its descriptor. ``array`` is in float64."""

    def __init__(self, dnn: Cudnn, array: np.ndarray, kind: Kind, layout: str = "nchw") -> None:
        self.kind, self.shape = kind, array.shape
        self.strides = strides_of(array.shape, layout)
        span = 1 + sum((size - 1) * step for size, step in zip(array.shape, self.strides, strict=True))
        flat = np.full(span, 77, kind.stored)
        self.view(flat)[...] = kind.to(array)
        self.memory = OnDevice(flat)
        self.before = flat
        ints = ctypes.c_int * len(self.shape)
        self.descriptor = dnn.descriptor(
            *("Tensor", "TensorNd", kind.code, len(self.shape), ints(*self.shape), ints(*self.strides))
        )

    def view(self, flat: np.ndarray) -> np.ndarray:
        steps = [step * flat.itemsize for step in self.strides]
        return np.lib.stride_tricks.as_strided(flat, self.shape, steps)

    def get(self) -> np.ndarray:
        """What is there now. What lies between the numbers has not changed."""
        flat = self.memory.get()
        values = self.kind.back(np.ascontiguousarray(self.view(flat))).astype("float64")
        self.view(flat)[...] = self.view(self.before)
        assert np.array_equal(flat, self.before), "written beside the tensor"
        return values

    @property
    def passed(self) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
        """Descriptor and address, as functions take them one after the other."""
        return self.descriptor, ctypes.c_void_p(int(self.memory.address))


class Filter(Tensor):
    """The same with a filter's descriptor; its layout is one of those two that a filter may have."""

    def __init__(self, dnn: Cudnn, array: np.ndarray, kind: Kind, layout: str = "nchw") -> None:
        super().__init__(dnn, array, kind, layout)
        dims = (ctypes.c_int * array.ndim)(*array.shape)
        self.descriptor = dnn.descriptor(
            "Filter", "FilterNd", kind.code, int(layout == "nhwc"), array.ndim, dims
        )


class Cudnn:
    """A library and a handle of it."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        self.handle = ctypes.c_void_p()
        assert self.library.cudnnCreate(ctypes.byref(self.handle)) == 0

    def status(self, name: str, *arguments: object) -> int:
        flat: list[object] = []
        for argument in arguments:
            if isinstance(argument, Tensor):
                flat += argument.passed
            else:
                flat.append(argument.at if isinstance(argument, Scale) else argument)
        return int(getattr(self.library, name)(self.handle, *flat))

    def __call__(self, name: str, *arguments: object) -> None:
        status = self.status(name, *arguments)
        assert status == 0, (name, status)

    def descriptor(self, create: str, fill: str, *arguments: object, suffix: str = "") -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        assert getattr(self.library, f"cudnnCreate{create}Descriptor")(ctypes.byref(made)) == 0
        status = getattr(self.library, f"cudnnSet{fill}Descriptor{suffix}")(made, *arguments)
        assert status == 0, (fill, status)
        return made

    def convolution(
        self,
        pads: Sequence[int],
        steps: Sequence[int],
        dilations: Sequence[int],
        groups: int = 1,
        mode: int = 1,
    ) -> ctypes.c_void_p:
        ints = ctypes.c_int * len(pads)
        made = self.descriptor(
            *("Convolution", "ConvolutionNd", len(pads), ints(*pads), ints(*steps), ints(*dilations)),
            *(mode, FLOAT.code),
        )
        assert self.library.cudnnSetConvolutionGroupCount(made, groups) == 0
        return made


class Scale:
    """alpha or beta: a float, or a double for tensors of double."""

    def __init__(self, value: float, kind: Kind) -> None:
        self.value = np.array([value], "float64" if kind is DOUBLE else "float32")

    @property
    def at(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.value.ctypes.data)
