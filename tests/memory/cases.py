"""What the tests of memory do with a driver. Each function returns what a program sees, and no addresses."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_size_t, c_uint, c_uint64, c_void_p

from tests.softgpu.driver.raw import Cuda

HOST, DEVICE, ARRAY, UNIFIED = 1, 2, 3, 4
GUARD = 64


def _fields(*sides: str, extra: tuple[tuple[str, type], ...] = ()) -> tuple[tuple[str, type], ...]:
    return tuple((side + name, kind) for side in sides for name, kind in extra)


class Copy2D(ctypes.Structure):
    _fields_ = (
        *_fields(
            "src",
            "dst",
            extra=(
                ("XInBytes", c_size_t),
                ("Y", c_size_t),
                ("MemoryType", c_uint),
                ("Host", c_uint64),
                ("Device", c_uint64),
                ("Array", c_void_p),
                ("Pitch", c_size_t),
            ),
        ),
        ("WidthInBytes", c_size_t),
        ("Height", c_size_t),
    )


_SIDE_3D = (
    ("XInBytes", c_size_t),
    ("Y", c_size_t),
    ("Z", c_size_t),
    ("LOD", c_size_t),
    ("MemoryType", c_uint),
    ("Host", c_uint64),
    ("Device", c_uint64),
    ("Array", c_void_p),
    ("Context", c_void_p),  # reserved0 where the copy is not between contexts
    ("Pitch", c_size_t),
    ("Height", c_size_t),
)
_SHAPE_3D = (("WidthInBytes", c_size_t), ("Height", c_size_t), ("Depth", c_size_t))


class Copy3D(ctypes.Structure):
    _fields_ = (*_fields("src", "dst", extra=_SIDE_3D), *_SHAPE_3D)


class Area:
    """`size` bytes of one kind, with a guard on both sides: nothing may be written outside of it."""

    def __init__(self, cuda: Cuda, kind: str, data: bytes) -> None:
        self.cuda, self.kind, self.size = cuda, kind, len(data)
        room = self.size + 2 * GUARD
        if kind == "device":
            self.base = cuda.alloc(room)
        elif kind == "managed":
            self.base = cuda.new("cuMemAllocManaged", room, 1)
        elif kind == "pinned":
            self.base = cuda.new("cuMemHostAlloc", room, 0)
        elif kind == "mapped":
            self.base = cuda.new("cuMemHostAlloc", room, 2)
            cuda.new("cuMemHostGetDevicePointer_v2", self.base, 0)
        else:
            self.buffer = ctypes.create_string_buffer(room)
            self.base = ctypes.addressof(self.buffer)
        self.address = self.base + GUARD
        self.on_host = kind != "device"
        whole = b"\xa5" * GUARD + data + b"\x5a" * GUARD
        if self.on_host:
            ctypes.memmove(self.base, whole, room)
        else:
            cuda.write(self.base, whole)

    def read(self) -> bytes:
        room = self.size + 2 * GUARD
        self.cuda.cuCtxSynchronize()
        whole = ctypes.string_at(self.base, room) if self.on_host else self.cuda.read(self.base, room)
        assert (whole[:GUARD], whole[-GUARD:]) == (b"\xa5" * GUARD, b"\x5a" * GUARD), "a guard was written"
        return whole[GUARD:-GUARD]

    def free(self) -> None:
        if self.kind in ("device", "managed"):
            self.cuda.cuMemFree_v2(self.base)
        elif self.kind in ("pinned", "mapped"):
            self.cuda.cuMemFreeHost(self.base)

    def declared(self, unified: bool) -> int:
        return UNIFIED if unified else HOST if self.kind in ("pageable", "pinned", "mapped") else DEVICE


def with_stream(cuda: Cuda, stream_of: str, act: Callable[[int], int]) -> int:
    """Runs `act` with a stream of a kind, waits for it, and gives it back."""
    named = {"default": 0, "legacy": 1, "per thread": 2}
    stream = named[stream_of] if stream_of in named else cuda.new("cuStreamCreate", 1)
    code = act(stream)
    if code == 0:
        cuda.cuStreamSynchronize(stream)
    if stream_of not in named:
        cuda.cuStreamDestroy_v2(stream)
    return code


def copy_box(
    cuda: Cuda,
    form: str,
    stream_of: str,
    unified: bool,
    kinds: tuple[str, str],
    data: tuple[bytes, bytes],
    geometry: dict[str, int],
) -> tuple[int, bytes, bytes]:
    """A 2D or 3D copy between two areas; the code, and both areas afterwards."""
    source, target = (Area(cuda, kind, content) for kind, content in zip(kinds, data, strict=True))
    request = Copy3D() if "3D" in form else Copy2D()
    for side, area in (("src", source), ("dst", target)):
        declared = area.declared(unified)
        setattr(request, side + "MemoryType", declared)
        setattr(request, side + ("Host" if declared == HOST else "Device"), area.address)
    for name, value in geometry.items():
        if hasattr(request, name):
            setattr(request, name, value)
    if "Async" in form:
        code = with_stream(cuda, stream_of, lambda stream: cuda.code(form, byref(request), stream))
    else:
        code = cuda.code(form, byref(request))
    result = code, source.read(), target.read()
    source.free()
    target.free()
    return result


class Attributes(ctypes.Structure):
    _fields_ = (("order", c_uint), ("hints", c_uint * 4), ("flags", c_uint))


class Operand(ctypes.Structure):
    _fields_ = (
        ("type", c_uint),
        ("pointer", c_uint64),
        ("row", c_size_t),
        ("rows", c_size_t),
        ("hint", c_uint64),
    )


class BatchedBox(ctypes.Structure):
    _fields_ = (
        ("source", Operand),
        ("target", Operand),
        ("extent", c_size_t * 3),
        ("order", c_uint),
        ("flags", c_uint),
    )


def batch(
    cuda: Cuda, form: str, stream_of: str, sizes: list[int], orders: list[int], starts: list[int]
) -> tuple[int, int, bytes]:
    """Copies pieces of pinned memory to the device, each 16 bytes from the next; the code, what failed, and
    all of the device's memory."""
    source, target = Area(cuda, "pinned", bytes(range(256))), Area(cuda, "device", bytes(256))
    count, failed = len(sizes), c_size_t(77)
    to = (c_uint64 * count)(*(target.address + 16 * i for i in range(count)))
    from_ = (c_uint64 * count)(*(source.address + 16 * i for i in range(count)))
    attributes = (Attributes * len(orders))(*(Attributes(order) for order in orders))
    firsts = (c_size_t * len(starts))(*starts)
    arguments: list[object] = [to, from_, (c_size_t * count)(*sizes), count, attributes, firsts, len(orders)]
    if "_v2" not in form:
        arguments.append(byref(failed))
    code = with_stream(cuda, stream_of, lambda stream: cuda.code(form, *arguments, stream))
    after = target.read()
    source.free()
    target.free()
    return code, failed.value, after


