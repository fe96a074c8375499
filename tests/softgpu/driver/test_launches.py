from __future__ import annotations

import ctypes
import struct
import threading
import time
from ctypes import byref, c_int, c_size_t, c_uint32, c_uint64, c_void_p

import pytest

from . import ptx, raw

MIB = 1 << 20


def words(data: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def load(cuda, *texts: str) -> int:
    return cuda.load(ptx.HEADER + "".join(texts))


def test_a_launch_writes_what_its_parameters_say(cuda):
    fill = cuda.kernel(load(cuda, ptx.FILL), "fill")
    to = cuda.alloc(400)
    assert cuda.launch(fill, c_uint64(to), c_uint32(5), c_uint32(99), grid=(4, 1, 1), block=(32, 1, 1)) == 0
    assert words(cuda.read(to, 400)) == [5 + i for i in range(99)] + [0]


def test_parameters_may_come_in_one_buffer(cuda):
    fill = cuda.kernel(load(cuda, ptx.FILL), "fill")
    to = cuda.alloc(16)
    packed = ctypes.create_string_buffer(struct.pack("<QII", to, 1, 4))
    size = c_size_t(16)

    def extra(*values: int) -> object:
        return (c_void_p * len(values))(*values)

    buffer, length = ctypes.addressof(packed), ctypes.addressof(size)
    shape = (1, 1, 1, 4, 1, 1, 0, 0)
    cuda.cuLaunchKernel(fill, *shape, None, extra(1, buffer, 2, length, 0))
    assert words(cuda.read(to, 16)) == [1, 2, 3, 4]
    size.value = 15
    for wrong in (
        extra(1, buffer, 2, length, 0),
        extra(2, length, 0),
        extra(9, buffer, 0),
        extra(*[1, buffer] * 9),
    ):
        assert cuda.code("cuLaunchKernel", fill, *shape, None, wrong) == raw.INVALID_VALUE


@pytest.mark.parametrize(
    ("shape", "code"),
    [
        ({"grid": (0, 1, 1)}, raw.INVALID_VALUE),
        ({"block": (1, 0, 1)}, raw.INVALID_VALUE),
        ({"block": (1025, 1, 1)}, raw.INVALID_VALUE),
        ({"block": (32, 33, 1)}, raw.INVALID_VALUE),
        ({"block": (1, 1, 65)}, raw.INVALID_VALUE),
        ({"grid": (1, 65536, 1)}, raw.INVALID_VALUE),
        ({"block": (2**32 - 1, 2**32 - 1, 2)}, raw.INVALID_VALUE),
        ({"shared": 48 * 1024 + 1}, raw.INVALID_VALUE),
        ({"stream": 0x77}, raw.INVALID_HANDLE),
    ],
)
def test_a_launch_of_a_wrong_shape_is_refused(cuda, shape, code):
    none = cuda.kernel(load(cuda, ptx.SHAPES), "none")
    assert cuda.launch(none, **shape) == code
    assert cuda.launch(none) == raw.SUCCESS


def test_a_launch_without_its_parameters_is_refused(cuda):
    fill = cuda.kernel(load(cuda, ptx.FILL), "fill")
    assert cuda.code("cuLaunchKernel", fill, 1, 1, 1, 1, 1, 1, 0, 0, None, None) == raw.INVALID_VALUE
    missing = (c_void_p * 3)(None, None, None)
    assert cuda.code("cuLaunchKernel", fill, 1, 1, 1, 1, 1, 1, 0, 0, missing, None) == raw.INVALID_VALUE


def test_a_wild_write_fails_the_context_for_good_and_only_that(library, capfd):
    context = library.new("cuCtxCreate_v2", 0, 0)
    wild = library.kernel(load(library, ptx.WILD), "wild")
    address = library.alloc(64)
    assert library.launch(wild) == raw.SUCCESS
    assert library.code("cuCtxSynchronize") == raw.ILLEGAL_ADDRESS
    for name, arguments in {
        "cuMemcpyDtoH_v2": (ctypes.create_string_buffer(4), address, 4),
        "cuMemAlloc_v2": (byref(c_uint64()), 16),
        "cuStreamSynchronize": (0,),
        "cuStreamCreate": (byref(c_uint64()), 0),
        "cuMemFree_v2": (address,),
    }.items():
        assert library.code(name, *arguments) == raw.ILLEGAL_ADDRESS, name
    assert library.launch(wild) == raw.ILLEGAL_ADDRESS
    log = capfd.readouterr().err
    for part in ("gpu-kernels: kernel wild", "block (0,0,0)", "thread (0,0,0)", "0x123400", "never set"):
        assert part in log
    library.cuCtxDestroy_v2(context)
    context = library.new("cuCtxCreate_v2", 0, 0)
    assert library.read(library.alloc(16), 16) == bytes(16)
    library.cuCtxDestroy_v2(context)


def test_an_error_in_a_stream_is_seen_by_who_waits_for_it(library):
    context = library.new("cuCtxCreate_v2", 0, 0)
    stream, event = library.new("cuStreamCreate", 1), library.new("cuEventCreate", 0)
    library.launch(library.kernel(load(library, ptx.WILD), "wild"), stream=stream)
    library.code("cuEventRecord", event, stream)
    assert library.code("cuEventSynchronize", event) == raw.ILLEGAL_ADDRESS
    assert library.code("cuStreamQuery", stream) == raw.ILLEGAL_ADDRESS
    library.cuCtxDestroy_v2(context)


def test_destroying_a_context_ends_a_kernel_that_never_ends(library):
    context = library.new("cuCtxCreate_v2", 0, 0)
    stream = library.new("cuStreamCreate", 1)
    assert library.launch(library.kernel(load(library, ptx.SPIN), "spin"), stream=stream) == 0
    assert library.code("cuStreamQuery", stream) == raw.NOT_READY
    library.cuCtxDestroy_v2(context)


def test_launches_return_while_the_kernel_runs(cuda):
    stream = cuda.new("cuStreamCreate", 1)
    module = load(cuda, ptx.SPIN, ptx.FILL)
    cuda.launch(cuda.kernel(module, "spin"), stream=stream)
    to = cuda.alloc(4)
    other = cuda.new("cuStreamCreate", 1)
    cuda.launch(cuda.kernel(module, "fill"), c_uint64(to), c_uint32(3), c_uint32(1), stream=other)
    cuda.cuStreamSynchronize(other)
    assert cuda.code("cuStreamQuery", stream) == raw.NOT_READY


def params_of(cuda, name: str, handle: int) -> list[tuple[int, int]]:
    found = []
    while True:
        offset, size = c_size_t(), c_size_t()
        code = cuda.code(name, handle, len(found), byref(offset), byref(size))
        if code:
            assert code == raw.INVALID_VALUE
            return found
        found.append((offset.value, size.value))


def test_parameter_layouts_are_exact(cuda):
    module = load(cuda, ptx.SHAPES)
    mixed = cuda.kernel(module, "mixed")
    assert params_of(cuda, "cuFuncGetParamInfo", mixed) == [(0, 1), (8, 8), (16, 4), (32, 24)]
    assert params_of(cuda, "cuFuncGetParamInfo", cuda.kernel(module, "none")) == []
    library = cuda.new("cuLibraryLoadData", (ptx.HEADER + ptx.SHAPES).encode(), None, None, 0, None, None, 0)
    kernel = cuda.new("cuLibraryGetKernel", library, b"mixed")
    assert params_of(cuda, "cuKernelGetParamInfo", kernel) == [(0, 1), (8, 8), (16, 4), (32, 24)]
    count = c_size_t()
    cuda.cuKernelGetParamCount(kernel, byref(count))
    assert count.value == 4


def attribute(cuda, function: int, number: int) -> int:
    return cuda.new("cuFuncGetAttribute", number, function, kind=c_int)


def test_function_attributes_and_launch_bounds(cuda):
    module = load(cuda, ptx.SHAPES)
    bounded = cuda.kernel(module, "bounded")
    assert attribute(cuda, bounded, 0) == 64  # most threads
    assert attribute(cuda, bounded, 1) == 1024  # static shared memory
    assert attribute(cuda, bounded, 5) == attribute(cuda, bounded, 6) == 75
    assert 1 <= attribute(cuda, bounded, 4) <= 255  # registers
    assert cuda.code("cuFuncGetAttribute", byref(c_int()), 99, bounded) == raw.INVALID_VALUE
    assert cuda.launch(bounded, block=(65, 1, 1)) == raw.INVALID_VALUE
    assert cuda.launch(bounded, block=(64, 1, 1)) == raw.SUCCESS


def test_more_than_48_kib_of_shared_memory_is_asked_for_first(cuda):
    kernel = cuda.kernel(load(cuda, ptx.SHAPES), "needs_shared")
    to = cuda.alloc(4)
    assert cuda.launch(kernel, c_uint64(to), shared=60000) == raw.INVALID_VALUE
    assert cuda.code("cuFuncSetAttribute", kernel, 8, 64 * 1024 + 1) == raw.INVALID_VALUE
    cuda.cuFuncSetAttribute(kernel, 8, 60000)
    assert cuda.launch(kernel, c_uint64(to), shared=60000) == raw.SUCCESS
    assert words(cuda.read(to, 4)) == [5]


def test_globals_are_found_read_and_written(cuda):
    module = load(cuda, ptx.SHAPES)
    address, size = c_uint64(), c_size_t()
    cuda.cuModuleGetGlobal_v2(byref(address), byref(size), module, b"counter")
    assert (words(cuda.read(address.value, 4)), size.value) == ([7], 4)
    bump = cuda.kernel(module, "bump")
    for _ in range(3):
        cuda.launch(bump)
    assert words(cuda.read(address.value, 4)) == [10]
    assert cuda.code("cuModuleGetGlobal_v2", byref(address), byref(size), module, b"nothing") == raw.NOT_FOUND


def test_unloading_a_module_gives_back_its_memory_and_handles(cuda):
    before = cuda.free_bytes()
    module = load(cuda, ptx.SHAPES)
    bump = cuda.kernel(module, "bump")
    assert cuda.free_bytes() < before
    cuda.launch(bump)
    cuda.cuModuleUnload(module)
    cuda.cuCtxSynchronize()
    assert cuda.free_bytes() == before
    assert cuda.launch(bump) == raw.INVALID_HANDLE
    assert cuda.code("cuModuleUnload", module) == raw.INVALID_HANDLE


def test_a_kernel_of_a_library_is_launched_as_it_is_in_every_context(cuda):
    library = cuda.new("cuLibraryLoadData", (ptx.HEADER + ptx.FILL).encode(), None, None, 0, None, None, 0)
    kernel = cuda.new("cuLibraryGetKernel", library, b"fill")
    assert cuda.new("cuLibraryGetKernel", library, b"fill") == kernel
    to = cuda.alloc(4)
    cuda.launch(kernel, c_uint64(to), c_uint32(8), c_uint32(1))
    assert words(cuda.read(to, 4)) == [8]
    second = cuda.new("cuCtxCreate_v2", 0, 0)
    other = cuda.alloc(4)
    cuda.launch(kernel, c_uint64(other), c_uint32(9), c_uint32(1))
    assert words(cuda.read(other, 4)) == [9]
    cuda.cuCtxDestroy_v2(second)
    cuda.launch(kernel, c_uint64(to), c_uint32(10), c_uint32(1))
    assert words(cuda.read(to, 4)) == [10]
    assert cuda.code("cuLibraryGetKernel", byref(c_uint64()), library, b"nothing") == raw.NOT_FOUND
    module = cuda.new("cuLibraryGetModule", library)
    assert cuda.code("cuModuleUnload", module) == raw.NOT_PERMITTED
    cuda.cuLibraryUnload(library)
    assert cuda.launch(kernel, c_uint64(to), c_uint32(1), c_uint32(1)) == raw.INVALID_HANDLE


def test_first_uses_of_a_library_at_once_load_its_variables_once(cuda):
    """There is room for one copy of them, and not before all have begun."""
    flag = cuda.alloc(4)
    size = cuda.free_bytes() * 2 // 3
    context, writing = cuda.new("cuCtxGetCurrent"), cuda.new("cuStreamCreate", raw.NON_BLOCKING)
    freeing = cuda.new("cuStreamCreate", raw.NON_BLOCKING)
    held = cuda.new("cuMemAllocAsync", size, freeing)
    cuda.cuMemsetD8_v2(flag, 0, 4)
    cuda.cuStreamWaitValue32_v2(freeing, flag, 1, 0)
    cuda.cuMemFreeAsync(held, freeing)
    text = f"{ptx.HEADER}.visible .global .align 4 .b8 large[{size}];\n"
    library = cuda.new("cuLibraryLoadData", text.encode(), None, None, 0, None, None, 0)
    found = []

    def use() -> None:
        cuda.cuCtxSetCurrent(context)
        address = c_uint64()
        code = cuda.code("cuLibraryGetGlobal", byref(address), None, library, b"large")
        found.append((code, address.value))

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    assert not found
    cuda.cuStreamWriteValue32_v2(writing, flag, 1, 0)
    for thread in threads:
        thread.join()
    assert found[0][0] == 0
    assert len(set(found)) == 1


def test_occupancy_follows_the_limits_of_a_multiprocessor(cuda):
    module = load(cuda, ptx.SHAPES)

    def blocks(name: str, threads: int, shared: int = 0) -> int:
        out = c_int()
        cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            byref(out), cuda.kernel(module, name), threads, shared
        )
        return out.value

    assert blocks("none", 1024) == 1
    assert blocks("none", 256) == 4
    assert blocks("none", 32) == 16
    assert blocks("none", 128, 32 * 1024) == 2
    assert blocks("bounded", 128) == 0
    smallest, size = c_int(), c_int()
    cuda.cuOccupancyMaxPotentialBlockSize(
        byref(smallest), byref(size), cuda.kernel(module, "bounded"), None, 0, 0
    )
    assert size.value == 64


