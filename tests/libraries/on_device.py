"""cuBLAS on arrays: what the programs of these tests have in common."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence

import numpy as np
from cuda.bindings import driver

LETTERS = {"S": "float32", "D": "float64", "C": "complex64", "Z": "complex128"}
REAL = {"S": "float32", "D": "float64", "C": "float32", "Z": "float64"}
numbers = np.random.default_rng(11)


def start() -> None:
    driver.cuInit(0)
    _, device = driver.cuDeviceGet(0)
    _, context = driver.cuDevicePrimaryCtxRetain(device)
    driver.cuCtxPushCurrent(context)


def random(kind: str, *shape: int) -> np.ndarray:
    """By columns, as cuBLAS stores matrices."""
    values = numbers.normal(size=shape)
    if kind.startswith("complex"):
        values = values + 1j * numbers.normal(size=shape)
    return np.asfortranarray(values.astype(kind))


def worst_of(found: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The largest difference by name; one that is no number is larger than any."""
    worst: dict[str, float] = {}
    for name, difference in found:
        worst[name] = float(np.maximum(worst.get(name, 0.0), difference))
    return worst


class OnDevice:
    """An array's bytes on the device, freed when it goes."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        error, self.address = driver.cuMemAlloc(max(array.nbytes, 16))
        assert error == 0, error
        self.put(array)

    def put(self, array: np.ndarray) -> None:
        flat = array.ravel(order="K")
        (error,) = driver.cuMemcpyHtoD(self.address, flat.ctypes.data, flat.nbytes) if flat.size else (0,)
        assert error == 0, error

    def get(self) -> np.ndarray:
        flat = np.empty(self.array.size, self.array.dtype)
        (error,) = driver.cuMemcpyDtoH(flat.ctypes.data, self.address, flat.nbytes) if flat.size else (0,)
        assert error == 0, error
        return flat.reshape(self.array.shape, order="F" if self.array.flags.f_contiguous else "C")

    def __del__(self) -> None:
        driver.cuMemFree(self.address)


class Cublas:
    """A library and a handle of it. Arrays go to the device and come back changed; numbers are ints, and
    ``Value`` is a scalar by address."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        self.handle = ctypes.c_void_p()
        assert self.library.cublasCreate_v2(ctypes.byref(self.handle)) == 0

    def status(self, name: str, *arguments: object) -> int:
        """Calls it with what ctypes takes; an int that is too long for one is a long."""
        passed = [ctypes.c_longlong(a) if isinstance(a, int) and abs(a) >= 1 << 31 else a for a in arguments]
        return int(getattr(self.library, name)(self.handle, *passed))

    def __call__(self, name: str, *arguments: object, changed: Sequence[np.ndarray] = ()) -> None:
        on = {id(a): OnDevice(a) for a in arguments if isinstance(a, np.ndarray)}
        passed: list[object] = []
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                passed.append(ctypes.c_void_p(int(on[id(argument)].address)))
            elif isinstance(argument, Value | Result):
                passed.append(argument.pointer())
            else:
                passed.append(argument)
        status = self.status(name, *passed)
        assert status == 0, (name, status)
        for array in changed:
            array[...] = on[id(array)].get()


class Value:
    """A scalar on the host."""

    def __init__(self, value: complex, kind: str) -> None:
        self.array = np.array([value if kind.startswith("complex") else np.real(value)]).astype(kind)

    def pointer(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.array.ctypes.data)


class Result:
    """A place on the host for results."""

    def __init__(self, kind: str, count: int = 1) -> None:
        self.array = np.zeros(count, kind)

    def pointer(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.array.ctypes.data)


def operated(matrix: np.ndarray, operation: int) -> np.ndarray:
    return (matrix, matrix.T, matrix.conj().T)[operation]


def triangle(matrix: np.ndarray, fill: int, unit: int = 0) -> np.ndarray:
    """The part of it that ``fill`` (0: the lower) names, with ones on the diagonal where ``unit`` says so."""
    part = np.tril(matrix) if fill == 0 else np.triu(matrix)
    return part - np.diag(np.diag(part)) + np.eye(len(matrix)) if unit else part


def mirrored(matrix: np.ndarray, fill: int, conjugated: bool) -> np.ndarray:
    """The symmetric, or Hermitian, matrix of which one triangle is stored."""
    part = triangle(matrix, fill)
    other = part.conj().T if conjugated else part.T
    whole = part + other - np.diag(np.diag(part))
    return whole - 1j * np.diag(np.diag(whole).imag) if conjugated else whole


def apart(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference, by the largest number."""
    wanted = np.asarray(wanted)
    assert np.shape(found) == np.shape(wanted), (np.shape(found), np.shape(wanted))
    scale = max(1.0, float(np.abs(wanted).max(initial=0)))
    difference = np.abs(np.asarray(found, "complex128") - wanted).max(initial=0)
    return float(difference / scale) if np.isfinite(difference) else float("inf")


def batch_of(arrays: Sequence[np.ndarray]) -> tuple[list[OnDevice], OnDevice]:
    """Arrays on the device, and the array of their addresses there."""
    each = [OnDevice(array) for array in arrays]
    return each, OnDevice(np.array([int(one.address) for one in each], "uint64"))


def pointer(on: OnDevice) -> ctypes.c_void_p:
    return ctypes.c_void_p(int(on.address))
