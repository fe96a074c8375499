from __future__ import annotations

import ctypes
import threading
from ctypes import byref, c_size_t, c_uint, c_uint64, c_void_p

import pytest

from . import raw
from .conftest import MEMORY_MIB

MIB = 1 << 20


class Memcpy2D(ctypes.Structure):
    _fields_ = (
        *(
            (side + name, kind)
            for side in ("src", "dst")
            for name, kind in (
                ("XInBytes", c_size_t),
                ("Y", c_size_t),
                ("MemoryType", c_uint),
                ("Host", c_void_p),
                ("Device", c_uint64),
                ("Array", c_void_p),
                ("Pitch", c_size_t),
            )
        ),
        ("WidthInBytes", c_size_t),
        ("Height", c_size_t),
    )


def test_the_configured_memory_is_the_devices_memory(cuda):
    total = cuda.new("cuDeviceTotalMem_v2", 0, kind=c_size_t)
    assert total == MEMORY_MIB * MIB


def test_allocation_counts_and_freeing_gives_back(cuda):
    before = cuda.free_bytes()
    address = cuda.alloc(10 * MIB)
    assert before - cuda.free_bytes() == 10 * MIB
    cuda.cuMemFree_v2(address)
    assert cuda.free_bytes() == before


def test_an_allocation_beyond_the_memory_is_refused_and_life_goes_on(cuda):
    out = c_uint64()
    assert cuda.code("cuMemAlloc_v2", byref(out), (MEMORY_MIB + 1) * MIB) == raw.OUT_OF_MEMORY
    assert cuda.code("cuMemAlloc_v2", byref(out), 2**64 - 1) == raw.OUT_OF_MEMORY
    assert cuda.read(cuda.alloc(16), 16) == bytes(16)


def test_an_allocation_of_nothing_is_an_invalid_value(cuda):
    assert cuda.code("cuMemAlloc_v2", byref(c_uint64()), 0) == raw.INVALID_VALUE


def test_freeing_twice_or_in_the_middle_or_anything_is_an_invalid_value(cuda):
    address = cuda.alloc(4096)
    assert cuda.code("cuMemFree_v2", address + 256) == raw.INVALID_VALUE
    cuda.cuMemFree_v2(address)
    assert cuda.code("cuMemFree_v2", address) == raw.INVALID_VALUE
    assert cuda.code("cuMemFree_v2", 0x1234) == raw.INVALID_VALUE
    assert cuda.code("cuMemFree_v2", 0) == raw.SUCCESS


def test_copies_outside_of_allocations_are_refused_and_touch_nothing(cuda):
    address = cuda.alloc(100)
    data = ctypes.create_string_buffer(200)
    assert cuda.code("cuMemcpyHtoD_v2", address, data, 101) == raw.INVALID_VALUE
    assert cuda.code("cuMemcpyDtoH_v2", data, address + 50, 51) == raw.INVALID_VALUE
    assert cuda.code("cuMemcpyDtoH_v2", data, 0xDEAD0000, 8) == raw.INVALID_VALUE
    assert cuda.code("cuMemcpyDtoD_v2", address, address + 90, 20) == raw.INVALID_VALUE
    assert cuda.code("cuMemsetD8_v2", address, 1, 101) == raw.INVALID_VALUE
    assert cuda.code("cuMemsetD32_v2", address, 1, 2**62) == raw.INVALID_VALUE
    assert cuda.code("cuMemsetD32_v2", address + 1, 1, 1) == raw.INVALID_VALUE
    assert cuda.read(address, 100) == bytes(100)


def test_copies_go_round_in_all_directions(cuda):
    data = bytes(range(256)) * 16
    first, second = cuda.alloc(len(data)), cuda.alloc(len(data))
    cuda.write(first, data)
    cuda.cuMemcpyDtoD_v2(second, first, len(data))
    assert cuda.read(second, len(data)) == data
    host = ctypes.create_string_buffer(len(data))
    cuda.cuMemcpy(ctypes.addressof(host), second, len(data))
    assert host.raw == data
    cuda.cuMemcpyDtoD_v2(second + 1, second, 100)  # overlapping
    assert cuda.read(second, 101) == data[:1] + data[:100]


