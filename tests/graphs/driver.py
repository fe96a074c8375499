"""What the tests of graphs need of the driver's ABI, and the kernels that their graphs launch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_size_t, c_uint, c_uint64, c_void_p

from tests.memory.cases import DEVICE, HOST, Copy3D
from tests.softgpu.driver.ptx import FILL, HEADER
from tests.softgpu.driver.raw import HOST_FUNCTION, Cuda

KERNEL, COPY, FILL_NODE, HOST_NODE, CHILD, EMPTY, WAIT_EVENT, RECORD_EVENT = range(8)
ALLOC, FREE = 10, 11
WORDS = 16  # of each buffer, 4 bytes each
BYTES = 4 * WORDS

# mix(u32* to, u32* from, u32 count): to[i] = 3 * to[i] + from[i]
MIX = """
.visible .entry mix(.param .u64 to, .param .u64 from, .param .u32 count)
{
    .reg .pred %p;
    .reg .b32 %r<7>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [to];
    ld.param.u64 %rd2, [from];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p, %r2, %r1;
    @%p bra done;
    mul.wide.u32 %rd3, %r2, 4;
    add.u64 %rd4, %rd1, %rd3;
    add.u64 %rd5, %rd2, %rd3;
    ld.global.u32 %r3, [%rd4];
    ld.global.u32 %r4, [%rd5];
    mad.lo.u32 %r5, %r3, 3, %r4;
    st.global.u32 [%rd4], %r5;
done:
    ret;
}
"""
KERNELS = HEADER + FILL + MIX


class KernelParams(ctypes.Structure):
    _fields_ = (
        ("func", c_uint64),
        *((name, c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
        ("params", c_void_p),
        ("extra", c_void_p),
        ("kern", c_uint64),
        ("ctx", c_uint64),
    )


class FillParams(ctypes.Structure):
    _fields_ = (
        ("dst", c_uint64),
        ("pitch", c_size_t),
        ("value", c_uint),
        ("element", c_uint),
        ("width", c_size_t),
        ("height", c_size_t),
    )


class Location(ctypes.Structure):
    _fields_ = (("kind", c_uint), ("id", c_uint))


class PoolProperties(ctypes.Structure):
    _fields_ = (
        ("allocation", c_uint),
        ("handles", c_uint),
        ("location", Location),
        ("security", c_void_p),
        ("most", c_size_t),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 54),
    )


class AllocParams(ctypes.Structure):
    _fields_ = (
        ("pool", PoolProperties),
        ("access", c_void_p),
        ("access_count", c_size_t),
        ("bytes", c_size_t),
        ("address", c_uint64),
    )


class UpdateResult(ctypes.Structure):
    _fields_ = (("result", c_uint), ("node", c_uint64), ("before", c_uint64))


def handles(values: Sequence[int]) -> object:
    return (c_uint64 * max(len(values), 1))(*values)


def listed(cuda: Cuda, name: str, handle: int, room: int = 64) -> list[int]:
    """The nodes that a function of CUDA lists."""
    nodes, count = (c_uint64 * room)(), c_size_t(room)
    getattr(cuda, name)(handle, nodes, byref(count))
    return list(nodes[: count.value])


class Work:
    """A driver with the kernels loaded; nodes and structures are made here, and kept as long."""

    def __init__(self, cuda: Cuda) -> None:
        self.cuda = cuda
        module = cuda.load(KERNELS)
        self.fill = cuda.kernel(module, "fill")
        self.mix = cuda.kernel(module, "mix")
        self._kept: list[object] = []

    def stream(self) -> int:
        return int(self.cuda.new("cuStreamCreate", 1))

    def event(self) -> int:
        return int(self.cuda.new("cuEventCreate", 2))

    def graph(self) -> int:
        return int(self.cuda.new("cuGraphCreate", 0))

    def instantiate(self, graph: int, flags: int = 0) -> int:
        return int(self.cuda.new("cuGraphInstantiateWithFlags", graph, flags))

    def pointers(self, *values: ctypes._SimpleCData[int]) -> ctypes.Array[c_void_p]:
        array = (c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        self._kept.append((values, array))
        return array

    def mix_arguments(self, to: int, source: int) -> ctypes.Array[c_void_p]:
        return self.pointers(c_uint64(to), c_uint64(source), c_uint(WORDS))

    def fill_arguments(self, to: int, value: int) -> ctypes.Array[c_void_p]:
        return self.pointers(c_uint64(to), c_uint(value), c_uint(WORDS))

    def kernel_params(self, function: int, arguments: ctypes.Array[c_void_p]) -> KernelParams:
        pointer = ctypes.cast(arguments, c_void_p)
        return KernelParams(function, 1, 1, 1, WORDS, 1, 1, 0, pointer, None, 0, 0)

    def copy_params(self, to: int, source: int, to_kind: int, from_kind: int) -> Copy3D:
        copy = Copy3D(WidthInBytes=BYTES, Height=1, Depth=1, srcMemoryType=from_kind, dstMemoryType=to_kind)
        copy.srcHost = copy.srcDevice = source
        copy.dstHost = copy.dstDevice = to
        return copy

    def kernel_node(self, graph: int, params: KernelParams, before: Sequence[int] = ()) -> int:
        return self._add("cuGraphAddKernelNode_v2", graph, before, byref(params))

    def copy_node(self, graph: int, params: Copy3D, before: Sequence[int] = ()) -> int:
        return self._add("cuGraphAddMemcpyNode", graph, before, byref(params), self.context())

    def fill_node(self, graph: int, to: int, value: int, before: Sequence[int] = ()) -> int:
        params = FillParams(to, 0, value, 4, WORDS, 1)
        return self._add("cuGraphAddMemsetNode", graph, before, byref(params), self.context())

    def empty_node(self, graph: int, before: Sequence[int] = ()) -> int:
        return self._add("cuGraphAddEmptyNode", graph, before)

    def child_node(self, graph: int, child: int, before: Sequence[int] = ()) -> int:
        return self._add("cuGraphAddChildGraphNode", graph, before, child)

    def alloc_params(self, size: int) -> AllocParams:
        params = AllocParams(bytes=size)
        params.pool.allocation, params.pool.location = 1, Location(1, 0)
        return params

    def context(self) -> int:
        return int(self.cuda.new("cuCtxGetCurrent"))

    def _add(self, name: str, graph: int, before: Sequence[int], *more: object) -> int:
        return int(self.cuda.new(name, graph, handles(before), len(before), *more))

    def captured(self, stream: int) -> int:
        return int(end_capture(self.cuda, stream))


def end_capture(cuda: Cuda, stream: int) -> int:
    graph = c_uint64()
    cuda.cuStreamEndCapture(stream, byref(graph))
    return graph.value


__all__ = ["DEVICE", "HOST", "HOST_FUNCTION"]
