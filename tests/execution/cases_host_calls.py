"""What the tests of functions that streams call do with a driver. Each returns what a program sees."""

from __future__ import annotations

import ctypes
import threading
import time
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

from tests.softgpu.driver import ptx
from tests.softgpu.driver.raw import HOST_FUNCTION, NOT_READY, STREAM_CALLBACK, Cuda

TEXT = ptx.HEADER + ptx.FILL
FORMS = ("cuLaunchHostFunc", "cuLaunchHostFunc_ptsz", "cuLaunchHostFunc_v2", "cuLaunchHostFunc_v2_ptsz")


def called_in_the_streams_order(cuda: Cuda) -> object:
    stream, to = cuda.new("cuStreamCreate", 1), cuda.alloc(40)
    fill = cuda.kernel(cuda.load(TEXT), "fill")
    seen: list[object] = []
    main = threading.get_ident()
    functions = [HOST_FUNCTION(lambda data: seen.append((data, threading.get_ident() != main)))]
    host = ctypes.create_string_buffer(40)
    for i in range(1, 101):
        cuda.launch(fill, c_uint64(to), c_uint(i), c_uint(10), block=(32, 1, 1), stream=stream)
        form = FORMS[i % 4]
        cuda.code(form, stream, functions[0], c_void_p(i), *([i % 2] if "_v2" in form else []))
    cuda.cuStreamSynchronize(stream)
    order = list(seen)
    callback = STREAM_CALLBACK(lambda which, status, data: seen.append((which == stream, status, data)))
    for form in ("cuStreamAddCallback", "cuStreamAddCallback_ptsz"):
        cuda.code(form, stream, callback, c_void_p(7), 0)
    cuda.cuStreamSynchronize(stream)
    cuda.cuMemcpyDtoH_v2(host, to, 40)
    return order, seen[len(order) :], host.raw


def a_stream_waits_for_its_function(cuda: Cuda) -> object:
    first, second = cuda.new("cuStreamCreate", 1), cuda.new("cuStreamCreate", 1)
    go = threading.Event()
    function = HOST_FUNCTION(lambda data: go.wait(60) and None)
    cuda.cuLaunchHostFunc(first, function, None)
    states = [cuda.code("cuStreamQuery", first), cuda.code("cuStreamQuery", second)]
    # The program's own calls go on, in other streams too.
    to = cuda.alloc(16)
    cuda.cuMemsetD8Async(to, 5, 16, second)
    cuda.cuStreamSynchronize(second)
    go.set()
    cuda.cuStreamSynchronize(first)
    states.append(cuda.code("cuStreamQuery", first))
    return states, cuda.read(to, 16)


def other_streams_go_on_while_many_wait_in_functions(cuda: Cuda) -> object:
    streams = [cuda.new("cuStreamCreate", 1) for _ in range(24)]
    go = threading.Event()
    function = HOST_FUNCTION(lambda data: go.wait(120) and None)
    for stream in streams:
        cuda.cuLaunchHostFunc(stream, function, None)
    to, other = cuda.alloc(16), cuda.new("cuStreamCreate", 1)
    cuda.cuMemsetD8Async(to, 7, 16, other)
    # Not by a call that waits: such a call may run the stream's work itself.
    end = time.monotonic() + 60
    while cuda.code("cuStreamQuery", other) == NOT_READY and time.monotonic() < end:
        time.sleep(0.001)
    done = cuda.code("cuStreamQuery", other)
    go.set()
    for stream in streams:
        cuda.cuStreamSynchronize(stream)
    return done, cuda.read(to, 16)


def what_it_may_not_call(cuda: Cuda) -> object:
    codes: list[int] = []
    event, stream = cuda.new("cuEventCreate", 0), cuda.new("cuStreamCreate", 0)

    def calls(data: object) -> None:
        pointer, count = c_uint64(), c_int()
        codes.extend(
            [
                cuda.code("cuCtxSynchronize"),
                cuda.code("cuStreamSynchronize", stream),
                cuda.code("cuMemAlloc_v2", byref(pointer), 16),
                cuda.code("cuEventRecord", event, stream),
                cuda.code("cuEventSynchronize", event),
                cuda.code("cuLaunchHostFunc", stream, function, None),
                cuda.code("cuDeviceGetCount", byref(count)),
            ]
        )

    function = HOST_FUNCTION(calls)
    cuda.cuLaunchHostFunc(stream, function, None)
    cuda.cuStreamSynchronize(stream)
    return codes


