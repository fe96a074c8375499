"""What the tests of launches and stream attributes do with a driver. Each returns what a program sees."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_uint, c_uint64, c_void_p

from tests.softgpu.driver import ptx
from tests.softgpu.driver.raw import Cuda

TEXT = ptx.HEADER + ptx.FILL
COOPERATIVE, CLUSTER, PROGRAMMATIC_EVENT = 2, 4, 7


class Attribute(ctypes.Structure):
    _fields_ = (("id", c_int), ("pad", c_int), ("value", c_uint * 16))


class Config(ctypes.Structure):
    _fields_ = (
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared", c_uint),
        ("stream", c_void_p),
        ("attributes", c_void_p),
        ("count", c_uint),
    )


def the_launch_of_the_first_releases(cuda: Cuda) -> object:
    fill, to = cuda.kernel(cuda.load(TEXT), "fill"), cuda.alloc(256)
    address, stream = c_uint64(to), cuda.new("cuStreamCreate", 0)
    codes = [
        cuda.code("cuFuncSetBlockShape", fill, 16, 1, 1),
        cuda.code("cuFuncSetSharedSize", fill, 0),
        cuda.code("cuParamSetSize", fill, 16),
        cuda.code("cuParamSetv", fill, 0, byref(address), 8),
        cuda.code("cuParamSeti", fill, 8, 100),
        cuda.code("cuParamSeti", fill, 12, 64),
        cuda.code("cuLaunchGrid", fill, 2, 1),
    ]
    data = [cuda.read(to, 256)]
    cuda.cuParamSeti(fill, 8, 200)
    codes.append(cuda.code("cuLaunchGridAsync", fill, 4, 1, stream))
    cuda.cuStreamSynchronize(stream)
    data.append(cuda.read(to, 256))
    codes += [
        cuda.code("cuLaunch", fill),
        cuda.code("cuFuncSetBlockShape", fill, 0, 1, 1),
        cuda.code("cuFuncSetBlockShape", 77, 1, 1, 1),
        cuda.code("cuParamSeti", fill, -4, 1),
        cuda.code("cuParamSetSize", fill, 1 << 20),
        cuda.code("cuLaunchGrid", fill, 0, 1),
    ]
    cuda.cuCtxSynchronize()
    return codes, data


def attributes_of_streams(cuda: Cuda) -> object:
    first, second = (cuda.new("cuStreamCreateWithPriority", 1, -1) for _ in range(2))
    value = (c_uint * 16)()
    codes = [cuda.code("cuStreamGetAttribute", first, 8, value), value[0]]
    codes += [cuda.code("cuStreamGetAttribute", first, 3, value), value[0]]
    value[0] = 3
    codes += [
        cuda.code("cuStreamSetAttribute", first, 3, value),
        cuda.code("cuStreamCopyAttributes", second, first),
    ]
    value[0] = 0
    codes += [cuda.code("cuStreamGetAttribute_ptsz", second, 3, value), value[0]]
    # Stream 0 of a form for the thread's own stream is that one, and no other.
    value[0] = 2
    codes += [cuda.code("cuStreamSetAttribute_ptsz", 0, 3, value)]
    for form, stream in (("", 0), ("", 1), ("", 2), ("_ptsz", 0)):
        value[0] = 9
        codes += [cuda.code(f"cuStreamGetAttribute{form}", stream, 3, value), value[0]]
    codes += [
        cuda.code("cuStreamGetAttribute", 77, 3, value),
        cuda.code("cuStreamSetAttribute", first, 3, None),
        cuda.code("cuStreamGetAttribute", first, 99, value),
    ]
    return codes


def attributes_of_many_streams(cuda: Cuda) -> set[int]:
    """More than are kept at once, each ended before the next: what setting them answers."""
    first, stream, codes = cuda.new("cuStreamCreate", 1), c_uint64(), set()
    for _ in range(33_000):
        cuda.library.cuStreamCreate(byref(stream), 1)
        codes.add(cuda.library.cuStreamCopyAttributes(stream, c_uint64(first)))
        cuda.library.cuStreamDestroy_v2(stream)
    return codes


def launch_attributes(cuda: Cuda) -> object:
    fill, to = cuda.kernel(cuda.load(TEXT), "fill"), cuda.alloc(4096)
    values = (c_uint64(to), c_uint(7), c_uint(8))
    parameters = (c_void_p * 3)(*(ctypes.addressof(value) for value in values))

    def launch(grid: int, kind: int, *value: int) -> int:
        attribute = Attribute(kind, 0, (c_uint * 16)(*value))
        config = Config(
            (c_uint * 3)(grid, 1, 1), (c_uint * 3)(32, 1, 1), 0, None, ctypes.addressof(attribute), 1
        )
        return cuda.code("cuLaunchKernelEx", byref(config), fill, parameters, None)

    codes = [
        launch(1, COOPERATIVE, 1),
        launch(1 << 20, COOPERATIVE, 1),
        launch(1, CLUSTER, 1, 1, 1),
        launch(1, CLUSTER, 2, 1, 1),
        launch(1, PROGRAMMATIC_EVENT, 1),
        cuda.code("cuLaunchCooperativeKernel", fill, 1, 1, 1, 32, 1, 1, 0, 0, parameters),
        cuda.code("cuLaunchCooperativeKernel", fill, 1 << 20, 1, 1, 32, 1, 1, 0, 0, parameters),
    ]
    supported = cuda.new("cuDeviceGetAttribute", 95, 0, kind=c_int)
    return codes, supported, cuda.read(to, 32)


def occupancy(cuda: Cuda) -> object:
    """Blocks a multiprocessor, the room that each then has, and the block that the driver would choose."""
    module, found = cuda.load(ptx.HEADER + ptx.SHAPES), []
    blocks, grid, size = c_int(), c_int(), c_int()
    room = ctypes.c_size_t()
    for name in ("none", "mixed", "bounded"):
        kernel = cuda.kernel(module, name)
        for threads in (1, 32, 33, 64, 96, 128, 160, 224, 256, 320, 512, 768, 1000, 1024, 2048):
            for shared in (
                0,
                1,
                256,
                257,
                1000,
                4097,
                5000,
                5120,
                5121,
                10_000,
                40_000,
                65_536,
                70_000,
                1 << 62,
            ):
                code = cuda.code(
                    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
                    byref(blocks),
                    kernel,
                    threads,
                    c_uint64(shared),
                )
                found.append(("blocks", name, threads, shared, code, blocks.value))
            for count in (0, 1, 2, 3, 5, 7, 16, 17):
                code = cuda.code(
                    "cuOccupancyAvailableDynamicSMemPerBlock", byref(room), kernel, count, threads
                )
                found.append(("room", name, threads, count, code, 0 if code else room.value))
        for shared, limit in ((0, 0), (5000, 0), (20_000, 512), (0, 100), (0, -1)):
            code = cuda.code(
                "cuOccupancyMaxPotentialBlockSize",
                byref(grid),
                byref(size),
                kernel,
                None,
                c_uint64(shared),
                limit,
            )
            answer = (0, 0) if code else (size.value, grid.value)
            found.append(("choice", name, shared, limit, code, answer))
    return found
