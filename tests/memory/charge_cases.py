"""What the tests of the slice's account do with a driver."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_int, c_size_t, c_uint64

from tests.graphs.driver import KernelParams
from tests.softgpu.driver.ptx import HEADER
from tests.softgpu.driver.raw import Cuda

MIB = 1 << 20
PRINTF_FIFO, HEAP, STACK = 1, 2, 0
KERNEL = ".visible .entry none() { ret; }\n"


@contextmanager
def taken_by(cuda: Cuda, told: list[int]) -> Iterator[None]:
    """Adds to ``told`` how many MiB, rounded, are taken meanwhile."""
    before = cuda.free_bytes()
    yield
    told.append(round((before - cuda.free_bytes()) / MIB))


def variables_of_a_module(cuda: Cuda, text: str) -> tuple[int, list[int]]:
    """How its load ended; MiB that it took at once, and that it still has when it is unloaded."""
    told: list[int] = []
    module = c_uint64()
    with taken_by(cuda, told):
        with taken_by(cuda, told):
            image = ctypes.create_string_buffer((HEADER + text + KERNEL).encode())
            code = cuda.code("cuModuleLoadData", byref(module), image)
        if code == 0:
            cuda.cuModuleUnload(module.value)
    return code, told


def load_of(cuda: Cuda, image: bytes) -> int:
    module = c_uint64()
    code = cuda.code("cuModuleLoadData", byref(module), ctypes.create_string_buffer(image))
    if code == 0:
        cuda.cuModuleUnload(module.value)
    return code


def module_of_a_graph(cuda: Cuda, mib: int) -> list[int]:
    """MiB that are taken once the module is unloaded, once its graph has run again, and without the graph."""
    told: list[int] = []
    with taken_by(cuda, told):
        with taken_by(cuda, told):
            with taken_by(cuda, told):
                module = cuda.load(f"{HEADER}.visible .global .b8 big[{mib * MIB}];\n{KERNEL}")
                graph = cuda.new("cuGraphCreate", 0)
                params = KernelParams(cuda.kernel(module, "none"), 1, 1, 1, 1, 1, 1)
                cuda.new("cuGraphAddKernelNode_v2", graph, None, 0, byref(params))
                launchable = cuda.new("cuGraphInstantiateWithFlags", graph, 0)
                cuda.cuModuleUnload(module)
            stream = cuda.new("cuStreamCreate", 1)
            cuda.cuGraphLaunch(launchable, stream)
            cuda.cuStreamSynchronize(stream)
        cuda.cuGraphExecDestroy(launchable)
        cuda.cuGraphDestroy(graph)
    return told


def limit_of(cuda: Cuda, limit: int) -> int:
    return int(cuda.new("cuCtxGetLimit", limit, kind=c_size_t))


def resident_threads(cuda: Cuda) -> int:
    multiprocessors, threads = 16, 39  # CU_DEVICE_ATTRIBUTE_...
    return math.prod(
        cuda.new("cuDeviceGetAttribute", what, 0, kind=c_int) for what in (multiprocessors, threads)
    )


def limits(cuda: Cuda, limit: int, more: int) -> tuple[list[int], list[int], list[bool]]:
    """Codes, and MiB taken, as a context gets a larger limit, one that does not fit, and its first one."""
    codes: list[int] = []
    told: list[int] = []
    first = limit_of(cuda, limit)
    unit = resident_threads(cuda) if limit == STACK else 1
    with taken_by(cuda, told):
        with taken_by(cuda, told):
            with taken_by(cuda, told):
                codes.append(cuda.code("cuCtxSetLimit", limit, first + more // unit))
            codes.append(cuda.code("cuCtxSetLimit", limit, first + (1 << 50) // unit))
        kept = limit_of(cuda, limit) == first + more // unit
        codes.append(cuda.code("cuCtxSetLimit", limit, first))
    return codes, told, [kept, limit_of(cuda, limit) == first]


def limits_end_with_their_context(cuda: Cuda) -> list[int]:
    told: list[int] = []
    first = limit_of(cuda, HEAP)
    with taken_by(cuda, told):
        with taken_by(cuda, told):
            context = cuda.new("cuCtxCreate_v2", 0, 0)
            cuda.cuCtxSetLimit(HEAP, first + 8 * MIB)
        cuda.cuCtxDestroy_v2(context)
    return [*told, limit_of(cuda, HEAP) - first]


def need(cuda: Cuda, limit: int, more: int) -> int:
    return cuda.code("cuCtxSetLimit", limit, limit_of(cuda, limit) + more)


def free_mib(cuda: Cuda) -> int:
    return round(cuda.free_bytes() / MIB)