def what_it_writes_is_what_a_later_copy_sends(cuda: Cuda) -> object:
    pinned, to, stream = c_uint64(), cuda.alloc(64), cuda.new("cuStreamCreate", 1)
    cuda.cuMemHostAlloc(byref(pinned), 64, 0)
    function = HOST_FUNCTION(lambda data: ctypes.memset(pinned.value, 0x5A, 64) and None)
    results = []
    for _ in range(20):
        ctypes.memset(pinned.value, 0, 64)
        cuda.cuLaunchHostFunc(stream, function, None)
        cuda.cuMemcpyHtoDAsync_v2(to, pinned, 64, stream)
        cuda.cuStreamSynchronize(stream)
        results.append(cuda.read(to, 64))
    cuda.cuMemFreeHost(pinned)
    return set(results)


def wrong_arguments(cuda: Cuda) -> object:
    stream = cuda.new("cuStreamCreate", 1)
    function, callback = HOST_FUNCTION(lambda data: None), STREAM_CALLBACK(lambda *_: None)
    return [
        cuda.code("cuLaunchHostFunc", stream, None, None),
        cuda.code("cuLaunchHostFunc", 77, function, None),
        cuda.code("cuLaunchHostFunc_v2", stream, function, None, 9),
        cuda.code("cuStreamAddCallback", stream, callback, None, 1),
        cuda.code("cuStreamAddCallback", stream, None, None, 0),
    ]


def callbacks_of_a_failed_context(cuda: Cuda) -> object:
    """Ends the context for good: for a process of its own."""
    stream = cuda.new("cuStreamCreate", 1)
    seen: list[int] = []
    told = threading.Event()

    def callback(_stream: int, status: int, data: int) -> None:
        seen.append(status)
        told.set()

    function = HOST_FUNCTION(lambda data: seen.append(-1))
    wild = cuda.kernel(cuda.load(ptx.HEADER + ptx.WILD), "wild")
    cuda.launch(wild, stream=stream)
    cuda.code("cuLaunchHostFunc", stream, function, None)
    pinned = STREAM_CALLBACK(callback)
    code = cuda.code("cuStreamAddCallback", stream, pinned, None, 0)
    sticky = cuda.code("cuStreamSynchronize", stream)
    if code == 0:
        told.wait(60)
    return sticky, [status for status in seen if status != 700]


def leave_one_pending(cuda: Cuda) -> int:
    """Returns while a function waits for what never comes."""
    stream = cuda.new("cuStreamCreate", 1)
    started = threading.Event()

    def wait(data: object) -> None:
        started.set()
        threading.Event().wait()

    keep = HOST_FUNCTION(wait)
    cuda.cuLaunchHostFunc(stream, keep, None)
    globals()["kept"] = keep
    started.wait(60)
    return int(cuda.code("cuStreamQuery", stream))


def free_bytes(cuda: Cuda) -> int:
    free, total = c_size_t(), c_size_t()
    cuda.cuMemGetInfo_v2(byref(free), byref(total))
    return free.value


def leave_many_pending_and_wait_at_the_very_end(cuda: Cuda) -> int:
    """The process then ends as usual; what waits for the stream runs after the interpreter has ended."""
    stream = cuda.new("cuStreamCreate", 1)
    keep = HOST_FUNCTION(lambda data: None)
    globals()["kept"] = keep
    wait = ctypes.cast(cuda.library.cuCtxSynchronize, c_void_p)
    ctypes.CDLL(None).__cxa_atexit(wait, None, None)
    for _ in range(5000):
        cuda.cuLaunchHostFunc(stream, keep, None)
    return 0


def copy_behind_a_function_of_a_failed_context(cuda: Cuda) -> int:
    """Ends the context for good: for a process of its own."""
    stream, to, data = cuda.new("cuStreamCreate", 1), cuda.alloc(16), ctypes.create_string_buffer(16)
    function = HOST_FUNCTION(lambda data: None)
    wild = cuda.kernel(cuda.load(ptx.HEADER + ptx.WILD), "wild")
    cuda.launch(wild, stream=stream)
    cuda.code("cuLaunchHostFunc", stream, function, None)
    cuda.code("cuMemcpyHtoDAsync_v2", to, data, 16, stream)
    return int(cuda.code("cuStreamSynchronize", stream))
