"""Captures: who takes part, what ends them, and what programs are told of them."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import partial

from tests.softgpu.driver.raw import HOST_FUNCTION, Cuda

from .driver import BYTES, KERNEL, WORDS, Work, handles, listed

GLOBAL, THREAD_LOCAL, RELAXED = range(3)


def _status(cuda: Cuda, stream: int) -> int:
    status = c_int()
    cuda.cuStreamIsCapturing(stream, byref(status))
    return status.value


def _in_thread(cuda: Cuda, body: Callable[[], int]) -> int:
    """The answer of a call in a thread of its own, with the context current."""
    context = cuda.new("cuCtxGetCurrent")
    answer: list[int] = []

    def run() -> None:
        cuda.cuCtxSetCurrent(context)
        answer.append(body())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return answer[0]


def ended_by(cuda: Cuda) -> dict[str, tuple[int, int, int]]:
    """The answer to what a graph cannot hold, the capture's state after it, and how the capture ends."""
    work, space = Work(cuda), cuda.alloc(BYTES)
    host = ctypes.create_string_buffer(BYTES)
    before = work.event()
    other = work.stream()
    cuda.cuEventRecord(before, other)
    blocking = cuda.new("cuStreamCreate", 0)

    def captured_event(stream: int) -> int:
        event = work.event()
        cuda.cuEventRecord(event, stream)
        return event

    def merge(stream: int) -> int:
        second = work.stream()
        cuda.cuStreamBeginCapture_v2(second, RELAXED)
        code = cuda.code("cuStreamWaitEvent", stream, captured_event(second), 0)
        cuda.code("cuStreamEndCapture", second, byref(c_uint64()))
        return code

    calls: dict[str, Callable[[int], int]] = {
        "synchronize": lambda s: cuda.code("cuStreamSynchronize", s),
        "query": lambda s: cuda.code("cuStreamQuery", s),
        "synchronize all": lambda _: cuda.code("cuCtxSynchronize"),
        "allocate": lambda _: cuda.code("cuMemAlloc_v2", byref(c_uint64()), 64),
        "event of the capture": lambda s: cuda.code("cuEventQuery", captured_event(s)),
        "wait for such an event": lambda s: cuda.code("cuEventSynchronize", captured_event(s)),
        "another event": lambda _: cuda.code("cuEventQuery", before),
        "event from outside": lambda s: cuda.code("cuStreamWaitEvent", s, before, 0),
        "merge": merge,
        "memset on the default stream": lambda _: cuda.code("cuMemsetD8Async", space, 1, 4, 0),
        "copy that waits": lambda _: cuda.code("cuMemcpyDtoH_v2", host, space, 4),
        "nothing": lambda _: 0,
    }
    seen = {}
    for name, call in calls.items():
        cuda.cuStreamBeginCapture_v2(blocking, GLOBAL)
        code = call(blocking)
        state = _status(cuda, blocking)
        seen[name] = (code, state, cuda.code("cuStreamEndCapture", blocking, byref(c_uint64())))
    return seen


def modes(cuda: Cuda) -> object:
    """The answer to an allocation, by the capture's mode, the thread's, and whether it captures."""
    work, stream = Work(cuda), cuda.new("cuStreamCreate", 1)
    seen: list[object] = []

    def allocate(mode: int) -> int:
        swapped, address = c_uint(mode), c_uint64()
        cuda.cuThreadExchangeStreamCaptureMode(byref(swapped))
        code = cuda.code("cuMemAlloc_v2", byref(address), 64)
        cuda.cuThreadExchangeStreamCaptureMode(byref(swapped))
        if code == 0:
            cuda.code("cuMemFree_v2", address.value)
        return int(code)

    for capture in (GLOBAL, THREAD_LOCAL, RELAXED):
        for thread in (GLOBAL, THREAD_LOCAL, RELAXED):
            for here in (True, False):
                cuda.cuStreamBeginCapture_v2(stream, capture)
                code = allocate(thread) if here else _in_thread(cuda, partial(allocate, thread))
                seen.append((capture, thread, here, code))
                cuda.code("cuStreamEndCapture", stream, byref(c_uint64()))
    cuda.cuStreamBeginCapture_v2(stream, GLOBAL)
    seen.append(_in_thread(cuda, lambda: cuda.code("cuStreamEndCapture", stream, byref(c_uint64()))))
    work.captured(stream)
    cuda.cuStreamBeginCapture_v2(stream, RELAXED)
    seen.append(_in_thread(cuda, lambda: cuda.code("cuStreamEndCapture", stream, byref(c_uint64()))))
    return seen


