"""What the tests of filling, freeing and sharing do with a driver."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_uint, c_uint64

from tests.softgpu.driver.raw import Cuda

from .cases import Area, with_stream

# Adds 1 to each of `count` words, through a pointer that is a parameter or stands in memory.
KERNELS = """
.version 7.5
.target sm_75
.address_size 64
.visible .entry add_one(.param .u64 words, .param .u32 count) {
    .reg .u64 %a, %o; .reg .u32 %i, %n, %v; .reg .pred %p;
    ld.param.u64 %a, [words];
    ld.param.u32 %n, [count];
    mov.u32 %i, %tid.x;
    setp.ge.u32 %p, %i, %n;
    @%p ret;
    mul.wide.u32 %o, %i, 4;
    add.u64 %a, %a, %o;
    ld.global.u32 %v, [%a];
    add.u32 %v, %v, 1;
    st.global.u32 [%a], %v;
    ret;
}
.visible .entry store_pointer(.param .u64 where, .param .u64 pointer) {
    .reg .u64 %a, %b;
    ld.param.u64 %a, [where];
    ld.param.u64 %b, [pointer];
    st.global.u64 [%a], %b;
    ret;
}
"""


def kernel_on_plain_pinned_memory(cuda: Cuda) -> list[object]:
    """What the host sees of pinned memory whose own address kernels were given."""
    module = cuda.load(KERNELS)
    add_one, store = cuda.kernel(module, "add_one"), cuda.kernel(module, "store_pointer")
    host, other = cuda.new("cuMemHostAlloc", 4096, 0), cuda.new("cuMemHostAlloc", 64, 0)
    words = (c_uint * 1024).from_address(host)
    words[:] = range(1024)
    seen: list[object] = [cuda.launch(add_one, c_uint64(host + 16), c_uint(3), block=(32, 1, 1))]
    cuda.cuCtxSynchronize()
    seen.append(words[:9])
    words[4] = 100
    stream = cuda.new("cuStreamCreate", 1)
    seen.append(cuda.launch(add_one, c_uint64(host), c_uint(8), block=(32, 1, 1), stream=stream))
    device = cuda.alloc(64)
    cuda.cuMemcpyDtoDAsync_v2(device, host, 32, stream)
    cuda.cuMemcpyHtoDAsync_v2(device + 32, host, 32, stream)
    cuda.cuStreamSynchronize(stream)
    seen += [words[:9], cuda.read(device, 64)]
    seen.append(cuda.launch(store, c_uint64(other), c_uint64(host)))
    cuda.cuCtxSynchronize()
    seen.append(c_uint64.from_address(other).value == host)
    # A copy out into memory that has a place on the device is not undone by what was there.
    cuda.cuMemcpyDtoHAsync_v2(host, device, 8, stream)
    cuda.cuStreamSynchronize(stream)
    seen.append(words[:3])
    cuda.cuMemFree_v2(device)
    cuda.cuMemFreeHost(host)
    cuda.cuMemFreeHost(other)
    cuda.cuStreamDestroy_v2(stream)
    cuda.cuModuleUnload(module)
    return seen


def sets(
    cuda: Cuda, form: str, kind: str, stream_of: str, start: int, shape: tuple[int, ...], value: int
) -> object:
    """Fills a part of an area; the code and the area afterwards."""
    area = Area(cuda, kind, bytes(range(256)) * 4)
    unit = 4 if "32" in form else 2 if "16" in form else 1
    address = area.address + start * unit
    if "Async" in form:
        arguments = [*shape[:-2], value, *shape[-2:]] if "2D" in form else [value, *shape]
        code = with_stream(cuda, stream_of, lambda stream: cuda.code(form, address, *arguments, stream))
    else:
        arguments = [*shape[:-2], value, *shape[-2:]] if "2D" in form else [value, *shape]
        code = cuda.code(form, address, *arguments)
        if kind != "device":  # the host may look at once
            now = ctypes.string_at(area.address, area.size)
            return code, now, area.read() == now, area.free()
    return code, area.read(), True, area.free()


def frees(cuda: Cuda) -> list[int]:
    device, managed = cuda.alloc(4096), cuda.new("cuMemAllocManaged", 4096, 1)
    pinned, pooled = cuda.new("cuMemHostAlloc", 4096, 0), cuda.new("cuMemAllocAsync", 4096, 0)
    module = cuda.load(".version 7.5\n.target sm_75\n.address_size 64\n.visible .global .u32 g[16];\n")
    variable = c_uint64()
    cuda.cuModuleGetGlobal_v2(byref(variable), None, module, b"g")
    codes = [
        cuda.code("cuMemFree_v2", device + 256),
        cuda.code("cuMemFree_v2", pinned),
        cuda.code("cuMemFree_v2", variable.value),
        cuda.code("cuMemFreeHost", device),
        cuda.code("cuMemFreeHost", pinned + 8),
        cuda.code("cuMemFreeAsync", managed, 0),
        cuda.code("cuMemFreeAsync", pinned, 0),
        cuda.code("cuMemHostUnregister", pinned),
    ]
    for name, address in (("cuMemFree_v2", device), ("cuMemFree_v2", managed), ("cuMemFreeHost", pinned)):
        codes += [cuda.code(name, address), cuda.code(name, address)]
    codes += [cuda.code("cuMemFree_v2", pooled), cuda.code("cuMemFreeAsync", pooled, 0)]
    codes.append(cuda.code("cuMemFree_v2", 0))
    cuda.cuModuleUnload(module)
    return codes


def free_bytes(cuda: Cuda) -> int:
    return cuda.free_bytes()
