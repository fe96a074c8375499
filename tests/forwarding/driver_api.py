"""libcuda.so.1 by ctypes, as far as the tests call it; for processes whose environment names it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED = 0, 1, 2, 3
DEVICE_UNAVAILABLE, NO_DEVICE, INVALID_IMAGE, INVALID_CONTEXT = 46, 100, 200, 201
INVALID_PTX, INVALID_HANDLE, NOT_FOUND, NOT_READY, ILLEGAL_ADDRESS, NOT_SUPPORTED = (
    218,
    400,
    500,
    600,
    700,
    801,
)

U64, SIZE, UINT, INT, POINTER = (
    ctypes.c_uint64,
    ctypes.c_size_t,
    ctypes.c_uint,
    ctypes.c_int,
    ctypes.c_void_p,
)


class CudaError(Exception):
    def __init__(self, status: int, call: str) -> None:
        super().__init__(f"{call}: {status}")
        self.status = status


class Cuda:
    """The library, opened and initialised, with the primary context of device 0 current."""

    def __init__(self, *, start: bool = True) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        if start:
            self.call("cuInit", UINT(0))
            self.use_context()

    def use_context(self) -> None:
        """Makes the primary context current in this thread."""
        context = U64()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), INT(0))
        self.call("cuCtxSetCurrent", context)

    def status(self, name: str, *arguments: object) -> int:
        return int(getattr(self.library, name)(*arguments))

    def call(self, name: str, *arguments: object) -> None:
        status = self.status(name, *arguments)
        if status:
            raise CudaError(status, name)

    def out(self, name: str, *arguments: object) -> int:
        """Calls a function whose first parameter is a 64-bit result."""
        result = U64()
        self.call(name, ctypes.byref(result), *arguments)
        return result.value

    def allocate(self, size: int) -> int:
        return self.out("cuMemAlloc_v2", SIZE(size))

    def free(self, address: int) -> None:
        self.call("cuMemFree_v2", U64(address))

    def copy_in(self, address: int, data: bytes) -> None:
        self.call("cuMemcpyHtoD_v2", U64(address), data, SIZE(len(data)))

    def copy_out(self, address: int, size: int) -> bytes:
        buffer = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", buffer, U64(address), SIZE(size))
        return buffer.raw

    def library_of(self, text: str) -> int:
        return self.out("cuLibraryLoadData", text.encode() + b"\0", None, None, UINT(0), None, None, UINT(0))

    def kernel(self, library: int, name: str) -> int:
        return self.out("cuLibraryGetKernel", U64(library), name.encode())

    def launch(
        self,
        kernel: int,
        arguments: Sequence[ctypes._SimpleCData] = (),
        grid: int = 1,
        block: int = 1,
        stream: int = 0,
    ) -> None:
        self.call("cuLaunchKernel", *launch_arguments(kernel, arguments, grid, block, stream))

    def synchronize(self) -> None:
        self.call("cuCtxSynchronize")


def launch_arguments(
    kernel: int, arguments: Sequence[ctypes._SimpleCData], grid: int, block: int, stream: int
) -> list[object]:
    pointers = (POINTER * max(1, len(arguments)))(*(ctypes.addressof(a) for a in arguments))
    shape = [UINT(n) for n in (grid, 1, 1, block, 1, 1)]
    return [U64(kernel), *shape, UINT(0), U64(stream), pointers, None]
