"""Graphs looked at and changed: nodes, edges, parameters, executable graphs and their updates."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_size_t, c_uint, c_uint64
from pathlib import Path

from tests.softgpu.driver.raw import Cuda

from .driver import (
    BYTES,
    DEVICE,
    HOST,
    HOST_FUNCTION,
    WORDS,
    FillParams,
    KernelParams,
    UpdateResult,
    Work,
    handles,
    listed,
)


def _kind(cuda: Cuda, node: int) -> int:
    kind = c_uint()
    cuda.cuGraphNodeGetType(node, byref(kind))
    return kind.value


def _out(cuda: Cuda, name: str, handle: int) -> int:
    value = c_uint64()
    getattr(cuda, name)(handle, byref(value))
    return value.value


def topology(cuda: Cuda, folder: str) -> object:
    """All that can be asked of a graph of six nodes, which are named by the order of their making."""
    work, graph = Work(cuda), cuda.new("cuGraphCreate", 0)
    to, source = cuda.alloc(BYTES), cuda.alloc(BYTES)
    nodes = [work.empty_node(graph)]
    nodes.append(
        work.kernel_node(graph, work.kernel_params(work.mix, work.mix_arguments(to, source)), nodes[:1])
    )
    nodes.append(work.fill_node(graph, to, 3, nodes[:1]))
    nodes.append(work.copy_node(graph, work.copy_params(to, source, DEVICE, DEVICE), nodes[1:3]))
    child = work.graph()
    work.empty_node(child)
    nodes.append(work.child_node(graph, child, nodes[3:]))
    nodes.append(int(cuda.new("cuGraphAddEventRecordNode", graph, None, 0, work.event())))
    place = {node: i for i, node in enumerate(nodes)}

    def edges() -> list[tuple[int, int]]:
        start, end, count = (c_uint64 * 16)(), (c_uint64 * 16)(), c_size_t(16)
        cuda.cuGraphGetEdges(graph, start, end, byref(count))
        return sorted((place[start[i]], place[end[i]]) for i in range(count.value))

    seen: list[object] = [
        [_kind(cuda, node) for node in nodes],
        [place[node] for node in listed(cuda, "cuGraphGetNodes", graph)],
        [place[node] for node in listed(cuda, "cuGraphGetRootNodes", graph)],
        edges(),
        [place[node] for node in listed(cuda, "cuGraphNodeGetDependencies", nodes[3])],
        [place[node] for node in listed(cuda, "cuGraphNodeGetDependentNodes", nodes[0])],
        [_out(cuda, "cuGraphNodeGetLocalId", node) for node in nodes],
        _out(cuda, "cuGraphNodeGetContainingGraph", nodes[2]) == graph,
    ]
    clone = cuda.new("cuGraphClone", graph)
    twins = [int(cuda.new("cuGraphNodeFindInClone", node, clone)) for node in nodes]
    seen.append([twins == listed(cuda, "cuGraphGetNodes", clone), set(twins) & set(nodes)])
    seen.append(cuda.code("cuGraphNodeFindInClone", byref(c_uint64()), twins[0], clone))
    last, first = handles([nodes[4]]), handles([nodes[0]])
    seen.append(cuda.code("cuGraphAddDependencies", graph, last, first, 1))  # a circle
    seen.append(cuda.code("cuGraphAddDependencies", graph, first, handles([nodes[1]]), 1))  # is there
    cuda.cuGraphRemoveDependencies(graph, handles([nodes[1]]), handles([nodes[3]]), 1)
    cuda.cuGraphAddDependencies(graph, handles([nodes[5]]), handles([nodes[3]]), 1)
    cuda.cuGraphDestroyNode(nodes[2])
    seen.append(edges())
    seen.append(cuda.code("cuGraphNodeGetType", nodes[2], byref(c_uint())))
    path = Path(folder) / "graph.dot"
    cuda.cuGraphDebugDotPrint(graph, str(path).encode(), 1)
    text = path.read_text()
    seen += [text.count("->"), text.startswith("digraph"), f"grid 1,1,1 block {WORDS},1,1" in text]
    inner = _out(cuda, "cuGraphChildGraphNodeGetGraph", nodes[4])
    seen += [len(listed(cuda, "cuGraphGetNodes", inner)), cuda.code("cuGraphDestroy", inner)]
    for handle in (graph, clone, child):
        cuda.cuGraphDestroy(handle)
    return seen


def parameters(cuda: Cuda) -> object:
    """What was given comes back, and what is set instead is what runs."""
    work, graph, stream = Work(cuda), cuda.new("cuGraphCreate", 0), cuda.new("cuStreamCreate", 1)
    to = cuda.alloc(2 * BYTES)
    cuda.write(to, bytes(2 * BYTES))
    kernel = work.kernel_node(graph, work.kernel_params(work.fill, work.fill_arguments(to, 5)))
    fill = work.fill_node(graph, to + BYTES, 1)
    shown, filled = KernelParams(), FillParams()
    cuda.cuGraphKernelNodeGetParams_v2(kernel, byref(shown))
    cuda.cuGraphMemsetNodeGetParams(fill, byref(filled))
    arguments = ctypes.cast(shown.params, ctypes.POINTER(ctypes.POINTER(c_uint)))
    seen: list[object] = [shown.func == work.fill, shown.gx, shown.bx, arguments[1][0], arguments[2][0]]
    seen += [filled.dst == to + BYTES, filled.value, filled.element, filled.width, filled.height]

    def words() -> list[int]:
        cuda.cuStreamSynchronize(stream)
        data = cuda.read(to, 2 * BYTES)
        return [int.from_bytes(data[i : i + 4], "little") for i in (0, 4, BYTES, 2 * BYTES - 4)]

    ready = work.instantiate(graph)
    cuda.cuGraphLaunch(ready, stream)
    seen.append(words())
    changed = work.kernel_params(work.fill, work.fill_arguments(to, 50))
    cuda.cuGraphExecKernelNodeSetParams_v2(ready, kernel, byref(changed))
    cuda.cuGraphExecMemsetNodeSetParams(
        ready, fill, byref(FillParams(to + BYTES, 0, 2, 4, WORDS, 1)), work.context()
    )
    cuda.cuGraphLaunch(ready, stream)
    seen.append(words())
    cuda.cuGraphNodeSetEnabled(ready, kernel, 0)
    cuda.cuMemsetD8_v2(to, 0, 2 * BYTES)
    cuda.cuCtxSynchronize()  # the stream is one that does not wait for the legacy stream
    cuda.cuGraphLaunch(ready, stream)
    enabled = c_uint(7)
    cuda.cuGraphNodeGetEnabled(ready, kernel, byref(enabled))
    seen += [words(), enabled.value]
    cuda.cuGraphNodeSetEnabled(ready, kernel, 1)
    cuda.cuGraphKernelNodeSetParams_v2(
        kernel, byref(work.kernel_params(work.fill, work.fill_arguments(to, 70)))
    )
    result = UpdateResult()
    cuda.cuGraphExecUpdate_v2(ready, graph, byref(result))
    cuda.cuGraphLaunch(ready, stream)
    seen += [words(), result.result]
    seen.append(cuda.code("cuGraphExecKernelNodeSetParams_v2", ready, fill, byref(changed)))
    seen.append(cuda.code("cuGraphKernelNodeGetParams_v2", fill, byref(shown)))
    changed.bx = 4096
    seen.append(cuda.code("cuGraphKernelNodeSetParams_v2", kernel, byref(changed)))
    seen.append(cuda.code("cuGraphExecKernelNodeSetParams_v2", ready, kernel, byref(changed)))
    cuda.cuGraphExecDestroy(ready)
    seen.append(cuda.code("cuGraphLaunch", ready, stream))
    cuda.cuGraphDestroy(graph)
    return seen


def updates(cuda: Cuda) -> object:
    """Result, and the node at fault by its place, of updates with graphs that differ."""
    work = Work(cuda)
    to, host = cuda.alloc(BYTES), ctypes.create_string_buffer(BYTES)
    address = ctypes.addressof(host)

    def fill(graph: int, before: list[int]) -> int:
        return work.fill_node(graph, to, 1, before)

    def copy_in(graph: int, before: list[int]) -> int:
        return work.copy_node(graph, work.copy_params(to, address, DEVICE, HOST), before)

    def copy_out(graph: int, before: list[int]) -> int:
        return work.copy_node(graph, work.copy_params(address, to, HOST, DEVICE), before)

    def kernel(graph: int, before: list[int]) -> int:
        return work.kernel_node(graph, work.kernel_params(work.fill, work.fill_arguments(to, 1)), before)

    Make = Callable[[int, list[int]], int]

    def line(makes: list[Make], *, apart: bool = False) -> tuple[int, list[int]]:
        graph = work.graph()
        nodes: list[int] = []
        for make in makes:
            nodes.append(make(graph, [] if apart else nodes[-1:]))
        return graph, nodes

    graph, _ = line([fill, copy_in, kernel])
    ready = work.instantiate(graph)
    seen: list[object] = []
    others = [
        line([fill, copy_in, kernel]),
        line([fill, copy_in]),
        line([fill, copy_in, kernel], apart=True),
        line([fill, kernel, kernel]),
        line([fill, copy_out, kernel]),
    ]
    for other, nodes in others:
        result = UpdateResult()
        code = cuda.code("cuGraphExecUpdate_v2", ready, other, byref(result))
        seen.append((code, result.result, nodes.index(result.node) if result.node in nodes else None))
    node, old = c_uint64(), c_uint()
    seen.append((cuda.code("cuGraphExecUpdate", ready, others[3][0], byref(node), byref(old)), old.value))
    return seen


def memory(cuda: Cuda) -> object:
    """Memory that a graph allocates: its address stays, it is the program's until it is freed."""
    work, stream = Work(cuda), cuda.new("cuStreamCreate", 1)
    graph, params = work.graph(), work.alloc_params(BYTES)
    alloc = int(cuda.new("cuGraphAddMemAllocNode", graph, None, 0, byref(params)))
    work.fill_node(graph, params.address, 9, [alloc])
    seen: list[object] = [_figures(cuda), cuda.code("cuGraphClone", byref(c_uint64()), graph)]
    seen.append(cuda.code("cuGraphDestroyNode", alloc))
    ready = work.instantiate(graph)
    seen.append(cuda.code("cuGraphInstantiateWithFlags", byref(c_uint64()), graph, 0))
    seen.append(cuda.code("cuMemFree_v2", params.address))  # nothing is allocated yet
    cuda.cuGraphLaunch(ready, stream)
    cuda.cuStreamSynchronize(stream)
    seen += [cuda.read(params.address, 4), _figures(cuda)]
    seen.append(cuda.code("cuGraphLaunch", ready, stream))  # not freed since
    cuda.cuMemFreeAsync(params.address, stream)
    seen += [_figures(cuda), cuda.code("cuGraphLaunch", ready, stream)]
    cuda.cuStreamSynchronize(stream)
    cuda.cuMemFree_v2(params.address)
    cuda.cuGraphExecDestroy(ready)
    ready = work.instantiate(graph, 1)  # frees at each launch what is left
    seen += [cuda.code("cuGraphLaunch", ready, stream) for _ in range(3)]
    cuda.cuStreamSynchronize(stream)
    cuda.cuGraphExecDestroy(ready)
    cuda.cuGraphDestroy(graph)
    seen += [cuda.read(params.address, 4), _figures(cuda)]
    cuda.cuMemFree_v2(params.address)
    seen.append(_figures(cuda))
    return seen


