"""The software GPU's engine without a driver over it: PTX text, NumPy arrays, launches."""

from __future__ import annotations

import contextlib
import ctypes as c
import enum
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.native_build import built

Array = NDArray[np.generic]
Dim = int | tuple[int, ...]


class Status(enum.IntEnum):
    """As in engine.h."""

    OK = 0
    INVALID_LAUNCH = 1
    ILLEGAL_ADDRESS = 2
    MISALIGNED_ADDRESS = 3
    ILLEGAL_INSTRUCTION = 4
    INVALID_PC = 5
    STACK_OVERFLOW = 6
    ASSERTION = 7
    TRAP = 8
    DEADLOCK = 9
    OUT_OF_MEMORY = 10
    CANCELLED = 11
    INTERRUPTED = 12


class LinkError(Exception):
    """A PTX text that was refused; the message is the linker's."""


class LaunchError(Exception):
    """A launch that did not end well."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(f"{status.name}: {detail}")
        self.status, self.detail = status, detail


@dataclass
class Info:
    param_bytes: int
    shared_bytes: int
    local_bytes: int
    constant_bytes: int
    registers: int
    max_threads: int


class Level(c.Structure):
    """Where a level of a texture lies, as in bench.cc."""

    _fields_ = [
        *((name, c.c_uint64) for name in ("base", "row_pitch", "plane_pitch")),
        *((name, c.c_uint32) for name in ("width", "height", "depth", "unused")),
    ]


class Description(c.Structure):
    """A texture or surface, as in bench.cc. ``kind``, ``format`` and ``address`` are the engine's numbers."""

    _fields_ = [
        *((name, c.c_uint32) for name in ("surface", "kind", "format", "channels", "gathers", "levels")),
        ("address", c.c_uint32 * 3),
        *((name, c.c_uint32) for name in ("linear", "normalized_coordinates", "as_float", "srgb")),
        *((name, c.c_uint32) for name in ("linear_between_levels", "anisotropic")),
        *((name, c.c_float) for name in ("bias", "least_level", "greatest_level")),
        ("border", c.c_float * 4),
    ]