def forks(cuda: Cuda) -> object:
    work, seen = Work(cuda), []
    stream, other, space = work.stream(), work.stream(), cuda.alloc(BYTES)
    fork, join = work.event(), work.event()
    for joined in (True, False):
        cuda.cuStreamBeginCapture_v2(stream, GLOBAL)
        cuda.cuEventRecord(fork, stream)
        cuda.cuStreamWaitEvent(other, fork, 0)
        cuda.cuMemsetD8Async(space, 1, 4, other)
        seen += [_status(cuda, other), cuda.code("cuStreamEndCapture", other, byref(c_uint64()))]
        if joined:
            cuda.cuEventRecord(join, other)
            cuda.cuStreamWaitEvent(stream, join, 0)
        seen += [cuda.code("cuStreamEndCapture", stream, byref(c_uint64())), _status(cuda, other)]
    for joined in (True, False):  # a branch's stream may go before the capture ends
        branch = work.stream()
        cuda.cuStreamBeginCapture_v2(stream, GLOBAL)
        cuda.cuEventRecord(fork, stream)
        cuda.cuStreamWaitEvent(branch, fork, 0)
        cuda.cuMemsetD8Async(space, 1, 4, branch)
        if joined:
            cuda.cuEventRecord(join, branch)
            cuda.cuStreamWaitEvent(stream, join, 0)
        cuda.cuStreamDestroy_v2(branch)
        seen.append(cuda.code("cuStreamEndCapture", stream, byref(c_uint64())))
    seen.append(cuda.code("cuStreamEndCapture", stream, byref(c_uint64())))
    seen.append(cuda.code("cuStreamBeginCapture_v2", 0, GLOBAL))
    cuda.cuStreamBeginCapture_v2(stream, GLOBAL)
    seen.append(cuda.code("cuStreamBeginCapture_v2", stream, GLOBAL))
    cuda.cuStreamEndCapture(stream, byref(c_uint64()))
    return seen


def told(cuda: Cuda) -> object:
    """What is told of a capture under way, and that a program may change what its next node waits for."""
    work, space = Work(cuda), cuda.alloc(BYTES)
    stream = work.stream()
    cuda.cuStreamBeginCapture_v2(stream, THREAD_LOCAL)
    cuda.cuMemsetD32Async(space, 4, WORDS, stream)
    cuda.cuLaunchKernel(work.fill, 1, 1, 1, WORDS, 1, 1, 0, stream, work.fill_arguments(space, 2), None)
    status, number, graph, count = c_int(), c_uint64(), c_uint64(), c_size_t()
    nodes, edges = c_void_p(), c_void_p()
    cuda.cuStreamGetCaptureInfo_v3(
        stream, byref(status), byref(number), byref(graph), byref(nodes), byref(edges), byref(count)
    )
    last = ctypes.cast(nodes, ctypes.POINTER(c_uint64))[0]
    kind = c_uint()
    cuda.cuGraphNodeGetType(last, byref(kind))
    seen: list[object] = [
        status.value,
        number.value > 0,
        count.value,
        kind.value == KERNEL,
        bool(edges.value),
    ]
    cuda.cuStreamUpdateCaptureDependencies(stream, None, 0, 1)  # set: the next node waits for nothing
    cuda.cuMemsetD32Async(space, 4, WORDS, stream)
    ended = work.captured(stream)
    seen += [ended == graph.value, len(listed(cuda, "cuGraphGetNodes", ended))]
    seen.append(len(listed(cuda, "cuGraphGetRootNodes", ended)))
    cuda.cuStreamBeginCaptureToGraph(stream, ended, handles([last]), None, 1, RELAXED)
    cuda.cuMemsetD32Async(space, 5, WORDS, stream)
    seen += [work.captured(stream) == ended, len(listed(cuda, "cuGraphNodeGetDependentNodes", last))]
    return seen


def memory_in_capture(cuda: Cuda) -> object:
    work, stream = Work(cuda), cuda.new("cuStreamCreate", 1)
    host = ctypes.create_string_buffer(BYTES)
    cuda.cuStreamBeginCapture_v2(stream, GLOBAL)
    address = cuda.new("cuMemAllocAsync", BYTES, stream)
    cuda.cuMemsetD8Async(address, 6, BYTES, stream)
    cuda.cuMemcpyDtoHAsync_v2(host, address, BYTES, stream)
    cuda.cuMemFreeAsync(address, stream)
    graph = work.captured(stream)
    seen: list[object] = [cuda.code("cuMemFree_v2", address)]  # its graph frees it
    ready = work.instantiate(graph)
    for _ in range(3):
        cuda.cuGraphLaunch(ready, stream)
    cuda.cuStreamSynchronize(stream)
    return [*seen, host.raw]


def graphs_in_capture(cuda: Cuda) -> object:
    """A launch in a captured stream becomes a child graph."""
    work, stream, space = Work(cuda), cuda.new("cuStreamCreate", 1), cuda.alloc(BYTES)
    inner = work.graph()
    work.fill_node(inner, space, 8)
    ready = work.instantiate(inner)
    cuda.cuStreamBeginCapture_v2(stream, GLOBAL)
    cuda.cuGraphLaunch(ready, stream)
    cuda.cuLaunchKernel(work.mix, 1, 1, 1, WORDS, 1, 1, 0, stream, work.mix_arguments(space, space), None)
    outer = work.instantiate(work.captured(stream))
    cuda.cuGraphExecDestroy(ready)
    cuda.cuGraphLaunch(outer, stream)
    cuda.cuStreamSynchronize(stream)
    return cuda.read(space, 4)


