"""What the tests of values that streams write and wait for do with a driver. Each returns what is seen."""

from __future__ import annotations

import ctypes
import struct
import threading
from ctypes import c_int, c_uint64, c_void_p

from tests.softgpu.driver import ptx
from tests.softgpu.driver.raw import NON_BLOCKING, NOT_READY, Cuda

WAIT32, WRITE32, FLUSH, WAIT64, WRITE64, BARRIER, REDUCE = 1, 2, 3, 4, 5, 6, 8
GEQ, EQ, AND, NOR, FLUSH_AFTER = 0, 1, 2, 3, 1 << 30
ATTRIBUTES = (92, 93, 94, 98, 122, 123)


def zeros(cuda: Cuda, size: int = 64) -> int:
    address = cuda.alloc(size)
    cuda.write(address, bytes(size))
    return address


def stream(cuda: Cuda) -> int:
    return int(cuda.new("cuStreamCreate", NON_BLOCKING))


def batch(*operations: tuple[int, ...]) -> object:
    """CUstreamBatchMemOpParams: operation, address, value, flags."""
    packed = b""
    for kind, *rest in operations:
        if kind == BARRIER:
            packed += struct.pack("<II40x", kind, *rest)
        else:
            address, value, flags = (*rest, 0)[:3]
            packed += struct.pack("<I4xQQI4xQ8x", kind, address, value, flags, 0)
    return ctypes.create_string_buffer(packed, len(packed))


def what_is_written(cuda: Cuda) -> object:
    memory, own = zeros(cuda), stream(cuda)
    codes = [
        cuda.code("cuStreamWriteValue32_v2", own, memory, 0x01020304, 0),
        cuda.code("cuStreamWriteValue64_v2", own, memory + 8, 0x1112131415161718, 0),
        cuda.code("cuStreamWriteValue32_v2_ptsz", 0, memory + 16, 5, 0),
        cuda.code(
            "cuStreamBatchMemOp_v2",
            own,
            4,
            batch(
                (WRITE32, memory + 24, 6), (BARRIER, 1), (WAIT32, memory + 24, 6), (WRITE64, memory + 32, 7)
            ),
            0,
        ),
        cuda.code("cuCtxSynchronize"),
    ]
    return codes, cuda.read(memory, 40)


def a_stream_waits(cuda: Cuda, width: int, compare: int, value: int, others: list[int], met: int) -> object:
    """Whether the stream still waits with each of `others` there, and what it did once `met` was there."""
    memory, result, waiting = zeros(cuda), zeros(cuda), stream(cuda)
    writer, event, follower = stream(cuda), cuda.new("cuEventCreate", 2), stream(cuda)
    fill = cuda.kernel(cuda.load(ptx.HEADER + ptx.FILL), "fill")

    def put(what: int) -> None:
        getattr(cuda, f"cuStreamWriteValue{width}_v2")(writer, memory, what, 0)
        cuda.cuStreamSynchronize(writer)

    put(others[0])
    getattr(cuda, f"cuStreamWaitValue{width}_v2")(waiting, memory, value, compare)
    assert cuda.launch(fill, c_uint64(result), c_int(7), c_int(8), block=(8, 1, 1), stream=waiting) == 0
    cuda.cuEventRecord(event, waiting)
    cuda.cuStreamWaitEvent(follower, event, 0)
    seen = []
    for other in others:
        put(other)
        states = [cuda.code("cuStreamQuery", waiting), cuda.code("cuEventQuery", event)]
        seen.append([*states, cuda.code("cuStreamQuery", follower)])
    put(met)
    cuda.cuStreamSynchronize(follower)
    return seen, cuda.code("cuStreamQuery", waiting), cuda.read(result, 32)


def each_wait_is_for_what_comes_after_what_was_before(cuda: Cuda) -> object:
    """A value of before does not end the second wait of a stream that takes it away in between."""
    memory, waiting, writer = zeros(cuda), stream(cuda), stream(cuda)
    cuda.cuStreamWaitValue32_v2(waiting, memory, 1, EQ)
    cuda.cuStreamWriteValue32_v2(waiting, memory, 0, 0)
    cuda.cuStreamWriteValue32_v2(waiting, memory + 4, 1, 0)
    cuda.cuStreamWaitValue32_v2(waiting, memory, 1, EQ)
    cuda.cuStreamWriteValue32_v2(writer, memory, 1, 0)
    cuda.cuStreamWaitValue32_v2(writer, memory + 4, 1, EQ)
    cuda.cuStreamSynchronize(writer)
    states = [cuda.code("cuStreamQuery", waiting), int.from_bytes(cuda.read(memory, 4), "little")]
    cuda.cuStreamWriteValue32_v2(writer, memory, 1, 0)
    cuda.cuStreamSynchronize(waiting)
    return states


def many_waits_hold_up_no_other(cuda: Cuda) -> object:
    memory, result, working = zeros(cuda, 4096), zeros(cuda), stream(cuda)
    streams = [stream(cuda) for _ in range(200)]
    for number, own in enumerate(streams):
        cuda.cuStreamWaitValue32_v2(own, memory + 4 * number, number + 1, EQ)
    fill = cuda.kernel(cuda.load(ptx.HEADER + ptx.FILL), "fill")
    assert cuda.launch(fill, c_uint64(result), c_int(3), c_int(8), block=(8, 1, 1), stream=working) == 0
    cuda.cuStreamSynchronize(working)
    waiting = sum(cuda.code("cuStreamQuery", own) == NOT_READY for own in streams)
    for number in range(len(streams)):
        cuda.cuStreamWriteValue32_v2(working, memory + 4 * number, number + 1, 0)
    cuda.cuCtxSynchronize()
    return waiting, [cuda.code("cuStreamQuery", own) for own in streams], cuda.read(result, 4)


