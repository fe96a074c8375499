"""What the tests of allocation do with a driver."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from ctypes import byref, c_size_t, c_uint, c_uint64

from tests.graphs.driver import end_capture
from tests.softgpu.driver.raw import HOST_FUNCTION, Cuda


def allocation_mistakes(cuda: Cuda) -> list[int]:
    out, pitch, stream = c_uint64(), c_size_t(), cuda.new("cuStreamCreate", 1)
    return [
        cuda.code("cuMemAlloc_v2", None, 16),
        cuda.code("cuMemAlloc_v2", byref(out), 0),
        cuda.code("cuMemAllocPitch_v2", byref(out), byref(pitch), 100, 4, 3),
        cuda.code("cuMemAllocPitch_v2", byref(out), byref(pitch), 100, 0, 4),
        cuda.code("cuMemAllocManaged", byref(out), 16, 4),  # CU_MEM_ATTACH_SINGLE
        cuda.code("cuMemAllocAsync", byref(out), 0, stream),
        cuda.code("cuMemAllocAsync", byref(out), 16, 0x1234),
        cuda.code("cuMemFree_v2", 0x1234),
        cuda.code("cuMemFree_v2", 0),
        cuda.code("cuMemFreeAsync", 0x1234, stream),
        cuda.code("cuMemFreeAsync", 0, 0x1234),
        cuda.code("cuMemFreeAsync", 0, stream),
        cuda.code("cuMemHostAlloc", byref(out), 16, 8),
        cuda.code("cuMemFreeHost", None),
        cuda.code("cuMemGetInfo_v2", byref(pitch), None),
    ]


def registered_memory(cuda: Cuda) -> list[int]:
    own = ctypes.create_string_buffer(3 * 4096)
    base = (ctypes.addressof(own) + 4095) // 4096 * 4096
    flags, device = c_uint(), c_uint64()
    codes = [
        cuda.code("cuMemHostRegister_v2", base, 0, 0),
        cuda.code("cuMemHostRegister_v2", base, 4096, 4),  # of other hardware
        cuda.code("cuMemHostRegister_v2", base, 4096, 64),
        cuda.code("cuMemHostRegister_v2", 2**64 - 4096, 2**63, 0),
        cuda.code("cuMemHostRegister", base, 4096, 1),
        cuda.code("cuMemHostRegister_v2", base, 4096, 0),
        cuda.code("cuMemHostGetFlags", byref(flags), base + 8),
        cuda.code("cuMemHostGetDevicePointer_v2", byref(device), base, 1),
        cuda.code("cuMemFreeHost", base),
        cuda.code("cuMemHostUnregister", base + 8),
        cuda.code("cuMemHostUnregister", base),
        cuda.code("cuMemHostUnregister", base),
        cuda.code("cuMemHostGetFlags", byref(c_uint()), base),
    ]
    return [*codes, flags.value]


def allocation_in_a_capture(cuda: Cuda) -> list[int]:
    """What is not in the order of a stream is refused while a capture is global."""
    stream, out, pitch, graph = cuda.new("cuStreamCreate", 1), c_uint64(), c_size_t(), c_uint64()
    codes = []
    for name, arguments in (
        ("cuMemAlloc_v2", (16,)),
        ("cuMemAllocPitch_v2", (byref(pitch), 100, 4, 4)),
        ("cuMemAllocManaged", (16, 1)),
    ):
        cuda.cuStreamBeginCapture_v2(stream, 0)
        codes.append(cuda.code(name, byref(out), *arguments))
        cuda.code("cuStreamEndCapture", stream, byref(graph))
    cuda.cuStreamDestroy_v2(stream)
    return codes


def _at_once(cuda: Cuda, body: Callable[[], int]) -> list[int]:
    """The answers of two threads that have the context current, in order."""
    context, together = cuda.new("cuCtxGetCurrent"), threading.Barrier(2)
    codes: list[int] = []

    def works() -> None:
        cuda.cuCtxSetCurrent(context)
        together.wait()
        codes.append(body())

    threads = [threading.Thread(target=works) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(codes)


def host_memory_of_two_threads(cuda: Cuda) -> list[list[int]]:
    """What threads are told that free, register and unregister the same memory at the same time."""
    own = ctypes.create_string_buffer(3 * 4096)
    base = (ctypes.addressof(own) + 4095) // 4096 * 4096
    pinned = cuda.new("cuMemHostAlloc", 4096, 0)
    return [
        _at_once(cuda, lambda: cuda.code("cuMemFreeHost", pinned)),
        _at_once(cuda, lambda: cuda.code("cuMemHostRegister_v2", base, 4096, 0)),
        _at_once(cuda, lambda: cuda.code("cuMemHostUnregister", base)),
    ]


def two_threads_free_what_a_graph_has_yet_to_write(cuda: Cuda) -> list[int]:
    """Both wait for the graph, which takes a while."""
    stream, pinned = cuda.new("cuStreamCreate", 1), cuda.new("cuMemHostAlloc", 4096, 0)
    sleep = HOST_FUNCTION(lambda data: time.sleep(0.5))
    device = cuda.alloc(4096)
    cuda.cuStreamBeginCapture_v2(stream, 2)
    cuda.cuLaunchHostFunc(stream, sleep, None)
    cuda.cuMemcpyDtoHAsync_v2(pinned, device, 4096, stream)
    graph = cuda.new("cuGraphInstantiateWithFlags", end_capture(cuda, stream), 0)
    cuda.cuGraphLaunch(graph, stream)
    codes = _at_once(cuda, lambda: cuda.code("cuMemFreeHost", pinned))
    cuda.cuStreamSynchronize(stream)
    cuda.cuGraphExecDestroy(graph)
    return codes
