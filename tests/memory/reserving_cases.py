"""What the tests of a driver that holds more than it was asked for do with it."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_int, c_uint64

from tests.graphs.driver import KernelParams
from tests.memory.pool_cases import pool_properties
from tests.softgpu.driver.ptx import HEADER
from tests.softgpu.driver.raw import HOST_FUNCTION, Cuda

MIB = 1 << 20


@contextmanager
def parked(cuda: Cuda, stream: int) -> Iterator[None]:
    """The stream does not move meanwhile: a function of the program's that it calls does not return."""
    there, go_on = threading.Event(), threading.Event()

    def wait(_: object) -> None:
        there.set()
        go_on.wait()

    function = HOST_FUNCTION(wait)
    cuda.cuLaunchHostFunc(stream, function, None)
    there.wait()
    try:
        yield
    finally:
        go_on.set()
        cuda.cuStreamSynchronize(stream)


def frees_in_a_parked_stream(
    cuda: Cuda, mib: int, times: int, pools: bool
) -> tuple[list[int], list[int], int]:
    """Codes of allocations that are each freed in a stream that does not move, MiB that are free after
    each, and the code of one more when the stream has moved."""
    parked_one, other = cuda.new("cuStreamCreate", 1), cuda.new("cuStreamCreate", 1)
    codes, free = [], []
    with parked(cuda, parked_one):
        for _ in range(times):
            address = c_uint64()
            if pools:
                codes.append(cuda.code("cuMemAllocAsync", byref(address), mib * MIB, other))
            else:
                codes.append(cuda.code("cuMemAlloc_v2", byref(address), mib * MIB))
            if codes[-1] == 0:
                cuda.cuStreamSynchronize(other)
                cuda.cuMemFreeAsync(address.value, parked_one)
            free.append(cuda.free_bytes() // MIB)
    last = c_uint64()
    code = cuda.code("cuMemAllocAsync", byref(last), mib * MIB, other)
    if code == 0:
        cuda.cuMemFreeAsync(last.value, other)
        cuda.cuStreamSynchronize(other)
    return codes, free, code


def alloc_and_free_in_one_stream(cuda: Cuda, mib: int, times: int) -> int:
    """As many turns of {allocate, fill, free} in one stream as went well, with no wait in between."""
    stream = cuda.new("cuStreamCreate", 1)
    for done in range(times):
        address = c_uint64()
        if cuda.code("cuMemAllocAsync", byref(address), mib * MIB, stream):
            return done
        cuda.cuMemsetD8Async(address.value, 7, mib * MIB, stream)
        cuda.cuMemFreeAsync(address.value, stream)
    cuda.cuStreamSynchronize(stream)
    cuda.cuStreamDestroy_v2(stream)
    return times


def destroyed_streams(cuda: Cuda, mib: int) -> list[int]:
    """MiB that are taken by memory whose free is behind a parked stream's work: once the stream that freed
    it is destroyed, and once its work is done."""
    before = cuda.free_bytes()
    blocked, freeing = cuda.new("cuStreamCreate", 1), cuda.new("cuStreamCreate", 1)
    event = cuda.new("cuEventCreate", 2)
    address = cuda.alloc(mib * MIB)
    with parked(cuda, blocked):
        cuda.cuEventRecord(event, blocked)
        cuda.cuStreamWaitEvent(freeing, event, 0)
        cuda.cuMemFreeAsync(address, freeing)
        cuda.cuStreamDestroy_v2(freeing)
        cuda.cuStreamQuery(0)
        taken = [(before - cuda.free_bytes()) // MIB]
    cuda.cuCtxSynchronize()
    return [*taken, (before - cuda.free_bytes()) // MIB]


def frees_in_the_threads_own_stream(cuda: Cuda, mib: int, times: int) -> list[int]:
    """MiB that are taken by memory whose frees wait in the thread's own stream, and once that has moved."""
    per_thread = 2  # CU_STREAM_PER_THREAD
    before = cuda.free_bytes()
    addresses = [cuda.alloc(mib * MIB) for _ in range(times)]
    with parked(cuda, per_thread):
        for address in addresses:
            cuda.cuMemFreeAsync(address, per_thread)
        taken = [(before - cuda.free_bytes()) // MIB]
    end = time.monotonic() + 60  # a look marks the stream, and the next one finds the mark
    while (left := (before - cuda.free_bytes()) // MIB) and time.monotonic() < end:
        time.sleep(0.01)
    return [*taken, left]


def kept_by_its_threshold(cuda: Cuda, mib: int) -> list[int]:
    """MiB taken by a pool that keeps all: with an allocation, once that is freed, with another, once the pool
    is trimmed; then by memory outside of it, for which it makes way; and at the end."""
    before = cuda.free_bytes()
    pool = cuda.new("cuMemPoolCreate", pool_properties())
    cuda.cuMemPoolSetAttribute(pool, 4, byref(c_uint64(2**64 - 1)))
    stream = cuda.new("cuStreamCreate", 1)
    taken = []
    for trim in (False, True):
        address = cuda.new("cuMemAllocFromPoolAsync", mib * MIB, pool, stream)
        taken.append((before - cuda.free_bytes()) // MIB)
        cuda.cuMemFreeAsync(address, stream)
        cuda.cuStreamSynchronize(stream)
        if trim:
            cuda.cuMemPoolTrimTo(pool, 0)
        taken.append((before - cuda.free_bytes()) // MIB)
    address = cuda.new("cuMemAllocFromPoolAsync", mib * MIB, pool, stream)
    cuda.cuMemFreeAsync(address, stream)
    # What the pool keeps makes way.
    other = cuda.alloc(mib * MIB)
    taken.append((before - cuda.free_bytes()) // MIB)
    cuda.cuMemFree_v2(other)
    cuda.cuMemPoolDestroy(pool)
    return [*taken, (before - cuda.free_bytes()) // MIB]


def many_pools(cuda: Cuda, count: int) -> list[int]:
    """Codes of small allocations, each from a pool of its own."""
    pools = [cuda.new("cuMemPoolCreate", pool_properties()) for _ in range(count)]
    codes, addresses = [], []
    for pool in pools:
        address = c_uint64()
        codes.append(cuda.code("cuMemAllocFromPoolAsync", byref(address), 512, pool, 0))
        addresses.append(address.value)
    for address in filter(None, addresses):
        cuda.cuMemFreeAsync(address, 0)
    for pool in pools:
        cuda.cuMemPoolDestroy(pool)
    cuda.cuStreamSynchronize(0)
    return codes


def free_mib(cuda: Cuda) -> int:
    return cuda.free_bytes() // MIB


def alloc_codes(cuda: Cuda, sizes: list[int]) -> list[int]:
    return [cuda.code("cuMemAlloc_v2", byref(c_uint64()), mib * MIB) for mib in sizes]


def resident_threads(cuda: Cuda) -> int:
    multiprocessors, threads = 16, 39  # CU_DEVICE_ATTRIBUTE_...
    return int(
        cuda.new("cuDeviceGetAttribute", multiprocessors, 0, kind=c_int)
        * cuda.new("cuDeviceGetAttribute", threads, 0, kind=c_int)
    )


def load_text(cuda: Cuda, text: str) -> tuple[int, int]:
    """The code of a text's load, and MiB that it took."""
    before, module = cuda.free_bytes(), c_uint64()
    code = cuda.code("cuModuleLoadData", byref(module), ctypes.create_string_buffer(text.encode()))
    taken = (before - cuda.free_bytes()) // MIB
    if code == 0:
        cuda.cuModuleUnload(module.value)
    return code, taken


def framed(frame: int) -> str:
    """A kernel with a frame of so many bytes of local memory."""
    return f"""{HEADER}
.visible .entry framed(.param .u64 to)
{{
    .local .align 8 .b8 frame[{frame}];
    .reg .b64 %rd<6>;
    .reg .b32 %r<3>;
    ld.param.u64 %rd1, [to];
    mov.u32 %r1, %tid.x;
    cvt.u64.u32 %rd2, %r1;
    mov.u64 %rd3, frame;
    add.u64 %rd4, %rd3, %rd2;
    mov.u32 %r2, 7;
    st.local.u8 [%rd4], %r2;
    ret;
}}
"""


def launches(cuda: Cuda, frames: list[int], way: str) -> list[tuple[int, int]]:
    """For kernels with these frames: the code of a launch, and MiB that are taken since the first."""
    before, seen = cuda.free_bytes(), []
    modules = []
    for frame in frames:
        module = cuda.load(framed(frame))
        modules.append(module)
        kernel, to = cuda.kernel(module, "framed"), c_uint64(0)
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(to))
        if way == "graph":
            code = _by_graph(cuda, kernel, pointers)
        elif way == "cooperative":
            code = cuda.code("cuLaunchCooperativeKernel", kernel, 1, 1, 1, 1, 1, 1, 0, 0, pointers)
            code = code or cuda.code("cuCtxSynchronize")
        else:
            code = cuda.code("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, 0, pointers, None)
            code = code or cuda.code("cuCtxSynchronize")
        seen.append((code, round((before - cuda.free_bytes()) / MIB)))
    for module in modules:
        cuda.cuModuleUnload(module)
    return seen


def _by_graph(cuda: Cuda, kernel: int, pointers: ctypes.Array[ctypes.c_void_p]) -> int:
    graph = cuda.new("cuGraphCreate", 0)
    params = KernelParams(kernel, 1, 1, 1, 1, 1, 1, 0, ctypes.cast(pointers, ctypes.c_void_p))
    cuda.new("cuGraphAddKernelNode_v2", graph, None, 0, byref(params))
    launchable = c_uint64()
    code = cuda.code("cuGraphInstantiateWithFlags", byref(launchable), graph, 0)
    if code == 0:
        cuda.cuGraphLaunch(launchable.value, 0)
        code = cuda.code("cuCtxSynchronize")
        cuda.cuGraphExecDestroy(launchable.value)
    cuda.cuGraphDestroy(graph)
    return code
