from __future__ import annotations

import ctypes
import os
import threading
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64

import pytest

from . import raw


def current(cuda) -> int:
    return cuda.new("cuCtxGetCurrent")


def test_each_thread_has_its_own_stack_of_contexts(cuda):
    mine = current(cuda)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(current(cuda)))
    thread.start()
    thread.join()
    assert mine
    assert seen == [0]


def test_pushing_and_popping_contexts(cuda):
    first = current(cuda)
    second = cuda.new("cuCtxCreate_v2", 0, 0)
    assert current(cuda) == second
    assert cuda.new("cuCtxPopCurrent_v2") == second
    assert current(cuda) == first
    cuda.cuCtxPushCurrent_v2(second)
    cuda.cuCtxDestroy_v2(second)
    assert current(cuda) == first
    assert cuda.code("cuCtxPushCurrent_v2", second) == raw.INVALID_CONTEXT


def test_without_a_context_calls_say_so(cuda):
    context = cuda.new("cuCtxPopCurrent_v2")
    try:
        assert cuda.code("cuMemAlloc_v2", byref(c_uint64()), 16) == raw.INVALID_CONTEXT
        assert cuda.code("cuCtxSynchronize") == raw.INVALID_CONTEXT
        assert cuda.code("cuStreamSynchronize", 0) == raw.INVALID_CONTEXT
    finally:
        cuda.cuCtxPushCurrent_v2(context)


def test_a_destroyed_context_says_so_in_threads_that_still_have_it(cuda):
    context = cuda.new("cuCtxCreate_v2", 0, 0)
    cuda.cuCtxPushCurrent_v2(context)
    cuda.cuCtxDestroy_v2(context)
    assert cuda.code("cuCtxSynchronize") == raw.CONTEXT_IS_DESTROYED
    cuda.cuCtxPopCurrent_v2(None)


def test_the_primary_context_lives_while_it_is_retained(library):
    first = library.new("cuDevicePrimaryCtxRetain", 0)
    assert library.new("cuDevicePrimaryCtxRetain", 0) == first
    flags, active = c_uint(), c_int()
    library.cuDevicePrimaryCtxGetState(0, byref(flags), byref(active))
    assert active.value == 1
    library.cuDevicePrimaryCtxRelease_v2(0)
    library.cuDevicePrimaryCtxRelease_v2(0)
    library.cuDevicePrimaryCtxGetState(0, byref(flags), byref(active))
    assert active.value == 0
    assert library.code("cuDevicePrimaryCtxRelease_v2", 0) == raw.INVALID_CONTEXT
    assert library.code("cuCtxPushCurrent_v2", first) == raw.INVALID_CONTEXT


def test_a_reset_frees_what_the_primary_context_owned(library):
    context = library.new("cuDevicePrimaryCtxRetain", 0)
    library.cuCtxPushCurrent_v2(context)
    address = library.alloc(1 << 20)
    library.cuDevicePrimaryCtxReset_v2(0)
    assert library.code("cuMemFree_v2", address) == raw.CONTEXT_IS_DESTROYED
    assert library.new("cuDevicePrimaryCtxRetain", 0) == context
    assert library.code("cuMemFree_v2", address) == raw.INVALID_VALUE
    library.cuCtxPopCurrent_v2(None)
    library.cuDevicePrimaryCtxRelease_v2(0)
    library.cuDevicePrimaryCtxRelease_v2(0)


HANDLE_CALLS = {
    "cuStreamDestroy_v2": (),
    "cuStreamSynchronize": (),
    "cuEventDestroy_v2": (),
    "cuEventQuery": (),
    "cuModuleUnload": (),
    "cuLibraryUnload": (),
    "cuLinkDestroy": (),
    "cuLaunchKernel": (1, 1, 1, 1, 1, 1, 0, 0, None, None),
    "cuFuncLoad": (),
}


@pytest.mark.parametrize("name", HANDLE_CALLS)
@pytest.mark.parametrize("handle", [0x41414141, 2**64 - 8, "a stream", "an event", "a context", "memory"])
def test_a_wrong_handle_is_found_out(cuda, name, handle):
    made = {
        "a stream": lambda: cuda.new("cuStreamCreate", 0),
        "an event": lambda: cuda.new("cuEventCreate", 0),
        "a context": lambda: current(cuda),
        "memory": lambda: cuda.alloc(64),
    }
    value = made[handle]() if isinstance(handle, str) else handle
    expected = raw.INVALID_HANDLE
    if (name.startswith("cuStream") and handle == "a stream") or (
        name.startswith("cuEvent") and handle == "an event"
    ):
        expected = raw.SUCCESS
    assert cuda.code(name, value, *HANDLE_CALLS[name]) == expected


def test_null_results_are_invalid_values(cuda):
    for name, arguments in {
        "cuDeviceGetCount": (),
        "cuDeviceGetName": (10, 0),
        "cuDeviceGetAttribute": (1, 0),
        "cuMemAlloc_v2": (16,),
        "cuStreamCreate": (0,),
        "cuEventCreate": (0,),
        "cuCtxGetCurrent": (),
        "cuMemGetInfo_v2": (None,),
        "cuModuleLoadData": (b".version 8.0\n.target sm_75\n",),
    }.items():
        assert cuda.code(name, None, *arguments) == raw.INVALID_VALUE, name


