"""Graphs that call functions of the program."""

from __future__ import annotations

import ctypes
import threading
from ctypes import byref, c_uint64, c_void_p

from tests.softgpu.driver.raw import NOT_READY, Cuda

from .driver import BYTES, DEVICE, HOST, HOST_FUNCTION, Work


class HostParams(ctypes.Structure):
    _fields_ = (("function", HOST_FUNCTION), ("data", c_void_p))


def _counter(cuda: Cuda, work: Work, host: int) -> tuple[int, list[int]]:
    """A graph that triples a word of the device, adds one and copies it to host memory; its last node."""
    to, one = cuda.alloc(BYTES), cuda.alloc(BYTES)
    cuda.write(to, bytes(BYTES))
    cuda.write(one, b"\1\0\0\0" * (BYTES // 4))
    graph = work.graph()
    mix = work.kernel_node(graph, work.kernel_params(work.mix, work.mix_arguments(to, one)))
    return graph, [work.copy_node(graph, work.copy_params(host, to, HOST, DEVICE), [mix])]


def _call_node(cuda: Cuda, graph: int, params: HostParams, before: list[int]) -> int:
    nodes = (c_uint64 * max(len(before), 1))(*before)
    return int(cuda.new("cuGraphAddHostNode", graph, nodes, len(before), byref(params)))


def called_at_each_launch(cuda: Cuda) -> object:
    """Launched again and again without a wait: each call finds what its own launch has copied."""
    work, stream = Work(cuda), cuda.new("cuStreamCreate", 1)
    host = ctypes.create_string_buffer(BYTES)
    seen: list[tuple[int, int]] = []

    def look(data: int) -> None:
        seen.append((data, int.from_bytes(host.raw[:4], "little")))

    function = HOST_FUNCTION(look)
    graph, last = _counter(cuda, work, ctypes.addressof(host))
    node = _call_node(cuda, graph, HostParams(function, 1), last)
    ready = work.instantiate(graph)
    for _ in range(5):
        cuda.cuGraphLaunch(ready, stream)
    cuda.cuGraphExecHostNodeSetParams(ready, node, byref(HostParams(function, 2)))
    for _ in range(5):
        cuda.cuGraphLaunch(ready, stream)
    cuda.cuGraphExecDestroy(ready)
    cuda.cuStreamSynchronize(stream)
    return seen


def captured_and_in_a_child(cuda: Cuda) -> object:
    work, stream = Work(cuda), cuda.new("cuStreamCreate", 1)
    seen: list[int] = []
    function = HOST_FUNCTION(lambda data: seen.append(data))
    cuda.cuStreamBeginCapture_v2(stream, 0)
    for i in range(1, 4):
        cuda.cuLaunchHostFunc(stream, function, c_void_p(i))
    child = work.captured(stream)
    graph = work.graph()
    first = work.child_node(graph, child)
    _call_node(cuda, graph, HostParams(function, 9), [first])
    ready = work.instantiate(graph)
    for _ in range(200):
        cuda.cuGraphLaunch(ready, stream)
    cuda.cuStreamSynchronize(stream)
    return seen


def a_launch_waits_for_its_function(cuda: Cuda) -> object:
    work, stream = Work(cuda), cuda.new("cuStreamCreate", 1)
    go = threading.Event()
    function = HOST_FUNCTION(lambda data: go.wait(60) and None)
    graph = work.graph()
    _call_node(cuda, graph, HostParams(function, None), [])
    ready = work.instantiate(graph)
    cuda.cuGraphLaunch(ready, stream)
    states = [cuda.code("cuStreamQuery", stream) == NOT_READY]
    # The program's own calls go on.
    address = cuda.alloc(BYTES)
    cuda.write(address, bytes(BYTES))
    go.set()
    cuda.cuStreamSynchronize(stream)
    return [*states, cuda.code("cuStreamQuery", stream)]


def a_copy_behind_a_function_reads_what_it_wrote(cuda: Cuda, large: int) -> object:
    """Launched without a wait in between: each launch takes what its own call of the function has written."""
    work, stream = Work(cuda), cuda.new("cuStreamCreate", 1)
    source, other = (ctypes.create_string_buffer(BYTES) for _ in range(2))
    bulk, result = (ctypes.create_string_buffer(large) for _ in range(2))
    to, from_, bulk_to = cuda.alloc(BYTES), cuda.alloc(BYTES), cuda.alloc(large)
    cuda.write(to, bytes(BYTES))
    calls: list[int] = []

    def write(data: int) -> None:
        calls.append(data)
        for buffer in (source, other):
            ctypes.memset(buffer, len(calls), BYTES)
        ctypes.memset(bulk, 100 + len(calls), large)

    function = HOST_FUNCTION(write)
    graph = work.graph()
    node = _call_node(cuda, graph, HostParams(function, 1), [])
    copy = work.copy_node(graph, work.copy_params(from_, ctypes.addressof(source), DEVICE, HOST), [node])
    work.kernel_node(graph, work.kernel_params(work.mix, work.mix_arguments(to, from_)), [copy])
    big = work.copy_params(bulk_to, ctypes.addressof(bulk), DEVICE, HOST)
    big.WidthInBytes = large
    back = work.copy_params(ctypes.addressof(result), bulk_to, HOST, DEVICE)
    back.WidthInBytes = large
    work.copy_node(graph, back, [work.copy_node(graph, big, [node])])
    ready = work.instantiate(graph)
    for _ in range(3):
        cuda.cuGraphLaunch(ready, stream)
    cuda.cuStreamSynchronize(stream)
    seen = [cuda.read(to, 4), result.raw == bytes([103]) * large]
    changed = work.copy_params(from_, ctypes.addressof(other), DEVICE, HOST)
    cuda.cuGraphExecMemcpyNodeSetParams(ready, copy, byref(changed), work.context())
    cuda.cuGraphExecHostNodeSetParams(ready, node, byref(HostParams(function, 2)))
    for _ in range(2):
        cuda.cuGraphLaunch(ready, stream)
    cuda.cuStreamSynchronize(stream)
    return [*seen, cuda.read(to, 4), result.raw == bytes([105]) * large, calls]


def what_a_function_changes_stays_changed(cuda: Cuda) -> object:
    """A function that works on what was copied before it: what is read behind it, and what is there later."""
    work, stream = Work(cuda), cuda.new("cuStreamCreate", 1)
    graph, host = work.graph(), ctypes.create_string_buffer(BYTES)
    first, second = cuda.alloc(BYTES), cuda.alloc(BYTES)
    cuda.write(first, bytes(range(BYTES)))
    seen: list[bytes] = []

    def invert(data: int) -> None:
        seen.append(host.raw[:4])
        changed = [255 - byte if at % 2 == 0 else byte for at, byte in enumerate(host.raw)]
        ctypes.memmove(host, bytes(changed), BYTES)

    function = HOST_FUNCTION(invert)
    out = work.copy_node(graph, work.copy_params(ctypes.addressof(host), first, HOST, DEVICE))
    node = _call_node(cuda, graph, HostParams(function, None), [out])
    # Every second row of eight bytes.
    rows = work.copy_params(second, ctypes.addressof(host), DEVICE, HOST)
    rows.WidthInBytes, rows.srcPitch, rows.dstPitch, rows.Height = 8, 16, 8, BYTES // 16
    work.copy_node(graph, rows, [node])
    ready = work.instantiate(graph)
    cuda.cuGraphLaunch(ready, stream)
    cuda.cuGraphLaunch(ready, stream)
    cuda.cuStreamSynchronize(stream)
    return seen, host.raw, cuda.read(second, BYTES // 2)


def copies_beside_a_function(cuda: Cuda) -> list[int]:
    """To memory that is copied from behind the function, and to other memory."""
    work = Work(cuda)
    host, other = (ctypes.create_string_buffer(BYTES) for _ in range(2))
    function, to = HOST_FUNCTION(lambda data: None), cuda.alloc(BYTES)
    codes = []
    for beside in (host, other):
        graph = work.graph()
        node = _call_node(cuda, graph, HostParams(function, None), [])
        work.copy_node(graph, work.copy_params(to, ctypes.addressof(host), DEVICE, HOST), [node])
        work.copy_node(graph, work.copy_params(ctypes.addressof(beside), cuda.alloc(BYTES), HOST, DEVICE))
        ready = c_uint64()
        codes.append(cuda.code("cuGraphInstantiateWithFlags", byref(ready), graph, 0))
    return codes