@functools.cache
def library() -> c.CDLL:
    lib = c.CDLL(str(built("softgpu_bench") / "softgpu" / "libsoftgpu_bench.so"))
    pointer, u32, u64, text = c.c_void_p, c.c_uint32, c.c_uint64, c.c_char_p
    signatures: dict[str, tuple[object, list[object]]] = {
        "bench_new": (pointer, [u64, u32]),
        "bench_delete": (None, [pointer]),
        "bench_text": (text, [pointer]),
        "bench_executor": (text, []),
        "bench_handlers": (text, []),
        "bench_cancel": (None, [pointer, c.c_int]),
        "bench_cooperative": (None, [pointer, c.c_int]),
        "bench_machine_code": (None, [pointer, c.c_int]),
        "bench_ops_with_code": (u32, [pointer]),
        "bench_allocate": (u64, [pointer, u64, u64]),
        "bench_free": (c.c_int, [pointer, u64]),
        "bench_map_host": (c.c_int, [pointer, pointer, u64]),
        "bench_unmap_host": (c.c_int, [pointer, pointer]),
        "bench_read": (c.c_int, [pointer, pointer, u64, u64]),
        "bench_write": (c.c_int, [pointer, u64, pointer, u64]),
        "bench_used": (u64, [pointer]),
        "bench_texture": (u64, [pointer, c.POINTER(Description), c.POINTER(Level)]),
        "bench_drop_texture": (None, [pointer, u64]),
        "bench_load": (pointer, [pointer, c.POINTER(text), c.POINTER(text), u32, c.c_int]),
        "bench_unload": (None, [pointer]),
        "bench_find_kernel": (c.c_int, [pointer, text]),
        "bench_kernel_count": (u32, [pointer]),
        "bench_kernel_name": (text, [pointer, u32]),
        "bench_kernel_info": (None, [pointer, u32, c.POINTER(u32)]),
        "bench_kernel_params": (u32, [pointer, u32, c.POINTER(u32), c.POINTER(u32), u32]),
        "bench_global": (u64, [pointer, text, c.POINTER(u64)]),
        "bench_run": (
            c.c_int,
            [pointer, pointer, u32, c.POINTER(u32), u32, c.c_char_p, u64, c.c_char_p, u64],
        ),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def handlers() -> dict[str, str]:
    """By a handler's name, "1" or "0" for whether this machine has it, "?" when no form names it."""
    lines = library().bench_handlers().decode().splitlines()
    return dict(line.split() for line in lines)


def executor() -> str:
    return str(library().bench_executor().decode())


def three(extent: Dim) -> tuple[int, int, int]:
    given = (extent,) if isinstance(extent, int) else extent
    x, y, z = (*given, 1, 1)[:3]
    return x, y, z


class Buffer:
    """Device memory that holds an array. Freed with its device, or by ``free``."""

    def __init__(self, device: Device, array: Array) -> None:
        self._device, self._like = device, np.ascontiguousarray(array)
        self.address = device.allocate(max(self._like.nbytes, 1))
        device.write(self.address, self._like)

    def get(self) -> Array:
        return self._device.read(self.address, self._like)

    def free(self) -> None:
        self._device.free(self.address)


class Device:
    def __init__(self, mib: int = 256, threads: int = 2) -> None:
        self._bench = library().bench_new(mib << 20, threads)
        assert self._bench

    def close(self) -> None:
        library().bench_delete(self._bench)

    @property
    def text(self) -> str:
        return str(library().bench_text(self._bench).decode(errors="replace"))

    @property
    def used(self) -> int:
        return int(library().bench_used(self._bench))

    def cancel(self, on: bool = True) -> None:
        library().bench_cancel(self._bench, on)

    def machine_code(self, on: bool) -> None:
        """Programs loaded from now on have machine code where they can, or not."""
        library().bench_machine_code(self._bench, on)

    @contextlib.contextmanager
    def cooperative(self) -> Iterator[None]:
        """Launches within are cooperative: all their blocks run at the same time."""
        library().bench_cooperative(self._bench, True)
        try:
            yield
        finally:
            library().bench_cooperative(self._bench, False)

    def allocate(self, size: int, align: int = 256) -> int:
        return int(library().bench_allocate(self._bench, size, align))

    def free(self, address: int) -> bool:
        return bool(library().bench_free(self._bench, address))

    def map_host(self, array: Array) -> bool:
        return bool(library().bench_map_host(self._bench, array.ctypes.data, array.nbytes))

    def unmap_host(self, array: Array) -> bool:
        return bool(library().bench_unmap_host(self._bench, array.ctypes.data))

    def write(self, address: int, array: Array) -> None:
        assert library().bench_write(self._bench, address, array.ctypes.data, array.nbytes)

    def read(self, address: int, like: Array) -> Array:
        out = np.empty_like(like)
        assert library().bench_read(self._bench, out.ctypes.data, address, out.nbytes)
        return out

    def texture(self, description: Description, levels: list[Level]) -> int:
        """An object's number; the levels' memory is the caller's."""
        description.levels = len(levels)
        array = (Level * len(levels))(*levels)
        return int(library().bench_texture(self._bench, c.byref(description), array))

    def drop_texture(self, handle: int) -> None:
        library().bench_drop_texture(self._bench, handle)

    def buffer(self, array: Array) -> Buffer:
        return Buffer(self, array)

    def load(self, *texts: str | bytes, names: Iterable[str] = (), allow_undefined: bool = False) -> Module:
        raw = [text.encode() if isinstance(text, str) else text for text in texts]
        labels = [name.encode() for name in names] or [f"input{i}".encode() for i in range(len(raw))]
        array = c.c_char_p * len(raw)
        loaded = library().bench_load(self._bench, array(*labels), array(*raw), len(raw), allow_undefined)
        if not loaded:
            raise LinkError(self.text)
        return Module(self, loaded)

    def run(self, module: Module, kernel: int, grid: Dim, block: Dim, shared: int, params: bytes) -> str:
        shape = (c.c_uint32 * 6)(*three(grid), *three(block))
        printed = c.create_string_buffer(1 << 16)
        status = library().bench_run(
            self._bench, module.handle, kernel, shape, shared, params, len(params), printed, len(printed)
        )
        if status:
            raise LaunchError(Status(status), self.text)
        return printed.value.decode(errors="replace")


class Module:
    def __init__(self, device: Device, handle: int) -> None:
        self._device, self.handle = device, handle

    def unload(self) -> None:
        library().bench_unload(self.handle)

    @property
    def ops_with_code(self) -> int:
        """How many of the program's ops have machine code."""
        return int(library().bench_ops_with_code(self.handle))

    @property
    def kernels(self) -> list[str]:
        count = library().bench_kernel_count(self.handle)
        return [library().bench_kernel_name(self.handle, i).decode() for i in range(count)]

    def index(self, name: str | None) -> int:
        if name is None:
            assert library().bench_kernel_count(self.handle) == 1
            return 0
        found = int(library().bench_find_kernel(self.handle, name.encode()))
        assert found >= 0, name
        return found

    def info(self, name: str | None = None) -> Info:
        out = (c.c_uint32 * 6)()
        library().bench_kernel_info(self.handle, self.index(name), out)
        return Info(*out)

    def params(self, name: str | None = None) -> list[tuple[int, int]]:
        offsets, sizes = (c.c_uint32 * 64)(), (c.c_uint32 * 64)()
        count = library().bench_kernel_params(self.handle, self.index(name), offsets, sizes, 64)
        return list(zip(offsets, sizes, strict=True))[:count]

    def global_(self, name: str) -> tuple[int, int] | None:
        size = c.c_uint64()
        address = library().bench_global(self.handle, name.encode(), c.byref(size))
        return (address, size.value) if address else None

    def __call__(
        self,
        *arguments: Buffer | np.generic | int | float,
        grid: Dim = 1,
        block: Dim = 32,
        shared: int = 0,
        name: str | None = None,
    ) -> str:
        """Runs a kernel and returns what it printed. An int or float takes the parameter's size."""
        kernel = self.index(name)
        layout = self.params(name)
        assert len(layout) == len(arguments), f"{len(layout)} parameters, {len(arguments)} arguments"
        packed = bytearray(self.info(name).param_bytes)
        for (offset, size), argument in zip(layout, arguments, strict=True):
            packed[offset : offset + size] = as_bytes(argument, size)
        return self._device.run(self, kernel, grid, block, shared, bytes(packed))


def as_bytes(argument: Buffer | np.generic | int | float, size: int) -> bytes:
    if isinstance(argument, Buffer):
        return argument.address.to_bytes(8, "little")
    if isinstance(argument, np.generic):
        assert argument.nbytes == size
        return argument.tobytes()
    if isinstance(argument, float):
        return np.array(argument, {4: np.float32, 8: np.float64}[size]).tobytes()
    return (argument & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