def events_as_nodes(cuda: Cuda) -> object:
    """External records and waits are nodes, and the program's to ask about."""
    work, stream, space = Work(cuda), cuda.new("cuStreamCreate", 1), cuda.alloc(BYTES)
    event = work.event()
    seen = [cuda.code("cuEventRecordWithFlags", event, stream, 1)]  # outside of a capture
    cuda.cuStreamBeginCapture_v2(stream, GLOBAL)
    cuda.cuMemsetD8Async(space, 6, BYTES, stream)
    cuda.cuEventRecordWithFlags(event, stream, 1)
    cuda.cuStreamWaitEvent(stream, event, 1)
    graph = work.captured(stream)
    kinds = []
    for node in listed(cuda, "cuGraphGetNodes", graph):
        kind = c_uint()
        cuda.cuGraphNodeGetType(node, byref(kind))
        kinds.append(kind.value)
    cuda.cuGraphLaunch(work.instantiate(graph), stream)
    cuda.cuEventSynchronize(event)
    return [*seen, kinds, cuda.read(space, 1)]


def _without_context(cuda: Cuda, body: Callable[[], int]) -> int:
    answer: list[int] = []
    thread = threading.Thread(target=lambda: answer.append(body()))
    thread.start()
    thread.join()
    return answer[0]


def _in_function(cuda: Cuda, stream: int, body: Callable[[], int]) -> int:
    """The answer within a function that `stream` calls, which is waited for without CUDA."""
    answer: list[int] = []
    called = threading.Event()

    def run(data: object) -> None:
        answer.append(body())
        called.set()

    function = HOST_FUNCTION(run)
    cuda.cuLaunchHostFunc(stream, function, None)
    assert called.wait(30)
    return answer[0]


def _in_child(cuda: Cuda, body: Callable[[], int]) -> int:
    """The answer in the child of a fork; none within 30 seconds is a failure."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(body())
        finally:
            os._exit(255)
    killer = threading.Timer(30, os.kill, (child, 9))
    killer.start()
    _, status = os.waitpid(child, 0)
    killer.cancel()
    return os.waitstatus_to_exitcode(status)


def refused_calls(cuda: Cuda) -> dict[str, tuple[int, int]]:
    """What is refused for its own sake while a global capture is under way, and the capture's state then."""
    work = Work(cuda)
    stream, other = work.stream(), work.stream()
    address, event, out, pitch = cuda.alloc(BYTES), work.event(), c_uint64(), c_size_t()
    foreign = cuda.new("cuCtxCreate_v2", 0, 0)
    foreign_event = cuda.new("cuEventCreate", 0)
    cuda.cuCtxPopCurrent_v2(None)
    cuda.cuEventRecord(event, other)
    calls: dict[str, tuple[str, tuple[object, ...]]] = {
        "allocate": ("cuMemAlloc_v2", (byref(out), 64)),
        "allocate rows": ("cuMemAllocPitch_v2", (byref(out), byref(pitch), 64, 2, 4)),
        "allocate managed": ("cuMemAllocManaged", (byref(out), 64, 1)),
        "allocate in the stream": ("cuMemAllocAsync", (byref(out), 64, stream)),
        "free": ("cuMemFree_v2", (address,)),
        "query": ("cuEventQuery", (event,)),
        "synchronize": ("cuEventSynchronize", (event,)),
    }
    own: dict[str, tuple[str, tuple[object, ...]]] = {
        "query nothing": ("cuEventQuery", (0x1234,)),
        "synchronize nothing": ("cuEventSynchronize", (0x1234,)),
        "record nothing": ("cuCtxRecordEvent", (0, 0x1234)),
        "record another context's": ("cuCtxRecordEvent", (0, foreign_event)),
        "wait for nothing": ("cuCtxWaitEvent", (0, 0x1234)),
    }
    seen = {}

    def tell(name: str, call: Callable[[], int]) -> None:
        cuda.cuStreamBeginCapture_v2(stream, GLOBAL)
        seen[name] = (call(), _status(cuda, stream))
        cuda.code("cuStreamEndCapture", stream, byref(c_uint64()))

    for name, (function, arguments) in own.items():
        tell(name, partial(cuda.code, function, *arguments))
    for name, (function, arguments) in calls.items():
        call = partial(cuda.code, function, *arguments)
        if name in ("query", "synchronize"):
            tell(f"{name} in a child", partial(_in_child, cuda, call))
        elif name != "allocate in the stream":
            tell(f"{name} without a context", partial(_without_context, cuda, call))
        tell(f"{name} in a function", partial(_in_function, cuda, other, call))
    cuda.cuCtxDestroy_v2(foreign)
    return seen


def free_of_nothing_in_capture(cuda: Cuda) -> list[int]:
    stream, graph = cuda.new("cuStreamCreate", 1), c_uint64()
    cuda.cuStreamBeginCapture_v2(stream, GLOBAL)
    codes = [cuda.code("cuMemFreeAsync", 0, stream), cuda.code("cuMemFreeAsync", 0, 0x1234)]
    return [*codes, _status(cuda, stream), cuda.code("cuStreamEndCapture", stream, byref(graph))]
