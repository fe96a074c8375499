"""``python -m gpu_kernels.cli.vector_add``: adds two vectors on the GPU through the driver API alone.

What ``jupyter gpu check`` runs under the runtime. Needs no CUDA package: PTX text and ctypes. Prints the
device's name and memory; exits with 1 and what failed if any step does.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p

COUNT = 1000
THREADS = 128

PTX = b"""
.version 6.3
.target sm_50
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 out, .param .u32 count)
{
    .reg .pred %p;
    .reg .b32 %r<5>;
    .reg .b64 %d<8>;
    .reg .f32 %f<4>;
    ld.param.u64 %d1, [a];
    ld.param.u64 %d2, [b];
    ld.param.u64 %d3, [out];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r2, %r2, %r3, %r4;
    setp.ge.u32 %p, %r2, %r1;
    @%p bra done;
    cvta.to.global.u64 %d1, %d1;
    cvta.to.global.u64 %d2, %d2;
    cvta.to.global.u64 %d3, %d3;
    mul.wide.u32 %d4, %r2, 4;
    add.s64 %d5, %d1, %d4;
    add.s64 %d6, %d2, %d4;
    add.s64 %d7, %d3, %d4;
    ld.global.f32 %f1, [%d5];
    ld.global.f32 %f2, [%d6];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%d7], %f3;
done:
    ret;
}
"""


class Failed(Exception):
    """A driver call failed; the text names it."""


class Driver:
    """The few driver calls that are needed, each checked."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise Failed(f"libcuda.so.1 cannot be loaded: {error}") from error

    def call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            text = c_char_p()
            self._library.cuGetErrorName(c_int(status), byref(text))
            raise Failed(f"{name}: {(text.value or str(status).encode()).decode()}")


def main() -> None:
    try:
        print(add_vectors(Driver()))
    except Failed as error:
        sys.exit(str(error))


def add_vectors(cuda: Driver) -> str:
    """Do it all; the device's name and memory. Raises ``Failed``."""
    device, context, module, function = c_int(), c_void_p(), c_void_p(), c_void_p()
    cuda.call("cuInit", c_uint(0))
    cuda.call("cuDeviceGet", byref(device), c_int(0))
    name, memory = ctypes.create_string_buffer(100), c_size_t()
    cuda.call("cuDeviceGetName", name, c_int(100), device)
    cuda.call("cuDeviceTotalMem_v2", byref(memory), device)
    cuda.call("cuDevicePrimaryCtxRetain", byref(context), device)
    cuda.call("cuCtxSetCurrent", context)
    cuda.call("cuModuleLoadData", byref(module), c_char_p(PTX))
    cuda.call("cuModuleGetFunction", byref(function), module, c_char_p(b"add"))
    _launch(cuda, function)
    cuda.call("cuModuleUnload", module)
    cuda.call("cuDevicePrimaryCtxRelease_v2", device)
    return f"{name.value.decode(errors='replace')}, {memory.value >> 20} MiB"


def _launch(cuda: Driver, function: c_void_p) -> None:
    floats = ctypes.c_float * COUNT
    first, second, result = floats(*range(COUNT)), floats(*(2.5 * i for i in range(COUNT))), floats()
    size = c_size_t(ctypes.sizeof(floats))
    a, b, out = c_uint64(), c_uint64(), c_uint64()
    for pointer in (a, b, out):
        cuda.call("cuMemAlloc_v2", byref(pointer), size)
    cuda.call("cuMemcpyHtoD_v2", a, first, size)
    cuda.call("cuMemcpyHtoD_v2", b, second, size)
    count = c_uint(COUNT)
    parameters = (c_void_p * 4)(*(ctypes.addressof(value) for value in (a, b, out, count)))
    blocks = (COUNT + THREADS - 1) // THREADS
    geometry = (c_uint(n) for n in (blocks, 1, 1, THREADS, 1, 1, 0))
    cuda.call("cuLaunchKernel", function, *geometry, c_void_p(), parameters, c_void_p())
    cuda.call("cuCtxSynchronize")
    cuda.call("cuMemcpyDtoH_v2", result, out, size)
    for pointer in (a, b, out):
        cuda.call("cuMemFree_v2", pointer)
    wrong = [i for i in range(COUNT) if result[i] != 3.5 * i]
    if wrong:
        raise Failed(f"{len(wrong)} of {COUNT} sums are wrong, the first at {wrong[0]}: {result[wrong[0]]}")


if __name__ == "__main__":
    main()
