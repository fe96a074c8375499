"""What the tests of addresses and memory apart do with a driver."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_size_t, c_uint, c_uint64

from tests.softgpu.driver.raw import Cuda

GRANULE = 2 << 20


def memory_properties(
    kind: int = 1, handles: int = 0, where: int = 1, device: int = 0
) -> ctypes.Array[c_uint]:
    """A CUmemAllocationProp: type, handle types, location, metadata, flags."""
    return (c_uint * 10)(kind, handles, where, device)


def reserve(cuda: Cuda, size: int, align: int = 0, wanted: int = 0) -> int:
    return int(cuda.new("cuMemAddressReserve", size, align, wanted, 0))


def create(cuda: Cuda, size: int) -> int:
    return create_on(cuda, 0, size)


def create_on(cuda: Cuda, device: int, size: int) -> int:
    return int(cuda.new("cuMemCreate", size, memory_properties(device=device), 0))


OWN_READWRITE, OWN_NONE = (c_uint * 3)(1, 0, 3), (c_uint * 3)(1, 0, 0)


def growing_segment(cuda: Cuda) -> list[object]:
    """A range that grows by pieces, as PyTorch's expandable segments do, is as one for copies."""
    seen: list[object] = [cuda.new("cuMemGetAllocationGranularity", memory_properties(), 0, kind=c_size_t)]
    before = cuda.free_bytes()
    base = reserve(cuda, 8 * GRANULE)
    for i in range(3):
        handle = create(cuda, GRANULE)
        cuda.cuMemMap(base + i * GRANULE, GRANULE, 0, handle, 0)
        cuda.cuMemRelease(handle)
        cuda.cuMemSetAccess(base + i * GRANULE, GRANULE, OWN_READWRITE, 1)
    seen.append(before - cuda.free_bytes())
    data = bytes(range(256)) * (2 * GRANULE // 256)
    start = base + GRANULE // 2
    seen.append(cuda.read(start, 16))
    cuda.write(start, data)
    seen.append(cuda.read(start, len(data)) == data)
    cuda.cuMemcpyDtoD_v2(base, start + 100, GRANULE + 1000)
    seen.append(cuda.read(base, GRANULE + 1000) == data[100 : GRANULE + 1100])
    cuda.cuMemsetD8_v2(base, 7, 3 * GRANULE)
    seen.append(cuda.read(base + 3 * GRANULE - 8, 8))
    seen.append(cuda.code("cuMemcpyDtoH_v2", ctypes.create_string_buffer(16), base + 3 * GRANULE - 8, 16))
    seen.append(cuda.code("cuMemAddressFree", base, 8 * GRANULE))  # it is mapped
    cuda.cuMemUnmap(base + GRANULE, GRANULE)
    seen.append(cuda.code("cuMemcpyDtoH_v2", ctypes.create_string_buffer(16), base + GRANULE - 8, 16))
    seen.append(cuda.read(base + 2 * GRANULE, 4))
    cuda.cuMemUnmap(base, GRANULE)
    cuda.cuMemUnmap(base + 2 * GRANULE, GRANULE)
    cuda.cuMemAddressFree(base, 8 * GRANULE)
    seen.append(before - cuda.free_bytes())
    return seen


def one_memory_at_two_addresses(cuda: Cuda) -> list[object]:
    before = cuda.free_bytes()
    handle = create(cuda, GRANULE)
    places = [reserve(cuda, GRANULE) for _ in range(2)]
    for place in places:
        cuda.cuMemMap(place, GRANULE, 0, handle, 0)
        cuda.cuMemSetAccess(place, GRANULE, OWN_READWRITE, 1)
    cuda.write(places[0] + 5, b"both")
    seen: list[object] = [cuda.read(places[1] + 5, 4), before - cuda.free_bytes()]
    cuda.cuMemRelease(handle)
    seen.append(cuda.code("cuMemRelease", handle))
    again = c_uint64()
    cuda.cuMemRetainAllocationHandle(byref(again), places[1] + 77)
    seen.append(again.value == handle)
    properties = (c_uint * 10)()
    cuda.cuMemGetAllocationPropertiesFromHandle(properties, again.value)
    seen.append(list(properties[:4]))
    for place in places:
        cuda.cuMemUnmap(place, GRANULE)
        cuda.cuMemAddressFree(place, GRANULE)
    seen.append(before - cuda.free_bytes())
    third = reserve(cuda, GRANULE)
    cuda.cuMemMap(third, GRANULE, 0, again.value, 0)
    cuda.cuMemSetAccess(third, GRANULE, OWN_READWRITE, 1)
    seen.append(cuda.read(third + 5, 4))
    cuda.cuMemRelease(again.value)
    cuda.cuMemUnmap(third, GRANULE)
    cuda.cuMemAddressFree(third, GRANULE)
    seen.append(before - cuda.free_bytes())
    return seen


def access_given_and_taken(cuda: Cuda) -> list[object]:
    base, handle = reserve(cuda, GRANULE), create(cuda, GRANULE)
    cuda.cuMemMap(base, GRANULE, 0, handle, 0)
    location, flags = (c_uint * 2)(1, 0), c_uint64()

    def access() -> list[int]:
        cuda.cuMemGetAccess(byref(flags), location, base)
        return [flags.value, cuda.code("cuMemsetD8_v2", base, 1, 16), cuda.code("cuCtxSynchronize")]

    seen: list[object] = [access()]
    for description in (OWN_READWRITE, OWN_NONE, OWN_READWRITE):
        cuda.cuMemSetAccess(base, GRANULE, description, 1)
        seen.append(access())
    cuda.cuMemUnmap(base, GRANULE)
    cuda.cuMemAddressFree(base, GRANULE)
    cuda.cuMemRelease(handle)
    return seen


def virtual_mistakes(cuda: Cuda) -> list[int]:
    base, handle = reserve(cuda, 2 * GRANULE), create(cuda, GRANULE)
    ordinary = cuda.alloc(GRANULE)
    out = c_uint64()
    cuda.cuMemMap(base, GRANULE, 0, handle, 0)
    codes = [
        cuda.code("cuMemCreate", byref(out), 0, memory_properties(), 0),
        cuda.code("cuMemCreate", byref(out), GRANULE + 1, memory_properties(), 0),
        cuda.code("cuMemCreate", byref(out), GRANULE, memory_properties(device=9), 0),
        cuda.code("cuMemCreate", byref(out), GRANULE, memory_properties(handles=1), 0),
        cuda.code("cuMemCreate", byref(out), GRANULE, memory_properties(where=3), 0),
        cuda.code("cuMemCreate", byref(out), 1 << 40, memory_properties(), 0),
        cuda.code("cuMemAddressReserve", byref(out), 0, 0, 0, 0),
        cuda.code("cuMemAddressReserve", byref(out), GRANULE, 3, 0, 0),
        cuda.code("cuMemAddressReserve", byref(out), 1 << 60, 0, 0, 0),
        cuda.code("cuMemAddressReserve", byref(out), GRANULE + 1, 0, 0, 0),
        cuda.code("cuMemAddressReserve", byref(out), GRANULE, 0, 0x1000_0000_0001, 0),
        cuda.code("cuMemMap", base, GRANULE, 0, handle, 0),
        cuda.code("cuMemMap", base + GRANULE, 2 * GRANULE, 0, handle, 0),
        cuda.code("cuMemMap", base + GRANULE, GRANULE, 0, handle + 1, 0),
        cuda.code("cuMemMap", ordinary, GRANULE, 0, handle, 0),
        cuda.code("cuMemMap", base + GRANULE, 2**63, 0, handle, 0),
        cuda.code("cuMemMap", base + GRANULE, GRANULE, GRANULE, handle, 0),
        cuda.code("cuMemMap", base + GRANULE, GRANULE // 2, 0, handle, 0),
        cuda.code("cuMemSetAccess", base, 2 * GRANULE, OWN_READWRITE, 1),
        cuda.code("cuMemSetAccess", base, GRANULE, (c_uint * 3)(1, 0, 1), 1),
        cuda.code("cuMemSetAccess", base, GRANULE, (c_uint * 3)(1, 0, 9), 1),
        cuda.code("cuMemSetAccess", ordinary, GRANULE, OWN_READWRITE, 1),
        cuda.code("cuMemSetAccess", base, GRANULE, (c_uint * 6)(1, 0, 3, 1, 0, 9), 2),
        cuda.code("cuMemsetD8_v2", base, 1, 16),  # nothing of that was done
        cuda.code("cuMemUnmap", base, 2 * GRANULE),
        cuda.code("cuMemUnmap", base + 4096, 4096),
        cuda.code("cuMemUnmap", ordinary, GRANULE),
        cuda.code("cuMemFree_v2", base),
        cuda.code("cuMemFreeAsync", base, 0),
        cuda.code("cuMemAddressFree", base, GRANULE),
        cuda.code("cuMemRetainAllocationHandle", byref(out), ordinary),
        cuda.code("cuMemRelease", 0x1234),
    ]
    cuda.cuMemUnmap(base, GRANULE)
    codes.append(cuda.code("cuMemUnmap", base, GRANULE))
    cuda.cuMemAddressFree(base, 2 * GRANULE)
    codes.append(cuda.code("cuMemAddressFree", base, 2 * GRANULE))
    cuda.cuMemRelease(handle)
    cuda.cuMemFree_v2(ordinary)
    return codes
