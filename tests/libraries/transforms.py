"""cuFFT on arrays: what the programs of these tests have in common."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.libraries.on_device import OnDevice

FORWARD, INVERSE = -1, 1
C2C, R2C, C2R, Z2Z, D2Z, Z2D = 0x29, 0x2A, 0x2C, 0x69, 0x6A, 0x6C
KINDS = {
    "C2C": (C2C, "complex64", "complex64"),
    "R2C": (R2C, "float32", "complex64"),
    "C2R": (C2R, "complex64", "float32"),
    "Z2Z": (Z2Z, "complex128", "complex128"),
    "D2Z": (D2Z, "float64", "complex128"),
    "Z2D": (Z2D, "complex128", "float64"),
}
long = ctypes.c_longlong


@dataclass(frozen=True)
class Layout:
    """Where the elements of ``batch`` arrays lie: as the advanced data layout has it."""

    embed: tuple[int, ...]
    stride: int
    distance: int

    def view(self, flat: np.ndarray, shape: Sequence[int], batch: int) -> np.ndarray:
        steps = [self.stride]
        for rows in reversed(self.embed[1:]):
            steps.insert(0, steps[0] * rows)
        bytes_ = [step * flat.itemsize for step in (self.distance, *steps)]
        return np.lib.stride_tricks.as_strided(flat, (batch, *shape), bytes_)

    def elements(self, shape: Sequence[int], batch: int) -> int:
        apart, last = self.stride, (shape[-1] - 1) * self.stride
        for rows, count in zip(reversed(self.embed[1:]), reversed(shape[:-1]), strict=True):
            apart *= rows
            last += (count - 1) * apart
        return last + (batch - 1) * self.distance + 1


def dense(shape: Sequence[int]) -> Layout:
    return Layout(tuple(shape), 1, int(np.prod(shape)))


def shapes(kind: str, n: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of the input and the output: of a real transform's complex side the half that is not redundant."""
    half = (*n[:-1], n[-1] // 2 + 1)
    real_in, real_out = kind in ("R2C", "D2Z"), kind in ("C2R", "Z2D")
    return half if real_out else tuple(n), half if real_in else tuple(n)


def model(kind: str, n: Sequence[int], given: np.ndarray, direction: int) -> np.ndarray:
    """NumPy's transform of each array, without factors, in double precision."""
    axes = tuple(range(1, 1 + len(n)))
    if kind in ("R2C", "D2Z"):
        return np.fft.rfftn(given.astype("float64"), axes=axes)
    if kind in ("C2R", "Z2D"):
        return np.fft.irfftn(given.astype("complex128"), s=tuple(n), axes=axes, norm="forward")
    exact = given.astype("complex128")
    return (
        np.fft.fftn(exact, axes=axes)
        if direction == FORWARD
        else np.fft.ifftn(exact, axes=axes, norm="forward")
    )


def far(result: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference, of the largest value."""
    return float(np.abs(result - wanted).max() / max(np.abs(wanted).max(), 1e-30))


def ints(values: Sequence[int], element: type = ctypes.c_int) -> ctypes.Array:
    return (element * len(values))(*values)


class Cufft:
    """The library, and its plans by their numbers."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)

    def status(self, name: str, *arguments: object) -> int:
        return int(getattr(self.library, name)(*arguments))

    def __call__(self, name: str, *arguments: object) -> None:
        status = self.status(name, *arguments)
        assert status == 0, (name, status)

    def create(self) -> int:
        plan = ctypes.c_int()
        self("cufftCreate", ctypes.byref(plan))
        return plan.value

    def plan(self, name: str, *arguments: object) -> int:
        """What a function makes that has the plan's place first."""
        plan = ctypes.c_int()
        self(name, ctypes.byref(plan), *arguments)
        return plan.value

    def execute(self, kind: str, plan: int, given: OnDevice, result: OnDevice, direction: int) -> None:
        directions = [direction] if kind in ("C2C", "Z2Z") else []
        self("cufftExec" + kind, plan, at(given), at(result), *directions)


def at(buffer: OnDevice) -> ctypes.c_void_p:
    return ctypes.c_void_p(int(buffer.address))


def random(kind: str, count: int) -> np.ndarray:
    numbers = np.random.default_rng(count)
    values = numbers.normal(size=count)
    return (values + 1j * numbers.normal(size=count) if kind.startswith("complex") else values).astype(kind)