def test_a_cooperative_launch_must_fit_at_once(cuda):
    none = cuda.kernel(load(cuda, ptx.SHAPES), "none")
    shape = (1, 1, 1024, 1, 1, 0, 0, None)
    assert cuda.code("cuLaunchCooperativeKernel", none, 1, *shape) == raw.SUCCESS
    assert cuda.code("cuLaunchCooperativeKernel", none, 1 << 20, *shape) == raw.COOPERATIVE_LAUNCH_TOO_LARGE


def test_threads_launch_side_by_side_each_in_its_own_default_stream(cuda):
    context, module = cuda.new("cuCtxGetCurrent"), load(cuda, ptx.FILL)
    fill = cuda.kernel(module, "fill")
    results: list[list[int]] = []

    def work(value: int) -> None:
        cuda.cuCtxPushCurrent_v2(context)
        to = cuda.alloc(1024)
        for turn in range(50):
            start = value * 1000 + turn
            cuda.launch(fill, c_uint64(to), c_uint32(start), c_uint32(256), block=(256, 1, 1), stream=2)
            host = ctypes.create_string_buffer(1024)
            cuda.cuMemcpyDtoHAsync_v2(host, to, 1024, 2)
            if words(host.raw) != list(range(start, start + 256)):
                return
        results.append([value])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [[0], [1], [2], [3]]


def test_a_kernel_reads_and_writes_pinned_and_registered_memory(cuda):
    fill = cuda.kernel(load(cuda, ptx.FILL), "fill")
    pinned = cuda.new("cuMemHostAlloc", 4096, 2)
    own = ctypes.create_string_buffer(4096)
    cuda.cuMemHostRegister_v2(own, 4096, 2)
    for address in (pinned, ctypes.addressof(own)):
        cuda.launch(fill, c_uint64(address), c_uint32(1), c_uint32(3), block=(4, 1, 1))
        cuda.cuCtxSynchronize()
        assert words(ctypes.string_at(address, 16)) == [1, 2, 3, 0]
    cuda.cuMemHostUnregister(own)
    cuda.launch(fill, c_uint64(ctypes.addressof(own)), c_uint32(1), c_uint32(3))
    assert cuda.code("cuCtxSynchronize") == raw.ILLEGAL_ADDRESS