def batch_3d(cuda: Cuda, shapes: list[tuple[int, int, int]], order: int) -> tuple[int, int, bytes]:
    source, target = Area(cuda, "device", bytes(range(256))), Area(cuda, "device", bytes(256))
    failed = c_size_t(77)
    boxes = (BatchedBox * len(shapes))()
    for i, (box, shape) in enumerate(zip(boxes, shapes, strict=True)):
        box.source = Operand(1, source.address + 64 * i, 8, 4)
        box.target = Operand(1, target.address + 64 * i, 0, 0)
        box.extent[:] = shape
        box.order = order
    code = with_stream(
        cuda,
        "own",
        lambda stream: cuda.code("cuMemcpy3DBatchAsync", len(shapes), boxes, byref(failed), 0, stream),
    )
    after = target.read()
    source.free()
    target.free()
    return code, failed.value, after


def a_million_copies(cuda: Cuda) -> tuple[int, bytes]:
    """One batch of a million copies of a byte."""
    count = 1_000_000
    source, target = Area(cuda, "device", bytes(range(250)) * 4), Area(cuda, "device", bytes(1000))
    to = (c_uint64 * count)(*(target.address + i % 1000 for i in range(count)))
    from_ = (c_uint64 * count)(*(source.address + i % 1000 for i in range(count)))
    sizes = (c_size_t * count)(*([1] * count))
    attributes, firsts = (Attributes * 1)(Attributes(1)), (c_size_t * 1)(0)
    arguments = to, from_, sizes, count, attributes, firsts, 1
    code = with_stream(cuda, "own", lambda stream: cuda.code("cuMemcpyBatchAsync_v2", *arguments, stream))
    return code, target.read()
