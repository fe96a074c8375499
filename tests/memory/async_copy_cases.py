"""What the tests of asynchronous copies to pinned memory do with a driver.

A stream is held by a function of the program until the test lets it go on: what returns before that has not
waited for the stream.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_uint, c_uint64

from tests.softgpu.driver.raw import HOST_FUNCTION, NON_BLOCKING, NOT_READY, Cuda

from .array_cases import array_of, set_array
from .cases import DEVICE, HOST, Copy2D, Copy3D
from .shared_cases import KERNELS

HELD_S = 10.0
"""What a call that waits for a held stream waits at most, so that a test of it fails and ends."""
SIZE = 600_000
ROWS, PLANES, WIDTH, PITCH = 30, 4, 1000, 2000


class Held:
    """A stream that goes on when it is let."""

    def __init__(self, cuda: Cuda, stream: int) -> None:
        self._go, self.goes_on = threading.Event(), False
        self._function = HOST_FUNCTION(self._wait)
        cuda.cuLaunchHostFunc(stream, self._function, None)

    def _wait(self, _: int) -> None:
        self._go.wait(HELD_S)
        self.goes_on = True

    def let(self) -> None:
        self._go.set()

    @contextmanager
    def let_soon(self) -> Iterator[None]:
        """For calls that may wait for the stream."""
        timer = threading.Timer(0.2, self.let)
        timer.start()
        yield
        timer.join()


class Pinned:
    """Host memory that is pinned, or the program's own and registered."""

    def __init__(self, cuda: Cuda, size: int, registered: bool = False) -> None:
        self.cuda, self.registered = cuda, registered
        self.own = ctypes.create_string_buffer(size + 4096) if registered else None
        if self.own:
            self.address = (ctypes.addressof(self.own) + 4095) // 4096 * 4096
            cuda.cuMemHostRegister_v2(self.address, size, 0)
        else:
            self.address = int(cuda.new("cuMemHostAlloc", size, 0))
        self.bytes = (ctypes.c_ubyte * size).from_address(self.address)

    def end(self) -> None:
        (self.cuda.cuMemHostUnregister if self.registered else self.cuda.cuMemFreeHost)(self.address)


