"""What the tests of arrays do with a driver."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64

from tests.softgpu.driver.raw import NON_BLOCKING, Cuda

from .cases import ARRAY, HOST, Area, BatchedBox, Copy2D, Copy3D, with_stream

LAYERED, SURFACE, CUBEMAP, GATHER = 1, 2, 4, 8
Shape = tuple[int, int, int, int, int, int]
"""Width, height, depth, format, channels, flags."""
BYTES = {1: 1, 2: 2, 3: 4, 8: 1, 9: 2, 10: 4, 16: 2, 32: 4}


class Description(ctypes.Structure):
    _fields_ = (
        ("width", c_size_t),
        ("height", c_size_t),
        ("depth", c_size_t),
        ("format", c_uint),
        ("channels", c_uint),
        ("flags", c_uint),
    )

    def told(self) -> Shape:
        return self.width, self.height, self.depth, self.format, self.channels, self.flags


class FlatDescription(ctypes.Structure):
    _fields_ = (("width", c_size_t), ("height", c_size_t), ("format", c_uint), ("channels", c_uint))


def element(shape: Shape) -> int:
    return BYTES[shape[3]] * shape[4]


def extents(shape: Shape) -> tuple[int, int, int]:
    """Planes, rows, and bytes of a row."""
    return max(shape[2], 1), max(shape[1], 1), shape[0] * element(shape)


def level_of(shape: Shape, level: int) -> Shape:
    def half(extent: int) -> int:
        return max(extent >> level, 1) if extent else 0

    width, height, depth, *rest = shape
    layers = shape[5] & (LAYERED | CUBEMAP)
    return (half(width), half(height), depth if layers else half(depth), *rest)


def size_of(shape: Shape) -> int:
    planes, rows, row = extents(shape)
    return planes * rows * row


def make(cuda: Cuda, shape: Shape) -> int:
    return int(cuda.new("cuArray3DCreate_v2", byref(Description(*shape))))


@contextmanager
def array_of(cuda: Cuda, shape: Shape) -> Iterator[int]:
    array = make(cuda, shape)
    yield array
    cuda.cuArrayDestroy(array)


def set_array(request: ctypes.Structure, side: str, array: int) -> None:
    setattr(request, side + "MemoryType", ARRAY)
    setattr(request, side + "Array", array)


def set_host(request: ctypes.Structure, side: str, address: int, row: int, rows: int) -> None:
    setattr(request, side + "MemoryType", HOST)
    setattr(request, side + "Host", address)
    setattr(request, side + "Pitch", row)
    if hasattr(request, side + "Height"):
        setattr(request, side + "Height", rows)


def whole(array: int, shape: Shape, side: str, address: int) -> Copy3D:
    """All of the array, ``side`` of a copy; the other one is in memory of the host without gaps."""
    planes, rows, row = extents(shape)
    request = Copy3D(WidthInBytes=row, Height=rows, Depth=planes)
    set_array(request, side, array)
    set_host(request, "dst" if side == "src" else "src", address, row, rows)
    return request


def write(cuda: Cuda, array: int, shape: Shape, data: bytes) -> None:
    buffer = ctypes.create_string_buffer(data, len(data))
    cuda.cuMemcpy3D_v2(byref(whole(array, shape, "dst", ctypes.addressof(buffer))))


def read(cuda: Cuda, array: int, shape: Shape) -> bytes:
    buffer = ctypes.create_string_buffer(size_of(shape))
    cuda.cuCtxSynchronize()
    cuda.cuMemcpy3D_v2(byref(whole(array, shape, "src", ctypes.addressof(buffer))))
    return buffer.raw


def attributes(cuda: Cuda, numbers: list[int]) -> list[int]:
    return [cuda.new("cuDeviceGetAttribute", number, 0, kind=c_int) for number in numbers]


def descriptions(cuda: Cuda, shape: Shape, levels: int) -> tuple[int, list[object], list[int]]:
    """How making one ends; what it tells of itself, level by level; how its handles end."""
    array, told, ends = c_uint64(77), [], []
    given = byref(Description(*shape))
    if levels:
        code = cuda.code("cuMipmappedArrayCreate", byref(array), given, levels)
    else:
        code = cuda.code("cuArray3DCreate_v2", byref(array), given)
    if code:
        return code, [array.value], []
    parts = [array.value]
    if levels:
        parts, number = [], c_uint64()
        while cuda.code("cuMipmappedArrayGetLevel", byref(number), array.value, len(parts)) == 0:
            parts.append(number.value)
        ends.append(cuda.code("cuArrayDestroy", parts[0]))
    for part in parts:
        its, flat = Description(), FlatDescription()
        cuda.cuArray3DGetDescriptor_v2(byref(its), part)
        cuda.cuArrayGetDescriptor_v2(byref(flat), part)
        told.append((its.told(), flat.width, flat.height, flat.format, flat.channels))
    destroy = "cuMipmappedArrayDestroy" if levels else "cuArrayDestroy"
    ends += [cuda.code(destroy, array.value) for _ in range(2)]
    ends += [cuda.code("cuArray3DGetDescriptor_v2", byref(Description()), part) for part in parts]
    return code, told, ends


class ArrayArea:
    """As an Area, an array: all of it is read, so nothing may be written outside of a box."""

    def __init__(self, cuda: Cuda, shape: Shape, data: bytes) -> None:
        self.cuda, self.shape, self.array = cuda, shape, make(cuda, shape)
        write(cuda, self.array, shape, data)

    def read(self) -> bytes:
        return read(self.cuda, self.array, self.shape)

    def free(self) -> None:
        self.cuda.cuArrayDestroy(self.array)


def copy_with_arrays(
    cuda: Cuda,
    form: str,
    stream_of: str,
    kinds: tuple[str | Shape, str | Shape],
    data: tuple[bytes, bytes],
    geometry: dict[str, int],
) -> tuple[int, bytes, bytes]:
    """A copy of which each end is an array of a shape, or memory of a kind; the code, and both afterwards."""
    ends = [
        Area(cuda, kind, content) if isinstance(kind, str) else ArrayArea(cuda, kind, content)
        for kind, content in zip(kinds, data, strict=True)
    ]
    request = Copy3D() if "3D" in form else Copy2D()
    for name, value in geometry.items():
        if hasattr(request, name):
            setattr(request, name, value)
    for side, end in zip(("src", "dst"), ends, strict=True):
        if isinstance(end, ArrayArea):
            set_array(request, side, end.array)
        else:
            declared = end.declared(False)
            setattr(request, side + "MemoryType", declared)
            setattr(request, side + ("Host" if declared == HOST else "Device"), end.address)
    if "Async" in form:
        code = with_stream(cuda, stream_of, lambda stream: cuda.code(form, byref(request), stream))
    else:
        code = cuda.code(form, byref(request))
    result = code, ends[0].read(), ends[1].read()
    for end in ends:
        end.free()
    return result


def copies_within_a_row(cuda: Cuda, shape: Shape, offset: int, size: int) -> tuple[list[int], bytes, bytes]:
    """Into a row, on to a second array, and back by all of the calls of CUDA's first releases."""
    row = extents(shape)[2]
    data = bytes(i % 251 for i in range(size))
    memory, back = cuda.alloc(max(size, 1)), ctypes.create_string_buffer(max(size, 1))
    host = ctypes.create_string_buffer(data, max(size, 1))
    codes = []
    with array_of(cuda, shape) as one, array_of(cuda, shape) as other:
        for array in (one, other):
            write(cuda, array, shape, bytes(size_of(shape)))
        codes.append(cuda.code("cuMemcpyHtoA_v2", one, offset, host, size))
        codes.append(cuda.code("cuMemcpyAtoA_v2", other, offset, one, offset, size))
        codes.append(cuda.code("cuMemcpyAtoD_v2", memory, other, offset, size))
        codes.append(cuda.code("cuMemcpyDtoA_v2", one, 0, memory, size))
        codes.append(cuda.code("cuMemcpyAtoH_v2", back, one, 0, size))
        stream = cuda.new("cuStreamCreate", NON_BLOCKING)
        codes.append(cuda.code("cuMemcpyHtoAAsync_v2", other, 0, host, size, stream))
        codes.append(cuda.code("cuMemcpyAtoHAsync_v2", back, other, 0, size, stream))
        cuda.cuStreamSynchronize(stream)
        cuda.cuStreamDestroy_v2(stream)
        first = read(cuda, one, shape)[:row]
    cuda.cuMemFree_v2(memory)
    return codes, back.raw[:size], first


