"""What the tests of pools do with a driver."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_size_t, c_uint, c_uint64

from tests.softgpu.driver.raw import Cuda


def pool_properties(most: int = 0, kind: int = 1, where: int = 1, handles: int = 0) -> ctypes.Array[c_uint64]:
    """A CUmemPoolProps: type, handle types, location, security attributes, limit, usage, reserved."""
    properties = (c_uint64 * 16)()
    c_uint.from_buffer(properties, 0).value = kind
    c_uint.from_buffer(properties, 4).value = handles
    c_uint.from_buffer(properties, 8).value = where
    c_size_t.from_buffer(properties, 24).value = most
    return properties


def pool_value(cuda: Cuda, pool: int, attribute: int) -> int:
    value = c_uint64()
    cuda.cuMemPoolGetAttribute(pool, attribute, byref(value))
    return value.value


def pool_attributes(cuda: Cuda) -> list[int]:
    pool = cuda.new("cuMemPoolCreate", pool_properties(1 << 20))
    values = [pool_value(cuda, pool, attribute) for attribute in range(1, 15)]
    cuda.cuMemPoolDestroy(pool)
    return values


def pool_account(cuda: Cuda, threshold: int) -> list[tuple[int, int, int, int]]:
    """Reserved, its high mark, used, its high mark, as memory comes and goes."""
    pool = cuda.new("cuMemPoolCreate", pool_properties())
    cuda.cuMemPoolSetAttribute(pool, 4, byref(c_uint64(threshold)))
    seen = []

    def look() -> None:
        seen.append(tuple(pool_value(cuda, pool, attribute) for attribute in (5, 6, 7, 8)))

    mib = 1 << 20
    stream = cuda.new("cuStreamCreate", 1)
    look()
    first = cuda.new("cuMemAllocFromPoolAsync", 2 * mib, pool, stream)
    second = cuda.new("cuMemAllocFromPoolAsync", mib, pool, stream)
    look()
    cuda.cuMemFreeAsync(first, stream)
    cuda.cuStreamSynchronize(stream)
    look()
    third = cuda.new("cuMemAllocFromPoolAsync", mib, pool, stream)
    cuda.cuStreamSynchronize(stream)
    look()
    cuda.cuMemPoolSetAttribute(pool, 6, byref(c_uint64(0)))
    cuda.cuMemPoolSetAttribute(pool, 8, byref(c_uint64(0)))
    look()
    cuda.cuMemPoolTrimTo(pool, 0)
    look()
    for address in (second, third):
        cuda.cuMemFreeAsync(address, stream)
    cuda.cuStreamSynchronize(stream)
    cuda.cuMemPoolTrimTo(pool, 0)
    look()
    cuda.cuMemPoolDestroy(pool)
    cuda.cuStreamDestroy_v2(stream)
    return seen


def pool_of_the_device(cuda: Cuda) -> list[object]:
    """Whether a pool that is made the device's serves cuMemAllocAsync, until it is destroyed."""
    default = cuda.new("cuDeviceGetDefaultMemPool", 0)
    location = (c_uint * 2)(1, 0)
    seen: list[object] = [
        cuda.new("cuDeviceGetMemPool", 0) == default,
        cuda.new("cuMemGetDefaultMemPool", location, 1) == default,
        cuda.code("cuMemPoolDestroy", default),
    ]
    pool = cuda.new("cuMemPoolCreate", pool_properties())
    cuda.cuDeviceSetMemPool(0, pool)
    address = cuda.new("cuMemAllocAsync", 4096, 0)
    handle = c_uint64()
    cuda.cuPointerGetAttribute(byref(handle), 17, address)
    seen += [handle.value == pool, pool_value(cuda, pool, 7), cuda.new("cuDeviceGetMemPool", 0) == pool]
    seen.append(cuda.new("cuMemGetMemPool", location, 1) == pool)
    cuda.cuMemPoolDestroy(pool)
    seen.append(cuda.new("cuDeviceGetMemPool", 0) == default)
    cuda.write(address, b"still there")
    seen.append(cuda.read(address, 11))
    cuda.cuMemFreeAsync(address, 0)
    cuda.cuMemSetMemPool(location, 1, default)
    return seen


def pool_mistakes(cuda: Cuda) -> list[int]:
    pool = cuda.new("cuMemPoolCreate", pool_properties(1 << 20))
    out, flags = c_uint64(), c_uint()
    own = (c_uint * 3)(1, 0, 3)
    none = (c_uint * 3)(1, 0, 0)
    elsewhere = (c_uint * 3)(1, 9, 3)
    codes = [
        cuda.code("cuMemPoolCreate", byref(out), pool_properties(kind=3)),
        cuda.code("cuMemPoolCreate", byref(out), pool_properties(where=2)),
        cuda.code("cuMemPoolCreate", byref(out), pool_properties(handles=1)),
        cuda.code("cuMemAllocFromPoolAsync", byref(out), 2 << 20, pool, 0),
        cuda.code("cuMemAllocFromPoolAsync", byref(out), 0, pool, 0),
        cuda.code("cuMemAllocFromPoolAsync", byref(out), 16, 0, 0),
        cuda.code("cuMemAllocFromPoolAsync", byref(out), 16, 0x1234, 0),
        cuda.code("cuMemPoolSetAttribute", pool, 5, byref(c_uint64(0))),
        cuda.code("cuMemPoolSetAttribute", pool, 8, byref(c_uint64(7))),
        cuda.code("cuMemPoolSetAttribute", pool, 99, byref(c_uint64(7))),
        cuda.code("cuMemPoolGetAttribute", pool, 99, byref(out)),
        cuda.code("cuMemPoolSetAccess", pool, own, 1),
        cuda.code("cuMemPoolSetAccess", pool, none, 1),
        cuda.code("cuMemPoolSetAccess", pool, elsewhere, 1),
        cuda.code("cuMemPoolGetAccess", byref(flags), pool, own),
        cuda.code("cuDeviceSetMemPool", 0, 0x1234),
        cuda.code("cuMemPoolDestroy", pool),
        cuda.code("cuMemPoolDestroy", pool),
        cuda.code("cuMemPoolTrimTo", pool, 0),
        cuda.code("cuMemFreeAsync", 0, 0),
    ]
    return [*codes, flags.value]