def test_sets_write_bytes_halves_and_words_in_one_and_two_dimensions(cuda):
    address = cuda.alloc(64)
    cuda.cuMemsetD8_v2(address, 0x11, 64)
    cuda.cuMemsetD16_v2(address + 2, 0x2233, 2)
    cuda.cuMemsetD32_v2(address + 8, 0x44556677, 1)
    cuda.cuMemsetD2D8_v2(address + 16, 16, 0xAA, 3, 3)
    expected = bytearray(b"\x11" * 64)
    expected[2:6] = b"\x33\x22" * 2
    expected[8:12] = b"\x77\x66\x55\x44"
    for row in range(3):
        expected[16 + 16 * row : 19 + 16 * row] = b"\xaa" * 3
    assert cuda.read(address, 64) == bytes(expected)


def test_a_2d_copy_moves_a_window_of_a_pitched_image(cuda):
    address, pitch = c_uint64(), c_size_t()
    cuda.cuMemAllocPitch_v2(byref(address), byref(pitch), 10, 4, 4)
    assert pitch.value >= 10
    image = bytes(range(40))
    there = Memcpy2D(
        srcMemoryType=1, srcHost=ctypes.cast(image, c_void_p), srcPitch=10,
        dstMemoryType=2, dstDevice=address.value, dstPitch=pitch.value, WidthInBytes=10, Height=4,
    )  # fmt: skip
    cuda.cuMemcpy2D_v2(byref(there))
    window = ctypes.create_string_buffer(6)
    back = Memcpy2D(
        srcXInBytes=2, srcY=1, srcMemoryType=2, srcDevice=address.value, srcPitch=pitch.value,
        dstMemoryType=1, dstHost=ctypes.addressof(window), dstPitch=3, WidthInBytes=3, Height=2,
    )  # fmt: skip
    cuda.cuMemcpy2D_v2(byref(back))
    assert window.raw == image[12:15] + image[22:25]


@pytest.mark.parametrize(
    "wrong",
    [
        {"Height": 5},
        {"srcY": 1},
        {"srcPitch": 3},
        {"srcMemoryType": 9},
        {"Height": 2**63},
        {"srcPitch": 2**60},
        {"srcDevice": 64},
    ],
)
def test_a_2d_copy_that_does_not_fit_is_an_invalid_value(cuda, wrong):
    request = Memcpy2D(
        srcMemoryType=2, srcDevice=cuda.alloc(40), srcPitch=10,
        dstMemoryType=2, dstDevice=cuda.alloc(40), dstPitch=10, WidthInBytes=10, Height=4,
    )  # fmt: skip
    assert cuda.code("cuMemcpy2D_v2", byref(request)) == raw.SUCCESS
    for name, value in wrong.items():
        setattr(request, name, value)
    assert cuda.code("cuMemcpy2D_v2", byref(request)) == raw.INVALID_VALUE


def test_pinned_memory_is_known_and_copied_like_any_other(cuda):
    host = cuda.new("cuMemHostAlloc", 4096, 2)
    assert cuda.new("cuMemHostGetDevicePointer_v2", host, 0) == host
    device = cuda.alloc(4096)
    ctypes.memset(host, 7, 4096)
    cuda.cuMemcpyHtoDAsync_v2(device, host, 4096, 0)
    cuda.cuCtxSynchronize()
    assert cuda.read(device, 4096) == b"\x07" * 4096
    cuda.cuMemFreeHost(host)
    assert cuda.code("cuMemFreeHost", host) == raw.INVALID_VALUE
    assert cuda.code("cuMemHostGetDevicePointer_v2", byref(c_uint64()), host, 0) == raw.INVALID_VALUE


def test_host_memory_is_registered_once(cuda):
    buffer = ctypes.create_string_buffer(8192)
    address = ctypes.addressof(buffer)
    cuda.cuMemHostRegister_v2(address, 8192, 0)
    assert cuda.code("cuMemHostRegister_v2", address, 8192, 0) == 712
    cuda.cuMemHostUnregister(address)
    assert cuda.code("cuMemHostUnregister", address) == 713


def test_pointers_tell_what_they_point_to(cuda):
    address = cuda.alloc(1000)
    base, size = c_uint64(), c_size_t()
    cuda.cuMemGetAddressRange_v2(byref(base), byref(size), address + 10)
    assert (base.value, size.value) == (address, 1000)
    kinds = (c_uint * 5)(2, 3, 11, 12, 9)
    values = [c_uint(), c_uint64(), c_uint64(), c_size_t(), ctypes.c_int()]
    places = (c_void_p * 5)(*(ctypes.addressof(value) for value in values))
    cuda.cuPointerGetAttributes(5, kinds, places, address + 10)
    assert [value.value for value in values] == [2, address + 10, address, 1000, 0]
    assert cuda.code("cuPointerGetAttribute", byref(c_uint()), 2, 0x1000) == raw.INVALID_VALUE
    cuda.cuPointerGetAttributes(5, kinds, places, 0x1000)
    assert [value.value for value in values] == [0, 0, 0, 0, -2]