def levels_are_apart(cuda: Cuda, shape: Shape, levels: int) -> list[bytes]:
    """Each level filled with a number of its own; then what is in them."""
    array = cuda.new("cuMipmappedArrayCreate", byref(Description(*shape)), levels)
    shapes = [level_of(shape, level) for level in range(levels)]
    parts = [cuda.new("cuMipmappedArrayGetLevel", array, level) for level in range(levels)]
    for i, (part, its) in enumerate(zip(parts, shapes, strict=True)):
        write(cuda, part, its, bytes([i + 1]) * size_of(its))
    told = [read(cuda, part, its) for part, its in zip(parts, shapes, strict=True)]
    cuda.cuMipmappedArrayDestroy(array)
    return told


class ArrayOperand(ctypes.Structure):
    _fields_ = (("type", c_uint), ("array", c_uint64), ("offset", c_size_t * 3))


def batch_with_arrays(cuda: Cuda, offset: tuple[int, int, int], extent: tuple[int, int, int], order: int):
    """Device memory to an array of 4-byte elements and on to another: sizes are elements."""
    shape = (16, 8, 4, 32, 1, 0)
    data = bytes(i % 253 for i in range(size_of(shape)))
    source, failed = Area(cuda, "device", data), c_size_t(77)
    one, other = (ArrayArea(cuda, shape, bytes(size_of(shape))) for _ in range(2))
    boxes = (BatchedBox * 2)()
    boxes[0].source.type, boxes[0].source.pointer = 1, source.address
    boxes[0].source.row, boxes[0].source.rows = 16, 8
    for box, end, array in ((0, "target", one), (1, "source", one), (1, "target", other)):
        place = ArrayOperand.from_buffer(getattr(boxes[box], end))
        place.type, place.array = 2, array.array
        place.offset[:] = offset
    for box in boxes:
        box.extent[:] = extent
        box.order = order

    def each(stream: int) -> int:
        """One after the other: copies of one batch keep no order."""
        codes = [cuda.code("cuMemcpy3DBatchAsync", 1, byref(box), byref(failed), 0, stream) for box in boxes]
        return next(filter(None, codes), 0)

    code = with_stream(cuda, "own", each)
    result = code, failed.value, one.read(), other.read()
    for area in (source, one, other):
        area.free()
    return result


