"""What the tests of texture and surface objects do with a driver, in which they are the same both ways."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_uint64

from tests.softgpu.driver.objects import (
    ARRAY,
    AS_INTEGER,
    LINEAR,
    MIPMAPPED,
    NORMALIZED,
    PITCHED,
    Resource,
    Sampling,
    View,
)
from tests.softgpu.driver.ptx import HEADER
from tests.softgpu.driver.raw import Cuda

from .array_cases import SURFACE, Description, Shape, make, read, size_of, whole, write

FLOAT, UINT = 32, 3
# Element (thread, block) of a texture; elements of linear memory; a surface's element becomes 100 * y + x.
KERNELS = (
    HEADER
    + """
.visible .entry sample(.param .u64 object, .param .u64 out)
{
    .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<8>;
    ld.param.u64 %rd1, [object]; ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
    cvt.rn.f32.u32 %f1, %r1; add.f32 %f1, %f1, 0f3F000000;
    cvt.rn.f32.u32 %f2, %r2; add.f32 %f2, %f2, 0f3F000000;
    tex.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [%rd1, {%f1, %f2}];
    mad.lo.u32 %r4, %r2, %r3, %r1; mul.wide.u32 %rd3, %r4, 4; add.u64 %rd4, %rd2, %rd3;
    st.global.f32 [%rd4], %f3;
    ret;
}
.visible .entry fetch(.param .u64 object, .param .u64 out)
{
    .reg .b32 %r<8>; .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [object]; ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x;
    tex.1d.v4.u32.s32 {%r2, %r3, %r4, %r5}, [%rd1, {%r1}];
    mul.wide.u32 %rd3, %r1, 4; add.u64 %rd4, %rd2, %rd3;
    st.global.u32 [%rd4], %r2;
    ret;
}
.visible .entry store(.param .u64 object)
{
    .reg .b32 %r<8>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [object];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
    mad.lo.u32 %r3, %r2, 100, %r1; shl.b32 %r4, %r1, 2;
    sust.b.2d.b32.trap [%rd1, {%r4, %r2}], {%r3};
    ret;
}
"""
)


def resource(kind: int, handle: int = 0, **memory: int) -> Resource:
    its = Resource(type=kind)
    its.of.array = handle
    part = {LINEAR: its.of.linear, PITCHED: its.of.pitched}.get(kind)
    for name, value in memory.items():
        setattr(part, name, value)
    return its


def texture(cuda: Cuda, of: Resource, flags: int = 0, view: View | None = None) -> int:
    given = (byref(of), byref(Sampling(flags=flags)), byref(view) if view else None)
    return int(cuda.new("cuTexObjectCreate", *given))


def sampled(cuda: Cuda, kernel: str, value: int, width: int, height: int) -> bytes:
    out = cuda.alloc(4 * width * height)
    function = cuda.kernel(cuda.load(KERNELS), kernel)
    code = cuda.launch(function, c_uint64(value), c_uint64(out), grid=(height, 1, 1), block=(width, 1, 1))
    assert code == 0
    cuda.cuCtxSynchronize()
    result = cuda.read(out, 4 * width * height)
    cuda.cuMemFree_v2(out)
    return result


def array_is_sampled(cuda: Cuda, shape: Shape, data: bytes) -> tuple[bytes, tuple[int, ...], list[int]]:
    """What a kernel sees of an array; what is told of the object; how it ends, and ends again."""
    array = make(cuda, shape)
    write(cuda, array, shape, data)
    value = texture(cuda, resource(ARRAY, array))
    seen = sampled(cuda, "sample", value, shape[0], shape[1])
    told, sampling = Resource(), Sampling()
    cuda.cuTexObjectGetResourceDesc(byref(told), value)
    cuda.cuTexObjectGetTextureDesc(byref(sampling), value)
    answers = told.type, int(told.of.array == array), sampling.flags
    codes = [cuda.code("cuTexObjectGetResourceViewDesc", byref(View()), value)]
    codes += [cuda.code("cuTexObjectDestroy", value) for _ in range(2)]
    cuda.cuArrayDestroy(array)
    return seen, answers, codes


def level_is_sampled(cuda: Cuda, shape: Shape, data: bytes) -> bytes:
    """Of a mipmapped array's second level as a texture of its own."""
    mipmapped = cuda.new("cuMipmappedArrayCreate", byref(Description(*shape)), 2)
    level = cuda.new("cuMipmappedArrayGetLevel", mipmapped, 1)
    its = (shape[0] // 2, shape[1] // 2, *shape[2:])
    write(cuda, level, its, data)
    value = texture(cuda, resource(ARRAY, level))
    seen = sampled(cuda, "sample", value, its[0], its[1])
    cuda.cuTexObjectDestroy(value)
    cuda.cuMipmappedArrayDestroy(mipmapped)
    return seen


def memory_is_fetched(cuda: Cuda, data: bytes) -> bytes:
    memory = cuda.alloc(len(data))
    cuda.write(memory, data)
    value = texture(
        cuda, resource(LINEAR, address=memory, format=UINT, channels=1, bytes=len(data)), AS_INTEGER
    )
    seen = sampled(cuda, "fetch", value, len(data) // 4, 1)
    cuda.cuTexObjectDestroy(value)
    cuda.cuMemFree_v2(memory)
    return seen


def surface_is_written(cuda: Cuda, width: int, height: int) -> tuple[bytes, list[int]]:
    shape = (width, height, 0, UINT, 1, SURFACE)
    array = make(cuda, shape)
    write(cuda, array, shape, bytes(size_of(shape)))
    value = cuda.new("cuSurfObjectCreate", byref(resource(ARRAY, array)))
    store = cuda.kernel(cuda.load(KERNELS), "store")
    codes = [cuda.launch(store, c_uint64(value), grid=(height, 1, 1), block=(width, 1, 1))]
    after = read(cuda, array, shape)
    told = Resource()
    cuda.cuSurfObjectGetResourceDesc(byref(told), value)
    codes.append(int(told.of.array != array))
    codes += [cuda.code("cuSurfObjectDestroy", value) for _ in range(2)]
    cuda.cuArrayDestroy(array)
    return after, codes


def refused_objects(cuda: Cuda) -> list[int]:
    """Of what is gone, is not there, or cannot be."""
    plain = (16, 16, 0, FLOAT, 1, 0)
    gone = make(cuda, plain)
    cuda.cuArrayDestroy(gone)
    array, memory = make(cuda, plain), cuda.alloc(4096)
    mipmapped = cuda.new("cuMipmappedArrayCreate", byref(Description(*plain)), 2)

    def code(of: Resource, flags: int = 0, view: View | None = None) -> int:
        given = (byref(of), byref(Sampling(flags=flags)), byref(view) if view else None)
        return cuda.code("cuTexObjectCreate", byref(c_uint64()), *given)

    linear = {"format": FLOAT, "channels": 1}
    codes = [
        code(resource(ARRAY, gone)),
        code(resource(ARRAY, mipmapped), NORMALIZED),
        code(resource(MIPMAPPED, array), NORMALIZED),
        code(resource(MIPMAPPED, mipmapped)),
        code(resource(7, array)),
        code(resource(ARRAY, array), 1 << 20),
        code(resource(LINEAR, address=memory, bytes=8192, **linear)),
        code(resource(LINEAR, address=memory + 4, bytes=64, **linear)),
        code(resource(LINEAR, address=64, bytes=64, **linear)),
        code(resource(LINEAR, address=memory, bytes=2**63, **linear)),
        code(resource(PITCHED, address=memory, width=64, height=17, pitch=256, **linear)),
        code(resource(PITCHED, address=memory, width=65, height=2, pitch=256, **linear)),
        code(resource(ARRAY, array), 0, View(format=0x15, width=15, height=16)),
        cuda.code("cuSurfObjectCreate", byref(c_uint64()), byref(resource(ARRAY, array))),
        cuda.code("cuTexObjectDestroy", 12345),
        cuda.code("cuSurfObjectDestroy", 12345),
        cuda.code("cuTexObjectGetResourceDesc", byref(Resource()), 12345),
    ]
    cuda.cuMipmappedArrayDestroy(mipmapped)
    cuda.cuArrayDestroy(array)
    cuda.cuMemFree_v2(memory)
    return codes


def of_another_device(cuda: Cuda, shape: Shape) -> list[int]:
    """Objects of the first device's arrays and memory, made in the second's context, then in its own."""
    array = make(cuda, (*shape[:5], SURFACE))
    mipmapped = cuda.new("cuMipmappedArrayCreate", byref(Description(*shape)), 2)
    level = cuda.new("cuMipmappedArrayGetLevel", mipmapped, 1)
    memory = cuda.alloc(4096)
    linear = {"format": FLOAT, "channels": 1}

    def codes() -> list[int]:
        found = []
        for of, flags in (
            (resource(ARRAY, array), 0),
            (resource(ARRAY, level), 0),
            (resource(MIPMAPPED, mipmapped), NORMALIZED),
            (resource(LINEAR, address=memory, bytes=64, **linear), 0),
            (resource(PITCHED, address=memory, width=16, height=2, pitch=256, **linear), 0),
        ):
            given = byref(of), byref(Sampling(flags=flags)), None
            found.append(cuda.code("cuTexObjectCreate", byref(c_uint64()), *given))
        surface = byref(resource(ARRAY, array))
        return [*found, cuda.code("cuSurfObjectCreate", byref(c_uint64()), surface)]

    first = cuda.new("cuDevicePrimaryCtxRetain", 0)
    cuda.cuCtxSetCurrent(cuda.new("cuDevicePrimaryCtxRetain", 1))
    elsewhere = codes()
    cuda.cuDevicePrimaryCtxRelease_v2(1)
    cuda.cuCtxSetCurrent(first)
    return elsewhere + codes()


def leave_textures(cuda: Cuda, shape: Shape) -> int:
    """Objects that the program never destroys; what is free beside their arrays."""
    for _ in range(3):
        array = make(cuda, (*shape[:5], SURFACE))
        texture(cuda, resource(ARRAY, array))
        cuda.new("cuSurfObjectCreate", byref(resource(ARRAY, array)))
    return cuda.free_bytes()


def a_context_takes_its_textures_along(cuda: Cuda, shape: Shape) -> tuple[list[int], bool]:
    before = cuda.free_bytes()
    own = cuda.new("cuCtxCreate_v2", 0, 0)
    value = texture(cuda, resource(ARRAY, make(cuda, shape)))
    cuda.cuCtxDestroy_v2(own)
    cuda.cuCtxSetCurrent(cuda.new("cuDevicePrimaryCtxRetain", 0))
    codes = [cuda.code("cuTexObjectDestroy", value)]
    cuda.cuCtxSynchronize()
    back = cuda.free_bytes() == before
    cuda.cuDevicePrimaryCtxRelease_v2(0)
    return codes, back


def graph_samples(cuda: Cuda, shape: Shape, data: bytes) -> bytes:
    """A captured launch of a kernel that samples, whose array is filled by the copy before it."""
    array = make(cuda, shape)
    value = texture(cuda, resource(ARRAY, array))
    out = cuda.alloc(len(data))
    function = cuda.kernel(cuda.load(KERNELS), "sample")
    stream, graph = cuda.new("cuStreamCreate", 1), c_uint64()
    source = ctypes.create_string_buffer(data, len(data))
    cuda.cuStreamBeginCapture_v2(stream, 0)
    cuda.cuMemcpy3DAsync_v2(byref(whole(array, shape, "dst", ctypes.addressof(source))), stream)
    grid, block = (shape[1], 1, 1), (shape[0], 1, 1)
    assert cuda.launch(function, c_uint64(value), c_uint64(out), grid=grid, block=block, stream=stream) == 0
    cuda.cuStreamEndCapture(stream, byref(graph))
    exe = cuda.new("cuGraphInstantiateWithFlags", graph.value, 0)
    cuda.cuGraphLaunch(exe, stream)
    cuda.cuStreamSynchronize(stream)
    seen = cuda.read(out, len(data))
    cuda.cuGraphExecDestroy(exe)
    cuda.cuGraphDestroy(graph.value)
    cuda.cuStreamDestroy_v2(stream)
    cuda.cuTexObjectDestroy(value)
    cuda.cuArrayDestroy(array)
    cuda.cuMemFree_v2(out)
    return seen