def test_memory_of_a_context_goes_with_it(library):
    context = library.new("cuCtxCreate_v2", 0, 0)
    before = library.free_bytes()
    address = library.alloc(MIB)
    library.cuCtxDestroy_v2(context)
    context = library.new("cuCtxCreate_v2", 0, 0)
    try:
        assert library.free_bytes() == before
        assert library.code("cuMemFree_v2", address) == raw.INVALID_VALUE
    finally:
        library.cuCtxDestroy_v2(context)


def test_freeing_in_stream_order_makes_room_for_the_next_allocation(cuda):
    most = (cuda.free_bytes() // MIB) * MIB
    stream = cuda.new("cuStreamCreate", 0)
    for _ in range(20):
        address = cuda.new("cuMemAllocAsync", most, stream)
        cuda.cuMemsetD8Async(address, 1, 4096, stream)
        cuda.cuMemFreeAsync(address, stream)
    assert cuda.code("cuMemFreeAsync", address, stream) == raw.INVALID_VALUE


def test_memory_freed_behind_a_value_that_nobody_writes_is_out_of_memory(cuda):
    flag = cuda.alloc(4)
    most = cuda.free_bytes() // MIB * MIB
    waiting, freeing, writing = (cuda.new("cuStreamCreate", raw.NON_BLOCKING) for _ in range(3))
    held = cuda.new("cuMemAllocAsync", most, freeing)
    cuda.cuStreamSynchronize(freeing)
    cuda.cuMemsetD8_v2(flag, 0, 4)
    cuda.cuStreamWaitValue32_v2(waiting, flag, 1, 0)
    before = cuda.new("cuEventCreate", 0)
    cuda.cuEventRecord(before, waiting)
    cuda.cuStreamWaitEvent(freeing, before, 0)
    cuda.cuMemFreeAsync(held, freeing)
    context = cuda.new("cuCtxGetCurrent")

    def write() -> None:
        cuda.cuCtxSetCurrent(context)
        cuda.cuStreamWriteValue32_v2(writing, flag, 1, 0)

    rescue = threading.Timer(10, write)  # what would wait without end is a failure, not a hang
    rescue.start()
    assert cuda.code("cuMemAlloc_v2", byref(c_uint64()), most) == raw.OUT_OF_MEMORY
    assert cuda.code("cuMemAllocAsync", byref(c_uint64()), most, writing) == raw.OUT_OF_MEMORY
    rescue.cancel()
    soon = threading.Timer(0.1, write)  # another thread's value is waited for
    soon.start()
    assert cuda.alloc(most)
    soon.join()


def test_a_pool_keeps_its_account_and_its_limit(cuda):
    properties = (ctypes.c_uint64 * 12)()  # 88 bytes: type, handle types, location, attributes, limit
    ctypes.c_uint.from_buffer(properties, 0).value = 1  # pinned
    ctypes.c_uint.from_buffer(properties, 8).value = 1  # on a device
    ctypes.c_size_t.from_buffer(properties, 24).value = 3 * MIB
    pool = cuda.new("cuMemPoolCreate", properties)
    used = c_uint64()
    address = cuda.new("cuMemAllocFromPoolAsync", 2 * MIB, pool, 0)
    cuda.cuMemPoolGetAttribute(pool, 7, byref(used))
    assert used.value == 2 * MIB
    assert cuda.code("cuMemAllocFromPoolAsync", byref(c_uint64()), 2 * MIB, pool, 0) == raw.OUT_OF_MEMORY
    cuda.cuMemFreeAsync(address, 0)
    cuda.cuCtxSynchronize()
    cuda.cuMemPoolGetAttribute(pool, 7, byref(used))
    assert used.value == 0
    cuda.cuMemPoolGetAttribute(pool, 8, byref(used))
    assert used.value == 2 * MIB
    cuda.cuMemPoolDestroy(pool)
    assert cuda.code("cuMemPoolTrimTo", pool, 0) == raw.INVALID_VALUE


def test_managed_memory_is_seen_by_both_sides(cuda):
    address = cuda.new("cuMemAllocManaged", 64, 1)
    cuda.cuMemsetD8_v2(address, 5, 64)
    assert ctypes.string_at(address, 64) == b"\x05" * 64
    cuda.cuMemFree_v2(address)