def captured_copies(cuda: Cuda, shape: Shape, data: bytes) -> tuple[list[int], bytes, list[tuple[int, ...]]]:
    """From host memory to an array, to another, and back, captured and launched twice."""
    source = ctypes.create_string_buffer(data, len(data))
    back = ctypes.create_string_buffer(len(data))
    stream = cuda.new("cuStreamCreate", NON_BLOCKING)
    one, other = make(cuda, shape), make(cuda, shape)
    planes, rows, row = extents(shape)
    across = Copy3D(WidthInBytes=row, Height=rows, Depth=planes)
    set_array(across, "src", one)
    set_array(across, "dst", other)
    requests = [
        whole(one, shape, "dst", ctypes.addressof(source)),
        across,
        whole(other, shape, "src", ctypes.addressof(back)),
    ]
    cuda.cuStreamBeginCapture_v2(stream, 0)
    codes = [cuda.code("cuMemcpy3DAsync_v2", byref(request), stream) for request in requests]
    graph = c_uint64()
    codes.append(cuda.code("cuStreamEndCapture", stream, byref(graph)))
    shown = [told_of(cuda, node) for node in nodes_of(cuda, graph.value)]
    named = [
        tuple({one: 1, other: 2}.get(array, array) for array in arrays) + kinds for arrays, kinds in shown
    ]
    exe = cuda.new("cuGraphInstantiateWithFlags", graph.value, 0)
    for again in range(2):
        ctypes.memset(source, 3 * again, len(data) if again else 0)
        codes.append(cuda.code("cuGraphLaunch", exe, stream))
        cuda.cuStreamSynchronize(stream)
    cuda.cuGraphExecDestroy(exe)
    cuda.cuGraphDestroy(graph.value)
    cuda.cuStreamDestroy_v2(stream)
    for array in (one, other):
        cuda.cuArrayDestroy(array)
    return codes, back.raw, named


def nodes_of(cuda: Cuda, graph: int) -> list[int]:
    count = c_size_t(8)
    nodes = (c_uint64 * 8)()
    cuda.cuGraphGetNodes(graph, nodes, byref(count))
    return list(nodes[: count.value])


