"""A program that is started with several values of CUDA_VISIBLE_DEVICES and prints what it sees with each.

One process: it starts CUDA in forked children only, which are new processes for CUDA and cost no new Python.
"""

from __future__ import annotations

import json
import os
import sys
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, create_string_buffer
from pathlib import Path

from tests.memory.virtual_cases import GRANULE, create_on, reserve
from tests.softgpu.driver import ptx
from tests.softgpu.driver.raw import Cuda

DEVICE_OF_POINTER = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL


def seen_with(cuda: Cuda, value: str | None) -> object:
    if value is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = value
    started = cuda.code("cuInit", 0)
    if started != 0:
        return started, cuda.code("cuDeviceGetCount", byref(c_int()))
    count = cuda.new("cuDeviceGetCount", kind=c_int)
    # What is set when CUDA has started changes nothing.
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    return started, [device(cuda, number) for number in range(count)], cuda.code("cuCtxSetCurrent", None)


def device(cuda: Cuda, number: int) -> object:
    uuid, bus = create_string_buffer(16), create_string_buffer(32)
    cuda.cuDeviceGetUuid_v2(uuid, number)
    cuda.cuDeviceGetPCIBusId(bus, 32, number)
    back = cuda.new("cuDeviceGetByPCIBusId", bus, kind=c_int)
    context = cuda.new("cuDevicePrimaryCtxRetain", number)
    cuda.cuCtxSetCurrent(context)
    total, free = c_size_t(), c_size_t()
    before = cuda.new("cuDeviceTotalMem_v2", number, kind=c_size_t)
    cuda.cuMemGetInfo_v2(byref(free), byref(total))
    return uuid.raw.hex(), bus.value.decode(), back, before, total.value == before, *work(cuda, number)


def work(cuda: Cuda, number: int) -> tuple[object, ...]:
    """A kernel, a pool's memory, a stream's, and mapped memory: each with this device's number."""
    fill, stream = cuda.kernel(cuda.load(ptx.HEADER + ptx.FILL), "fill"), cuda.new("cuStreamCreate", 1)
    pool = cuda.new("cuDeviceGetDefaultMemPool", number)
    plain, pooled = cuda.alloc(256), cuda.new("cuMemAllocFromPoolAsync", 256, pool, stream)
    cuda.cuStreamSynchronize(stream)
    places = []
    for address in (plain, pooled, mapped(cuda, number)):
        assert cuda.launch(fill, c_uint64(address), c_int(number + 5), c_int(64), block=(64, 1, 1)) == 0
        places.append(cuda.new("cuPointerGetAttribute", DEVICE_OF_POINTER, address, kind=c_int))
        places.append(cuda.read(address, 8).hex())
    return tuple(places)


def mapped(cuda: Cuda, number: int) -> int:
    address = reserve(cuda, GRANULE)
    cuda.cuMemMap(address, GRANULE, 0, create_on(cuda, number, GRANULE), 0)
    cuda.cuMemSetAccess(address, GRANULE, (c_uint * 3)(1, number, 3), 1)
    return address


def main() -> None:
    cuda = Cuda(Path("libcuda.so.1"))
    for value in json.loads(sys.argv[1]):
        child = os.fork()
        if child == 0:
            os.write(1, (json.dumps([value, seen_with(cuda, value)]) + "\n").encode())
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, value


if __name__ == "__main__":
    main()
