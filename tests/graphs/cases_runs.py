"""Graphs that run: made node by node or captured, against a model that does one thing after the other."""

from __future__ import annotations

import ctypes
import struct

from tests.memory.cases import Copy3D
from tests.softgpu.driver.ptx import HEADER
from tests.softgpu.driver.raw import Cuda

from . import model
from .driver import BYTES, DEVICE, HOST, WORDS, Work
from .model import Op

Buffers = list[list[int]]


def _words(data: bytes) -> list[int]:
    return list(struct.unpack(f"{WORDS}I", data))


class _Memory:
    """The buffers of a model, on the device and in the program's memory."""

    def __init__(self, cuda: Cuda) -> None:
        self.cuda = cuda
        self.device = [cuda.alloc(BYTES) for _ in range(model.BUFFERS)]
        for address in self.device:
            cuda.write(address, bytes(BYTES))
        self.host = [ctypes.create_string_buffer(BYTES) for _ in range(model.HOSTS)]

    def host_address(self, index: int) -> int:
        return ctypes.addressof(self.host[index])

    def set_host(self, index: int, words: list[int]) -> None:
        self.host[index].raw = struct.pack(f"{WORDS}I", *words)

    def seen(self) -> tuple[Buffers, Buffers]:
        on_host = [_words(buffer.raw) for buffer in self.host]
        return [_words(self.cuda.read(address, BYTES)) for address in self.device], on_host

    def free(self) -> None:
        for address in self.device:
            self.cuda.cuMemFree_v2(address)


def _copy_params(work: Work, memory: _Memory, op: Op) -> Copy3D:
    if op.kind == "copy":
        return work.copy_params(memory.device[op.to], memory.device[op.source], DEVICE, DEVICE)
    if op.kind == "in":
        return work.copy_params(memory.device[op.to], memory.host_address(op.source), DEVICE, HOST)
    return work.copy_params(memory.host_address(op.to), memory.device[op.source], HOST, DEVICE)


def _add(work: Work, memory: _Memory, graph: int, op: Op, before: list[int]) -> int:
    to = memory.device[op.to]
    if op.kind == "fill":
        return work.kernel_node(
            graph, work.kernel_params(work.fill, work.fill_arguments(to, op.value)), before
        )
    if op.kind == "mix":
        arguments = work.mix_arguments(to, memory.device[op.source])
        return work.kernel_node(graph, work.kernel_params(work.mix, arguments), before)
    if op.kind == "set":
        return work.fill_node(graph, to, op.value, before)
    return work.copy_node(graph, _copy_params(work, memory, op), before)


def _submit(work: Work, memory: _Memory, op: Op, stream: int) -> None:
    cuda, to = work.cuda, memory.device[op.to]
    shape = (1, 1, 1, WORDS, 1, 1, 0, stream)
    if op.kind == "fill":
        cuda.cuLaunchKernel(work.fill, *shape, work.fill_arguments(to, op.value), None)
    elif op.kind == "mix":
        cuda.cuLaunchKernel(work.mix, *shape, work.mix_arguments(to, memory.device[op.source]), None)
    elif op.kind == "set":
        cuda.cuMemsetD32Async(to, op.value, WORDS, stream)
    elif op.kind == "copy":
        cuda.cuMemcpyDtoDAsync_v2(to, memory.device[op.source], BYTES, stream)
    elif op.kind == "in":
        cuda.cuMemcpyHtoDAsync_v2(to, memory.host_address(op.source), BYTES, stream)
    else:
        cuda.cuMemcpyDtoHAsync_v2(memory.host_address(op.to), memory.device[op.source], BYTES, stream)


def _by_nodes(work: Work, memory: _Memory, ops: list[Op], child: int) -> int:
    """The first `child` operations are a graph of their own."""
    graph = work.graph()
    nodes: list[int] = []
    if child:
        inner = _by_nodes(work, memory, ops[:child], 0)
        nodes = [work.child_node(graph, inner)] * child
        work.cuda.cuGraphDestroy(inner)
    for i in range(child, len(ops)):
        before = sorted({nodes[k] for k in model.must_follow(ops, i)})
        nodes.append(_add(work, memory, graph, ops[i], before))
    return graph


def _by_capture(work: Work, memory: _Memory, ops: list[Op], places: list[int]) -> int:
    """Each operation on one of three streams, which wait for each other as they must."""
    cuda = work.cuda
    streams = [work.stream() for _ in range(3)]
    cuda.cuStreamBeginCapture_v2(streams[0], 0)
    fork = work.event()
    cuda.cuEventRecord(fork, streams[0])
    for other in streams[1:]:
        cuda.cuStreamWaitEvent(other, fork, 0)
    events: list[int] = []
    for i, op in enumerate(ops):
        stream = streams[places[i]]
        for k in model.must_follow(ops, i):
            cuda.cuStreamWaitEvent(stream, events[k], 0)
        _submit(work, memory, op, stream)
        events.append(work.event())
        cuda.cuEventRecord(events[-1], stream)
    for other in streams[1:]:
        join = work.event()
        cuda.cuEventRecord(join, other)
        cuda.cuStreamWaitEvent(streams[0], join, 0)
    graph = work.captured(streams[0])
    for handle in (fork, *events):
        cuda.cuEventDestroy_v2(handle)
    for stream in streams:
        cuda.cuStreamDestroy_v2(stream)
    return graph