def test_only_device_zero_is_there(cuda):
    assert cuda.new("cuDeviceGetCount", kind=c_int) == 1
    for name in ("cuDeviceGet", "cuDevicePrimaryCtxRetain"):
        assert cuda.code(name, byref(c_uint64()), 1) == raw.INVALID_DEVICE
    assert cuda.code("cuDeviceGetAttribute", byref(c_int()), 1, 7) == raw.INVALID_DEVICE


def test_the_device_says_that_it_is_software(cuda):
    name = ctypes.create_string_buffer(64)
    cuda.cuDeviceGetName(name, 64, 0)
    assert name.value == b"V100 (software GPU)"
    short = ctypes.create_string_buffer(b"\xff" * 8, 8)
    cuda.cuDeviceGetName(short, 5, 0)
    assert short.raw == b"V100\0\xff\xff\xff"


def test_every_attribute_has_an_answer_and_no_other_number_has(cuda):
    value = c_int()
    for attribute in range(1, 162):
        assert cuda.code("cuDeviceGetAttribute", byref(value), attribute, 0) == raw.SUCCESS, attribute
    for attribute in (0, -1, 162, 9999):
        assert cuda.code("cuDeviceGetAttribute", byref(value), attribute, 0) == raw.INVALID_VALUE
    assert [cuda.new("cuDeviceGetAttribute", a, 0, kind=c_int) for a in (75, 76)] == [7, 5]


def test_limits_and_configurations_are_kept(cuda):
    cuda.cuCtxSetLimit(0, 4096)
    assert cuda.new("cuCtxGetLimit", 0, kind=c_size_t) == 4096
    assert cuda.code("cuCtxSetLimit", 99, 1) == 215
    assert cuda.new("cuCtxGetLimit", 4, kind=c_size_t) == 2048
    cuda.cuCtxSetLimit(4, 10000)
    assert cuda.new("cuCtxGetLimit", 4, kind=c_size_t) == 10000
    assert cuda.code("cuCtxSetLimit", 4, 2**32) == raw.INVALID_VALUE
    cuda.cuCtxSetCacheConfig(1)
    assert cuda.new("cuCtxGetCacheConfig", kind=c_int) == 1


def lookup(cuda, name: bytes, version: int, flags: int = 0) -> tuple[int, int, int]:
    pointer, status = c_uint64(), c_int(-1)
    code = cuda.code("cuGetProcAddress_v2", name, byref(pointer), version, flags, byref(status))
    return code, pointer.value, status.value


def test_procedures_are_found_by_version_and_kind_of_default_stream(cuda):
    address = {
        name: ctypes.cast(getattr(cuda.library, name), ctypes.c_void_p).value
        for name in (
            "cuMemAlloc_v2",
            "cuMemAlloc",
            "cuMemcpyHtoD_v2_ptds",
            "cuLaunchKernel_ptsz",
            "cuCtxGetDevice_v2",
        )
    }
    assert lookup(cuda, b"cuMemAlloc", 3020) == (0, address["cuMemAlloc_v2"], 0)
    assert lookup(cuda, b"cuMemAlloc", 2000) == (0, address["cuMemAlloc"], 0)
    assert lookup(cuda, b"cuMemcpyHtoD", 12000, 2) == (0, address["cuMemcpyHtoD_v2_ptds"], 0)
    assert lookup(cuda, b"cuLaunchKernel", 12000, 2) == (0, address["cuLaunchKernel_ptsz"], 0)
    assert lookup(cuda, b"cuCtxGetDevice", 13000) == (0, address["cuCtxGetDevice_v2"], 0)
    assert lookup(cuda, b"cuNoSuchThing", 13000) == (0, 0, 1)
    assert lookup(cuda, b"cuMemAllocAsync", 10000) == (0, 0, 2)


def test_no_export_table_exists(cuda):
    table = c_uint64(1)
    for guid in (bytes(16), bytes(range(16)), b"\xff" * 16):
        assert cuda.code("cuGetExportTable", byref(table), guid) == raw.NOT_FOUND
        assert table.value == 0


def test_what_is_not_there_says_so(cuda):
    assert cuda.code("cuGreenCtxCreate", byref(c_uint64()), 0, 0, 0) == raw.NOT_SUPPORTED
    assert cuda.code("cuIpcGetMemHandle", byref(c_uint64()), 0) == raw.NOT_SUPPORTED


def test_errors_have_names_and_texts(cuda):
    text = ctypes.c_char_p()
    cuda.cuGetErrorName(700, byref(text))
    assert text.value == b"CUDA_ERROR_ILLEGAL_ADDRESS"
    cuda.cuGetErrorString(2, byref(text))
    assert text.value == b"out of memory"
    assert cuda.code("cuGetErrorName", 123456, byref(text)) == raw.INVALID_VALUE


def test_a_forked_child_is_told_that_the_driver_is_not_initialised(cuda):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        codes = [cuda.code("cuInit", 0), cuda.code("cuCtxSynchronize"), cuda.code("cuMemFree_v2", 16)]
        os.write(writer, repr(codes).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        assert answer.read() == repr([raw.NOT_INITIALIZED] * 3).encode()
    os.waitpid(child, 0)
    assert cuda.code("cuCtxSynchronize") == raw.SUCCESS