def _figures(cuda: Cuda) -> tuple[int, int]:
    """What graphs use and have reserved now."""
    values = []
    for attribute in (0, 2):
        value = c_uint64()
        cuda.cuDeviceGetGraphMemAttribute(0, attribute, byref(value))
        values.append(value.value)
    return values[0], values[1]


def user_objects(cuda: Cuda) -> list[str]:
    work, gone = Work(cuda), []
    destroy = HOST_FUNCTION(lambda _: gone.append("gone"))
    thing = cuda.new("cuUserObjectCreate", None, destroy, 1, 1)
    graph = work.graph()
    cuda.cuGraphRetainUserObject(graph, thing, 1, 1)
    seen = [str(cuda.code("cuUserObjectRelease", thing, 1))]  # it was moved into the graph
    ready, clone = work.instantiate(graph), cuda.new("cuGraphClone", graph)
    for name, handle in (("cuGraphDestroy", graph), ("cuGraphExecDestroy", ready), ("cuGraphDestroy", clone)):
        getattr(cuda, name)(handle)
        seen.append(" ".join(gone))
    return seen


def refused(cuda: Cuda) -> object:
    """What is not done is refused at once, and graphs of other kinds of nodes go on."""
    work, graph = Work(cuda), cuda.new("cuGraphCreate", 0)
    conditional = (c_uint64 * 40)(13)
    node = byref(c_uint64())
    seen = [cuda.code("cuGraphAddNode_v2", node, graph, None, None, 0, conditional)]
    seen.append(cuda.code("cuGraphConditionalHandleCreate", node, graph, work.context(), 0, 0))
    seen.append(cuda.code("cuGraphAddBatchMemOpNode", node, graph, None, 0, conditional))
    seen.append(cuda.code("cuGraphInstantiateWithFlags", node, graph, 4))  # launched by the device
    seen.append(cuda.code("cuGraphAddMemFreeNode", node, graph, None, 0, cuda.alloc(4)))
    seen.append(cuda.code("cuGraphAddEmptyNode", node, graph, handles([graph]), 1))
    seen.append(cuda.code("cuGraphCreate", node, 1))
    seen.append(cuda.code("cuGraphDestroy", 77))
    ready = work.instantiate(graph)  # an empty graph
    cuda.cuGraphLaunch(ready, 0)
    cuda.cuCtxSynchronize()
    return seen
