"""The driver's ABI called as it is, without any of NVIDIA's Python between the test and the library.

All integers travel as 64-bit values, which on x86-64 is right for every integer parameter of the ABI.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path

from gpu_kernels.remoting.paths import native_build

LIBRARIES = native_build().softgpu
# A build with sanitizers, or one that is not installed yet, can be put in the place of the installed library.
LIBRARY = Path(os.environ.get("SOFTGPU_TEST_LIBRARY", LIBRARIES / "libcuda.so.1"))

SUCCESS = 0
INVALID_VALUE = 1
OUT_OF_MEMORY = 2
NOT_INITIALIZED = 3
INVALID_DEVICE = 101
INVALID_CONTEXT = 201
NO_BINARY_FOR_GPU = 209
INVALID_PTX = 218
INVALID_SOURCE = 300
FILE_NOT_FOUND = 301
INVALID_HANDLE = 400
NOT_FOUND = 500
NOT_READY = 600
ILLEGAL_ADDRESS = 700
CONTEXT_IS_DESTROYED = 709
ASSERT = 710
COOPERATIVE_LAUNCH_TOO_LARGE = 720
NOT_PERMITTED = 800
NOT_SUPPORTED = 801

STREAM_LEGACY = 1
STREAM_PER_THREAD = 2
NON_BLOCKING = 1
HOST_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p)
STREAM_CALLBACK = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_void_p)


class CudaError(Exception):
    def __init__(self, name: str, code: int) -> None:
        super().__init__(f"{name} answered {code}")
        self.code = code


class Cuda:
    """``cuda.cuX(...)`` raises CudaError; ``cuda.code("cuX", ...)`` returns the CUresult."""

    def __init__(self, library: Path = LIBRARY) -> None:
        self.library = ctypes.CDLL(str(library))

    def code(self, name: str, *arguments: object) -> int:
        function = getattr(self.library, name)
        function.restype = c_int
        return int(function(*(_as_argument(argument) for argument in arguments)))

    def __getattr__(self, name: str):
        def call(*arguments: object) -> None:
            if result := self.code(name, *arguments):
                raise CudaError(name, result)

        return call

    def new(self, name: str, *arguments: object, kind: type = c_uint64):
        """The value that a function writes through its first parameter."""
        out = kind()
        getattr(self, name)(byref(out), *arguments)
        return out.value

    def alloc(self, size: int) -> int:
        return int(self.new("cuMemAlloc_v2", size))

    def read(self, address: int, size: int) -> bytes:
        buffer = ctypes.create_string_buffer(size)
        self.cuMemcpyDtoH_v2(buffer, address, size)
        return buffer.raw

    def write(self, address: int, data: bytes) -> None:
        self.cuMemcpyHtoD_v2(address, data, len(data))

    def free_bytes(self) -> int:
        free, total = c_size_t(), c_size_t()
        self.cuMemGetInfo_v2(byref(free), byref(total))
        return free.value

    def kernel(self, module: int, name: str) -> int:
        return int(self.new("cuModuleGetFunction", module, name.encode()))

    def load(self, ptx: str) -> int:
        return int(self.new("cuModuleLoadData", ptx.encode()))

    def launch(
        self, function: int, *params: object, grid=(1, 1, 1), block=(1, 1, 1), shared=0, stream=0
    ) -> int:
        """Launches with ctypes values as parameters; returns the CUresult."""
        pointers = (c_void_p * max(len(params), 1))(*(ctypes.addressof(p) for p in params))
        return self.code("cuLaunchKernel", function, *grid, *block, shared, stream, pointers, None)


def _as_argument(argument: object) -> object:
    return c_uint64(argument & (2**64 - 1)) if isinstance(argument, int) else argument


__all__ = ["Cuda", "CudaError", "byref", "c_float", "c_int", "c_size_t", "c_uint", "c_uint64", "c_void_p"]