def threads_wait_for_each_other(cuda: Cuda) -> object:
    """Eight threads hand a number on, round after round: each waits for its own and writes the next one's."""
    count, rounds = 8, 25
    memory = zeros(cuda)
    context = cuda.new("cuCtxGetCurrent")
    codes: list[int] = []

    def hand_on(number: int) -> None:
        cuda.cuCtxSetCurrent(context)
        own = stream(cuda)
        for turn in range(1, rounds + 1):
            codes.append(cuda.code("cuStreamWaitValue32_v2", own, memory + 4 * number, turn, GEQ))
            following = (number + 1) % count
            due = turn + 1 if following == 0 else turn
            codes.append(cuda.code("cuStreamWriteValue32_v2", own, memory + 4 * following, due, 0))
        codes.append(cuda.code("cuStreamSynchronize", own))

    threads = [threading.Thread(target=hand_on, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    begin = stream(cuda)
    cuda.cuStreamWriteValue32_v2(begin, memory, 1, 0)
    for thread in threads:
        thread.join()
    return sorted(set(codes)), len(codes), list(memoryview(cuda.read(memory, 4 * count)).cast("I"))


def wrong_memory_operations(cuda: Cuda) -> object:
    memory, own, host = zeros(cuda), stream(cuda), c_void_p()
    managed = cuda.new("cuMemAllocManaged", 64, 1)
    ctypes.memset(managed, 0, 64)
    gone = cuda.alloc(64)
    cuda.cuMemFree_v2(gone)
    nothing = ctypes.create_string_buffer(48 * 300)
    one = batch((WRITE32, memory, 1))
    codes = [
        cuda.code("cuStreamWaitValue32_v2", own, memory + 2, 0, 0),
        cuda.code("cuStreamWaitValue64_v2", own, memory + 4, 0, 0),
        cuda.code("cuStreamWriteValue32_v2", own, 0, 0, 0),
        cuda.code("cuStreamWriteValue32_v2", own, gone, 0, 0),
        cuda.code("cuStreamWriteValue32_v2", own, managed, 0, 0),
        cuda.code("cuStreamWriteValue32_v2", own, memory, 0, 1),
        cuda.code("cuStreamWaitValue32_v2", own, memory, 0, 4),
        cuda.code("cuStreamWaitValue32_v2", own, memory, 0, FLUSH_AFTER),
        cuda.code("cuStreamWaitValue32_v2", 77, memory, 0, 0),
        cuda.code("cuStreamBatchMemOp_v2", own, 256, nothing, 0),
        cuda.code("cuStreamBatchMemOp_v2", own, 1, nothing, 0),
        cuda.code("cuStreamBatchMemOp_v2", own, 1, None, 0),
        cuda.code("cuStreamBatchMemOp_v2", own, 1, one, 1),
        cuda.code("cuStreamBatchMemOp_v2", own, 1, batch((FLUSH, 0, 0)), 0),
        cuda.code("cuStreamBatchMemOp_v2", own, 1, batch((REDUCE, 0, 0)), 0),
        cuda.code("cuStreamBatchMemOp_v2", own, 2, batch((WRITE32, memory, 9), (WRITE32, memory + 1, 9)), 0),
        cuda.code("cuStreamWaitValue32", own, memory, 0, 0),
        cuda.code("cuStreamSynchronize", own),
    ]
    del host
    attributes = [cuda.new("cuDeviceGetAttribute", attribute, 0, kind=c_int) for attribute in ATTRIBUTES]
    return codes, cuda.read(memory, 4), attributes


def a_captured_stream_takes_none(cuda: Cuda) -> object:
    memory, own, graph = zeros(cuda), stream(cuda), c_uint64()
    cuda.cuStreamBeginCapture_v2(own, 0)
    codes = [cuda.code("cuStreamWriteValue32_v2", own, memory, 1, 0)]
    codes.append(cuda.code("cuStreamEndCapture", own, ctypes.byref(graph)))
    return codes


def values_in_host_memory(cuda: Cuda) -> object:
    """A value that a stream writes to pinned memory, and one that it waits for there."""
    pointer, own = c_void_p(), stream(cuda)
    cuda.cuMemHostAlloc(ctypes.byref(pointer), 64, 2)
    assert pointer.value
    ctypes.memset(pointer.value, 0, 64)
    on_device = cuda.new("cuMemHostGetDevicePointer_v2", pointer, 0)
    written = cuda.code("cuStreamWriteValue32_v2", own, on_device, 42, 0)
    cuda.cuStreamSynchronize(own)
    waits = cuda.code("cuStreamWaitValue32_v2", own, on_device, 42, EQ)
    cuda.cuStreamSynchronize(own)
    return written, ctypes.string_at(pointer.value, 4), waits


def waits_for_ever(cuda: Cuda) -> bool:
    """Leaves a stream, which waits, to the end of its process."""
    memory, own = zeros(cuda), cuda.new("cuStreamCreate", 0)
    cuda.cuStreamWaitValue32_v2(own, memory, 1, EQ)
    return cuda.code("cuStreamQuery", own) == NOT_READY


def fills_memory(cuda: Cuda) -> object:
    memory = zeros(cuda)
    cuda.cuMemsetD8_v2(memory, 9, 64)
    cuda.cuCtxSynchronize()
    return cuda.read(memory, 4)