def told_of(cuda: Cuda, node: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Arrays of a copy's node, and what its ends are."""
    told = Copy3D()
    cuda.cuGraphMemcpyNodeGetParams(node, byref(told))
    return (told.srcArray or 0, told.dstArray or 0), (told.srcMemoryType, told.dstMemoryType)


def a_graph_keeps_its_array(cuda: Cuda, shape: Shape, data: bytes) -> tuple[list[int], bytes]:
    """A copy's node is set to another array; the first one is destroyed before the launch."""
    source = ctypes.create_string_buffer(data, len(data))
    one, other = make(cuda, shape), make(cuda, shape)
    graph, node = cuda.new("cuGraphCreate", 0), c_uint64()
    context = cuda.new("cuCtxGetCurrent")
    request = whole(one, shape, "dst", ctypes.addressof(source))
    codes = [cuda.code("cuGraphAddMemcpyNode", byref(node), graph, None, 0, byref(request), context)]
    exe = cuda.new("cuGraphInstantiateWithFlags", graph, 0)
    request = whole(other, shape, "dst", ctypes.addressof(source))
    codes.append(cuda.code("cuGraphExecMemcpyNodeSetParams", exe, node.value, byref(request), context))
    cuda.cuArrayDestroy(one)
    codes.append(cuda.code("cuGraphLaunch", exe, 0))
    after = read(cuda, other, shape)
    cuda.cuGraphExecDestroy(exe)
    cuda.cuGraphDestroy(graph)
    cuda.cuArrayDestroy(other)
    return codes, after


def refused_handles(cuda: Cuda) -> list[int]:
    """Copies with what is no array any more, was never one, or is of another kind."""
    shape = (16, 16, 0, 32, 1, 0)
    gone = make(cuda, shape)
    cuda.cuArrayDestroy(gone)
    mipmapped = cuda.new("cuMipmappedArrayCreate", byref(Description(*shape)), 2)
    stream = cuda.new("cuStreamCreate", NON_BLOCKING)
    buffer = ctypes.create_string_buffer(size_of(shape))
    codes = []
    for array in (gone, 0, 12345, 2**64 - 1, mipmapped, stream):
        request = whole(array, shape, "src", ctypes.addressof(buffer))
        codes.append(cuda.code("cuMemcpy3D_v2", byref(request)))
        codes.append(cuda.code("cuArrayDestroy", array))
        codes.append(cuda.code("cuArrayGetDescriptor_v2", byref(FlatDescription()), array))
    codes.append(cuda.code("cuMipmappedArrayGetLevel", byref(c_uint64()), mipmapped, 2))
    codes.append(cuda.code("cuMipmappedArrayGetLevel", byref(c_uint64()), gone, 0))
    cuda.cuMipmappedArrayDestroy(mipmapped)
    cuda.cuStreamDestroy_v2(stream)
    return codes


def room_for_arrays(cuda: Cuda, shape: Shape) -> tuple[list[int], bool, bool]:
    """Arrays until there is no room; whether all of it is back when they are gone, and what they took is
    at least what is in them."""
    before, arrays, codes = cuda.free_bytes(), [], []
    while not codes or codes[-1] == 0:
        array = c_uint64()
        codes.append(cuda.code("cuArray3DCreate_v2", byref(array), byref(Description(*shape))))
        arrays += [array.value] if codes[-1] == 0 else []
    taken = before - cuda.free_bytes()
    for array in arrays:
        cuda.cuArrayDestroy(array)
    cuda.cuCtxSynchronize()
    return sorted(set(codes)), cuda.free_bytes() == before, taken >= len(arrays) * size_of(shape)


def a_context_takes_its_arrays_along(cuda: Cuda, shape: Shape) -> tuple[bool, list[int], bool]:
    before = cuda.free_bytes()
    own = cuda.new("cuCtxCreate_v2", 0, 0)
    array = make(cuda, shape)
    mipmapped = cuda.new("cuMipmappedArrayCreate", byref(Description(*shape)), 3)
    level = cuda.new("cuMipmappedArrayGetLevel", mipmapped, 1)
    taken = cuda.free_bytes() < before
    cuda.cuCtxDestroy_v2(own)
    cuda.cuCtxSetCurrent(cuda.new("cuDevicePrimaryCtxRetain", 0))
    codes = [
        cuda.code("cuArrayDestroy", array),
        cuda.code("cuMipmappedArrayDestroy", mipmapped),
        cuda.code("cuArray3DGetDescriptor_v2", byref(Description()), level),
    ]
    cuda.cuCtxSynchronize()
    back = cuda.free_bytes() == before
    cuda.cuDevicePrimaryCtxRelease_v2(0)
    return taken, codes, back


def leave_arrays(cuda: Cuda, shape: Shape) -> int:
    """Arrays that the program never destroys; what is free beside them."""
    for _ in range(3):
        make(cuda, shape)
        cuda.new("cuMipmappedArrayCreate", byref(Description(*shape)), 2)
    return cuda.free_bytes()


def free_bytes(cuda: Cuda) -> int:
    return cuda.free_bytes()


def asked_of_arrays(cuda: Cuda) -> list[int]:
    """What only arrays of other kinds answer, and calls without a place for the answer."""
    shape = (16, 16, 0, 32, 1, 0)
    room = ctypes.create_string_buffer(256)
    with array_of(cuda, shape) as array:
        return [
            cuda.code("cuArrayGetSparseProperties", room, array),
            cuda.code("cuArrayGetMemoryRequirements", room, array, 0),
            cuda.code("cuArrayGetPlane", room, array, 0),
            cuda.code("cuArrayGetDescriptor_v2", None, array),
            cuda.code("cuArray3DCreate_v2", None, byref(Description(*shape))),
            cuda.code("cuArray3DCreate_v2", room, None),
            cuda.code("cuArrayCreate_v2", room, None),
            cuda.code("cuMipmappedArrayCreate", room, None, 1),
        ]