def runs(cuda: Cuda, ops: list[Op], places: list[int], child: int, inputs: list[list[int]]) -> object:
    """The buffers after each of some launches, with new input before each; by nodes and captured."""
    work, seen = Work(cuda), []
    stream = work.stream()
    for captured in (False, True):
        memory = _Memory(cuda)
        graph = _by_capture(work, memory, ops, places) if captured else _by_nodes(work, memory, ops, child)
        ready = work.instantiate(graph)
        cuda.cuGraphDestroy(graph)
        for words in inputs:
            memory.set_host(0, words)
            cuda.cuGraphLaunch(ready, stream)
            cuda.cuStreamSynchronize(stream)
            seen.append(memory.seen())
        cuda.cuGraphExecDestroy(ready)
        memory.free()
    cuda.cuStreamDestroy_v2(stream)
    return seen


def beside_an_error(cuda: Cuda) -> object:
    """A graph whose input is what it wrote before, launched before and behind a call that is an error."""
    work, ops = Work(cuda), [Op("in", 0, 0), Op("mix", 1, 0), Op("out", 0, 1)]
    memory, stream = _Memory(cuda), work.stream()
    ready = work.instantiate(_by_nodes(work, memory, ops, 0))
    picky = cuda.kernel(cuda.load(HEADER + ".visible .entry picky() .reqntid 32 { ret; }"), "picky")
    memory.set_host(0, list(range(WORDS)))
    cuda.cuGraphLaunch(ready, stream)
    wrong = [cuda.code("cuLaunchKernel", picky, 1, 1, 1, 16, 1, 1, 0, stream, None, None)]
    cuda.cuGraphLaunch(ready, stream)
    wrong += [cuda.code("cuStreamSynchronize", stream) for _ in range(2)]
    on_host = _words(memory.host[0].raw)
    cuda.cuGraphExecDestroy(ready)
    memory.free()
    return sorted(wrong), on_host


def replays(cuda: Cuda, count: int) -> object:
    """As PyTorch does it: warm up on a side stream, capture, replay with changed inputs."""
    work, memory = Work(cuda), _Memory(cuda)
    ops = [Op("in", 0, 0), Op("mix", 1, 0), Op("set", 2, 0, 5), Op("mix", 2, 1), Op("out", 1, 2)]
    side, done, seen = work.stream(), work.event(), []
    for op in ops:
        _submit(work, memory, op, side)
    cuda.cuStreamSynchronize(side)
    graph = _by_capture(work, memory, ops, [0, 1, 2, 1, 0])
    ready = work.instantiate(graph)
    for i in range(count):
        memory.set_host(0, [i * k for k in range(WORDS)])
        cuda.cuGraphLaunch(ready, side)
        cuda.cuEventRecord(done, side)
        _wait(cuda, side, done, i % 5)
        seen.append(_words(memory.host[1].raw))
    return [*seen, memory.seen()]


def _wait(cuda: Cuda, stream: int, event: int, how: int) -> None:
    """In each of the ways in which a program finds out that the work has ended."""
    if how == 0:
        cuda.cuStreamSynchronize(stream)
    elif how == 1:
        cuda.cuEventSynchronize(event)
    elif how == 2:
        cuda.cuCtxSynchronize()
    elif how == 3:
        while cuda.code("cuStreamQuery", stream):
            pass
    else:
        while cuda.code("cuEventQuery", event):
            pass


def freed_before_it_is_waited_for(cuda: Cuda) -> object:
    """Pinned memory that a graph writes to is given back while the graph may still run."""
    work, memory = Work(cuda), _Memory(cuda)
    stream, graph = work.stream(), work.graph()
    pinned = cuda.new("cuMemHostAlloc", BYTES, 0)
    work.copy_node(graph, work.copy_params(pinned, memory.device[0], HOST, DEVICE))
    ready = work.instantiate(graph)
    cuda.cuGraphLaunch(ready, stream)
    cuda.cuMemFreeHost(pinned)
    cuda.cuStreamSynchronize(stream)
    return cuda.code("cuGraphExecDestroy", ready)


def outputs_become_inputs(cuda: Cuda) -> object:
    """What one graph writes to the program's memory is what the next one reads there, without a wait."""
    work, memory = Work(cuda), _Memory(cuda)
    stream, graphs = work.stream(), []
    for ops in (
        [Op("fill", 0, value=7), Op("out", 0, 0)],
        [Op("in", 1, 0), Op("mix", 1, 1), Op("out", 1, 1)],
    ):
        graphs.append(work.instantiate(_by_nodes(work, memory, ops, 0)))
    for ready in graphs:
        cuda.cuGraphLaunch(ready, stream)
    for ready in graphs:
        cuda.cuGraphExecDestroy(ready)
    cuda.cuStreamSynchronize(stream)
    return memory.seen()