def pattern(size: int) -> bytes:
    return bytes(i * 7 % 251 for i in range(256)) * (size // 256) + bytes(size % 256)


def filled(cuda: Cuda, size: int) -> int:
    address = cuda.alloc(size)
    cuda.write(address, pattern(size))
    return address


def back(cuda: Cuda, form: str, to: int, source: int, stream: int) -> None:
    """One asynchronous copy, in one of the ways to ask for it."""
    if form == "flat":
        cuda.cuMemcpyDtoHAsync_v2(to, source, SIZE, stream)
    elif form == "by pointers":
        cuda.cuMemcpyAsync(to, source, SIZE, stream)
    else:
        box = Copy2D() if form == "two dimensions" else Copy3D()
        box.WidthInBytes, box.Height = WIDTH, ROWS
        box.srcMemoryType, box.srcDevice, box.srcPitch = DEVICE, source, PITCH
        box.dstMemoryType, box.dstHost, box.dstPitch = HOST, to, PITCH
        if isinstance(box, Copy3D):
            box.srcHeight = box.dstHeight = 2 * ROWS
            box.Depth = PLANES
            cuda.cuMemcpy3DAsync_v2(byref(box), stream)
        else:
            cuda.cuMemcpy2DAsync_v2(byref(box), stream)


def expected(form: str) -> bytes:
    whole, planes = pattern(SIZE), {"two dimensions": 1, "three dimensions": PLANES}.get(form, 0)
    if planes == 0:
        return whole
    result = bytearray(SIZE)
    for plane in range(planes):
        for row in range(ROWS):
            start = (plane * 2 * ROWS + row) * PITCH
            result[start : start + WIDTH] = whole[start : start + WIDTH]
    return bytes(result)


def a_copy_returns_before_its_stream_has_come_to_it(cuda: Cuda, form: str, registered: bool) -> object:
    stream, source = cuda.new("cuStreamCreate", NON_BLOCKING), filled(cuda, SIZE)
    pinned = Pinned(cuda, SIZE, registered)
    held = Held(cuda, stream)
    back(cuda, form, pinned.address, source, stream)
    early = (held.goes_on, bytes(pinned.bytes) == bytes(SIZE), cuda.code("cuStreamQuery", stream))
    held.let()
    cuda.cuStreamSynchronize(stream)
    there = bytes(pinned.bytes) == expected(form)
    pinned.end()
    return early, there


def a_copy_of_an_array_returns_before_its_stream_has_come_to_it(cuda: Cuda) -> object:
    stream, whole = cuda.new("cuStreamCreate", NON_BLOCKING), pattern(WIDTH * ROWS)
    pinned = Pinned(cuda, len(whole))
    with array_of(cuda, (WIDTH, ROWS, 0, 1, 1, 0)) as array:
        box = Copy2D()
        box.WidthInBytes, box.Height = WIDTH, ROWS
        box.srcMemoryType, box.srcHost, box.srcPitch = HOST, ctypes.cast(whole, ctypes.c_void_p).value, WIDTH
        set_array(box, "dst", array)
        cuda.cuMemcpy2D_v2(byref(box))
        back = Copy2D()
        back.WidthInBytes, back.Height = WIDTH, ROWS
        set_array(back, "src", array)
        back.dstMemoryType, back.dstHost, back.dstPitch = HOST, pinned.address, WIDTH
        held = Held(cuda, stream)
        cuda.cuMemcpy2DAsync_v2(byref(back), stream)
        early = held.goes_on
        with held.let_soon():
            pinned.end()  # it waits for the copy
        again = Pinned(cuda, len(whole))
        back.dstHost = again.address
        cuda.cuMemcpy2DAsync_v2(byref(back), stream)
        cuda.cuStreamSynchronize(stream)
        return early, held.goes_on, bytes(again.bytes) == whole


def copied_when_waited_for(cuda: Cuda, how: str) -> object:
    """Whether the bytes are there when a wait, or a question that says done, has returned."""
    stream, source = cuda.new("cuStreamCreate", 0), filled(cuda, SIZE)
    other = cuda.new("cuStreamCreate", NON_BLOCKING)
    pinned, event = Pinned(cuda, SIZE), cuda.new("cuEventCreate", 0)
    seen: list[bool] = []
    function = HOST_FUNCTION(lambda _: seen.append(bytes(pinned.bytes) == pattern(SIZE)))
    held = Held(cuda, stream)
    cuda.cuMemcpyDtoHAsync_v2(pinned.address, source, SIZE, stream)
    cuda.cuEventRecord(event, stream)
    if how == "a function of the stream":
        cuda.cuLaunchHostFunc(stream, function, None)
    early = held.goes_on
    with held.let_soon():
        if how == "the stream":
            cuda.cuStreamSynchronize(stream)
        elif how == "the context":
            cuda.cuCtxSynchronize()
        elif how == "an event":
            cuda.cuEventSynchronize(event)
        elif how == "questions":
            while (code := cuda.code("cuEventQuery", event)) == NOT_READY:
                time.sleep(0.001)
            assert code == 0
        elif how == "another stream":
            cuda.cuStreamWaitEvent(other, event, 0)
            cuda.cuStreamSynchronize(other)
        elif how == "a later copy":
            cuda.read(source, 4)
        elif how == "a function of the stream":
            cuda.cuStreamSynchronize(stream)
            return early, seen
    return early, [bytes(pinned.bytes) == pattern(SIZE)]


def memory_goes_before_a_wait(cuda: Cuda, registered: bool) -> object:
    """cuMemFreeHost waits; what is registered is the program's own, and may be used as soon as it is not."""
    stream, source = cuda.new("cuStreamCreate", NON_BLOCKING), filled(cuda, SIZE)
    pinned = Pinned(cuda, SIZE, registered)
    held = Held(cuda, stream)
    cuda.cuMemcpyDtoHAsync_v2(pinned.address, source, SIZE, stream)
    early = held.goes_on
    with held.let_soon():
        pinned.end()
    there = bytes(pinned.bytes) == pattern(SIZE) if registered else None
    return early, held.goes_on, there


def bytes_that_are_on_their_way_are_used(cuda: Cuda, by: str) -> object:
    """What comes after the copy in its stream reads what it has brought."""
    stream, source = cuda.new("cuStreamCreate", NON_BLOCKING), filled(cuda, SIZE)
    pinned, target = Pinned(cuda, SIZE), cuda.alloc(SIZE)
    add = cuda.kernel(cuda.load(KERNELS), "add_one")
    held = Held(cuda, stream)
    cuda.cuMemcpyDtoHAsync_v2(pinned.address, source, SIZE, stream)
    early = held.goes_on
    with held.let_soon():
        if by == "a copy in":
            cuda.cuMemcpyHtoDAsync_v2(target, pinned.address, SIZE, stream)
        elif by == "a kernel":
            cuda.launch(add, c_uint64(pinned.address), c_uint(16), block=(16, 1, 1), stream=stream)
            cuda.cuMemcpyDtoDAsync_v2(target, pinned.address, SIZE, stream)
        cuda.cuStreamSynchronize(stream)
    words = (c_uint * (SIZE // 4)).from_buffer_copy(pattern(SIZE))
    if by == "a kernel":
        words[:16] = [word + 1 for word in words[:16]]
    return early, cuda.read(target, SIZE) == bytes(words)


def copies_without_a_wait(cuda: Cuda, count: int, size: int) -> object:
    """All of them under way at once; the stream goes on by itself."""
    stream, source = cuda.new("cuStreamCreate", NON_BLOCKING), filled(cuda, size)
    pinned = Pinned(cuda, size)
    held = Held(cuda, stream)
    with held.let_soon():
        for _ in range(count):
            cuda.cuMemcpyDtoHAsync_v2(pinned.address, source, size, stream)
        cuda.cuStreamSynchronize(stream)
    there = bytes(pinned.bytes) == pattern(size)
    pinned.end()
    cuda.cuMemFree_v2(source)
    return there


def copies_while_the_oldest_is_held(cuda: Cuda, count: int) -> object:
    """More than may be under way, all of them done but the first."""
    held_stream, stream = (cuda.new("cuStreamCreate", NON_BLOCKING) for _ in range(2))
    source, first, second = filled(cuda, 4), Pinned(cuda, 4), Pinned(cuda, 4)
    held = Held(cuda, held_stream)
    cuda.cuMemcpyDtoHAsync_v2(first.address, source, 4, held_stream)
    for _ in range(count):
        cuda.cuMemcpyDtoHAsync_v2(second.address, source, 4, stream)
    cuda.cuStreamSynchronize(stream)
    early = held.goes_on
    held.let()
    cuda.cuCtxSynchronize()
    return early, bytes(first.bytes) == bytes(second.bytes) == pattern(4)


def copies_in_one_stream_while_another_is_held(cuda: Cuda) -> object:
    held_stream, stream = (cuda.new("cuStreamCreate", NON_BLOCKING) for _ in range(2))
    source, first, second = filled(cuda, SIZE), Pinned(cuda, SIZE), Pinned(cuda, SIZE)
    held = Held(cuda, held_stream)
    cuda.cuMemcpyDtoHAsync_v2(first.address, source, SIZE, held_stream)
    cuda.cuMemcpyDtoHAsync_v2(second.address, source, SIZE, stream)
    cuda.cuStreamSynchronize(stream)
    seen = held.goes_on, bytes(first.bytes) == bytes(SIZE), bytes(second.bytes) == pattern(SIZE)
    held.let()
    cuda.cuCtxSynchronize()
    return seen, bytes(first.bytes) == pattern(SIZE)


def source_and_stream_go_before_the_copy(cuda: Cuda) -> object:
    stream = cuda.new("cuStreamCreate", NON_BLOCKING)
    source = cuda.new("cuMemAllocAsync", SIZE, stream)
    cuda.cuMemcpyHtoDAsync_v2(source, pattern(SIZE), SIZE, stream)
    pinned, held = Pinned(cuda, SIZE), Held(cuda, stream)
    cuda.cuMemcpyDtoHAsync_v2(pinned.address, source, SIZE, stream)
    cuda.cuMemFreeAsync(source, stream)
    cuda.cuStreamDestroy_v2(stream)
    early = held.goes_on
    held.let()
    cuda.cuCtxSynchronize()
    return early, bytes(pinned.bytes) == pattern(SIZE)


def a_graph_reads_what_a_copy_brings(cuda: Cuda) -> object:
    stream, source = cuda.new("cuStreamCreate", NON_BLOCKING), filled(cuda, SIZE)
    pinned, target = Pinned(cuda, SIZE), cuda.alloc(SIZE)
    cuda.cuStreamBeginCapture_v2(stream, 0)
    cuda.cuMemcpyHtoDAsync_v2(target, pinned.address, SIZE, stream)
    graph = c_uint64()
    cuda.cuStreamEndCapture(stream, byref(graph))
    made = cuda.new("cuGraphInstantiateWithFlags", graph.value, 0)
    held = Held(cuda, stream)
    cuda.cuMemcpyDtoHAsync_v2(pinned.address, source, SIZE, stream)
    early = held.goes_on
    with held.let_soon():
        cuda.cuGraphLaunch(made, stream)
        cuda.cuStreamSynchronize(stream)
    return early, cuda.read(target, SIZE) == pattern(SIZE)
