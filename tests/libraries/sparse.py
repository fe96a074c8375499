"""cuSPARSE on arrays: what the programs of its tests have in common."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

import numpy as np

from tests.libraries.on_device import OnDevice, numbers, pointer, random

TYPES = {"float32": 0, "float64": 1, "float16": 2, "int8": 3, "complex64": 4, "complex128": 5, "int32": 10}
INDEX_TYPES = {"int32": 2, "int64": 3}
BY_COLUMNS, BY_ROWS = 1, 2
HOST, DEVICE = 0, 1


def long(value: int) -> ctypes.c_int64:
    return ctypes.c_int64(value)


@dataclass
class Held:
    """A descriptor, and the arrays whose addresses it has."""

    name: ctypes.c_void_p
    arrays: list[OnDevice] = field(default_factory=list)

    @property
    def values(self) -> OnDevice:
        return self.arrays[-1]


class Sparse:
    """A library and a handle of it."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        self.handle = ctypes.c_void_p()
        assert self.library.cusparseCreate(ctypes.byref(self.handle)) == 0
        self.room = OnDevice(np.zeros(64, "uint8"))

    def make(self, what: str, *arguments: object) -> ctypes.c_void_p:
        """An object of the library, from what its function takes after where it goes."""
        made = ctypes.c_void_p()
        passed = [pointer(a) if isinstance(a, OnDevice) else a for a in arguments]
        status = getattr(self.library, f"cusparse{what}")(ctypes.byref(made), *passed)
        assert status == 0, (what, status)
        return made

    def status(self, name: str, *arguments: object) -> int:
        """Arrays on the device by their addresses, descriptors by their names, scalars by their places."""
        passed: list[object] = []
        for argument in arguments:
            if isinstance(argument, OnDevice):
                passed.append(pointer(argument))
            elif isinstance(argument, Held):
                passed.append(argument.name)
            elif isinstance(argument, np.ndarray):
                passed.append(ctypes.c_void_p(argument.ctypes.data))
            else:
                passed.append(argument)
        return int(getattr(self.library, f"cusparse{name}")(self.handle, *passed))

    def __call__(self, name: str, *arguments: object) -> None:
        status = self.status(name, *arguments)
        assert status == 0, (name, status)

    def sized(self, name: str, *arguments: object) -> None:
        """Asks for room, and calls with it."""
        size = ctypes.c_size_t()
        self(f"{name}_bufferSize", *arguments, ctypes.byref(size))
        assert 0 < size.value <= self.room.array.nbytes
        self(name, *arguments, self.room)

    def attribute(self, held: Held, attribute: int, value: int) -> None:
        chosen, size = ctypes.c_int(value), ctypes.c_size_t(4)
        assert self.library.cusparseSpMatSetAttribute(held.name, attribute, ctypes.byref(chosen), size) == 0

    def vector(self, array: np.ndarray) -> Held:
        on = OnDevice(array)
        return Held(self.make("CreateDnVec", long(array.size), on, TYPES[array.dtype.name]), [on])

    def entries(self, array: np.ndarray, index: str = "int32", base: int = 0) -> Held:
        """The numbers of a vector that are not 0."""
        places = np.flatnonzero(array)
        arrays = [OnDevice((places + base).astype(index)), OnDevice(array[places])]
        sizes = (long(array.size), long(places.size))
        kinds = (INDEX_TYPES[index], base, TYPES[array.dtype.name])
        return Held(self.make("CreateSpVec", *sizes, *arrays, *kinds), arrays)

    def dense(self, array: np.ndarray, order: int = BY_COLUMNS, gap: int = 0) -> Held:
        """One matrix, or a batch of them along the first axis; lines are ``gap`` longer than they need be."""
        batch = array if array.ndim == 3 else array[None]
        rows, columns = batch.shape[1:]
        lines = batch if order == BY_ROWS else batch.transpose(0, 2, 1)
        spaced = np.full((*lines.shape[:2], lines.shape[2] + gap), 99, array.dtype)
        spaced[..., : lines.shape[2]] = lines
        on = OnDevice(spaced)
        kinds = (TYPES[array.dtype.name], order)
        made = self.make("CreateDnMat", long(rows), long(columns), long(spaced.shape[2]), on, *kinds)
        if array.ndim == 3:
            stride = spaced[0].size
            assert self.library.cusparseDnMatSetStridedBatch(made, len(batch), long(stride)) == 0
        return Held(made, [on])

    def sparse(
        self,
        array: np.ndarray,
        how: str,
        index: str = "int32",
        base: int = 0,
        block: tuple[int, int] = (2, 3),
    ) -> Held:
        """One matrix, or a batch with one pattern along the first axis, as ``how`` says."""
        batch = array if array.ndim == 3 else array[None]
        pattern = (batch != 0).any(axis=0)
        sizes = [long(side) for side in pattern.shape]
        kinds: list[int] = [INDEX_TYPES[index], base, TYPES[array.dtype.name]]
        if how.endswith(("by rows", "by columns")):
            return self._blocks(batch[0], how, index, base)
        rows, columns = np.nonzero(pattern) if how != "csc" else np.nonzero(pattern.T)[::-1]
        values = OnDevice(np.ascontiguousarray(batch[:, rows, columns]))
        lines, across = (columns, rows) if how == "csc" else (rows, columns)
        if how != "coo":
            count = pattern.shape[how == "csc"]
            lines = np.searchsorted(lines, np.arange(count + 1))
            kinds.insert(0, INDEX_TYPES[index])
        arrays = [OnDevice((lines + base).astype(index)), OnDevice((across + base).astype(index)), values]
        made = self.make(f"Create{how.capitalize()}", *sizes, long(rows.size), *arrays, *kinds)
        if array.ndim == 3 and how == "csr":
            assert self.library.cusparseCsrSetStridedBatch(made, len(batch), long(0), long(0)) == 0
        return Held(made, arrays)

    def _blocks(self, array: np.ndarray, how: str, index: str, base: int) -> Held:
        high, wide = (2, 2) if how.startswith("square") else (2, 3)
        order = BY_ROWS if how.endswith("by rows") else BY_COLUMNS
        blocks = array.reshape(array.shape[0] // high, high, array.shape[1] // wide, wide).swapaxes(1, 2)
        rows, columns = np.nonzero(blocks.any(axis=(2, 3)))
        offsets = np.searchsorted(rows, np.arange(blocks.shape[0] + 1))
        values = blocks[rows, columns] if order == BY_ROWS else blocks[rows, columns].swapaxes(1, 2)
        arrays = [
            OnDevice((offsets + base).astype(index)),
            OnDevice((columns + base).astype(index)),
            OnDevice(np.ascontiguousarray(values)),
        ]
        sizes = [long(n) for n in (*blocks.shape[:2], rows.size, high, wide)]
        kinds = (INDEX_TYPES[index], INDEX_TYPES[index], base, TYPES[array.dtype.name], order)
        return Held(self.make("CreateBsr", *sizes, *arrays, *kinds), arrays)


def lines_of(held: Held, order: int, gap: int = 0) -> np.ndarray:
    """A dense matrix, or a batch of them, as it is now."""
    spaced = held.values.get()
    if gap:
        assert (spaced[..., -gap:] == 99).all()  # between lines nothing was written
        spaced = spaced[..., :-gap]
    batch = spaced if order == BY_ROWS else spaced.swapaxes(1, 2)
    return batch[0] if len(batch) == 1 else batch


def some(kind: str, *shape: int) -> np.ndarray:
    """Numbers of which most are 0; of a batch all have the same ones."""
    there = numbers.random(shape[-2:]) < 0.4
    if kind == "int8":
        return (numbers.integers(1, 9, size=shape) * there).astype(kind)
    return np.ascontiguousarray(random(kind, *shape) * there).astype(kind)
