"""Calls of a program under the forwarding runtime, against a driver that records what reaches it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .minimal_agent import MinimalAgent
from .recorded import Client

Recorded = Callable[[str], list[list[str]]]


def test_memory_comes_back_as_it_went(client: Client) -> None:
    client.check("""
        c = Cuda()
        for size in (1, 4096, 262144, 262145, 3_000_001):
            data = os.urandom(size)
            address = c.allocate(size)
            c.copy_in(address, data)
            assert c.copy_out(address, size) == data
            c.free(address)
    """)


def test_the_slice_is_the_device(client: Client) -> None:
    client.check("""
        c = Cuda()
        free, total, bytes_ = U64(), U64(), U64()
        c.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        assert (free.value, total.value) == (64 << 20, 64 << 20)
        c.call("cuDeviceTotalMem_v2", ctypes.byref(bytes_), INT(0))
        assert bytes_.value == 64 << 20
        name = ctypes.create_string_buffer(64)
        c.call("cuDeviceGetName", name, INT(64), INT(0))
        assert name.value == b"Test GPU"
        uuid = ctypes.create_string_buffer(16)
        c.call("cuDeviceGetUuid_v2", uuid, INT(0))
        assert uuid.raw.hex() == "00112233445566778899aabbccddeeff"
    """)


def test_out_of_memory_leaves_the_program_alive(client: Client) -> None:
    client.check("""
        c = Cuda()
        half = c.allocate(40 << 20)
        address = U64()
        assert c.status("cuMemAlloc_v2", ctypes.byref(address), SIZE(40 << 20)) == OUT_OF_MEMORY
        assert c.status("cuMemAlloc_v2", ctypes.byref(address), SIZE(1 << 62)) == OUT_OF_MEMORY
        c.free(half)
        c.free(c.allocate(60 << 20))
    """)


def test_memory_freed_on_a_stream_can_be_had_again(client: Client) -> None:
    client.check("""
        c = Cuda()
        for _ in range(10):
            address = c.out("cuMemAllocAsync", SIZE(40 << 20), U64(0))
            c.call("cuMemFreeAsync", U64(address), U64(0))
        pool = U64()
        c.call("cuDeviceGetMemPool", ctypes.byref(pool), INT(0))
        address = c.out("cuMemAllocFromPoolAsync", SIZE(100), pool, U64(0))
        c.call("cuMemPoolSetAttribute", pool, INT(4), ctypes.byref(U64(77)))
        value = U64()
        c.call("cuMemPoolGetAttribute", pool, INT(4), ctypes.byref(value))
        assert value.value == 42
    """)


def test_a_launch_carries_its_parameters(client: Client, recorded: Recorded) -> None:
    client.check("""
        c = Cuda()
        library = c.library_of("entry first 4 8 1\\nentry second\\n")
        stream = c.out("cuStreamCreate", UINT(1))
        c.launch(c.kernel(library, "first"), [UINT(1), U64(2), ctypes.c_uint8(3)], grid=5, block=6)
        c.launch(c.kernel(library, "second"), stream=stream)
        c.synchronize()
    """)
    first, second = recorded("launch")
    assert first == ["first", "5", "6", "0", "01000000", "0200000000000000", "03"]
    assert second[0] == "second"
    assert second[3] == recorded("stream")[0][0]


def test_a_launch_with_packed_parameters_and_attributes(client: Client, recorded: Recorded) -> None:
    client.check("""
        c = Cuda()
        kernel = c.kernel(c.library_of("entry k 4 8\\n"), "k")
        packed = ctypes.create_string_buffer(bytes([1, 0, 0, 0, 9, 9, 9, 9, 2, 0, 0, 0, 0, 0, 0, 0]), 16)
        size = SIZE(16)
        extra = (POINTER * 5)(1, ctypes.addressof(packed), 2, ctypes.addressof(size), 0)
        c.call("cuLaunchKernel", U64(kernel), *[UINT(1)] * 6, UINT(0), U64(0), None, extra)
        c.call("cuLaunchCooperativeKernel", U64(kernel), *[UINT(1)] * 6, UINT(0), U64(0),
               (POINTER * 2)(ctypes.addressof(packed), ctypes.addressof(size)))
        c.synchronize()
    """)
    assert recorded("launch")[0][4:] == ["01000000", "0200000000000000"]
    assert recorded("attributes") == [["1", "2", "1"]]


def test_a_wrong_launch_is_refused_at_once(client: Client, recorded: Recorded) -> None:
    client.check("""
        c = Cuda()
        kernel = c.kernel(c.library_of("entry k 8\\n"), "k")
        def status(grid, block, shared=0, arguments=(U64(1),), handle=kernel):
            pointers = (POINTER * 1)(*(ctypes.addressof(a) for a in arguments)) if arguments else None
            return c.status("cuLaunchKernel", U64(handle), UINT(grid), UINT(1), UINT(1), UINT(block), UINT(1),
                            UINT(1), UINT(shared), U64(0), pointers, None)
        assert status(0, 1) == INVALID_VALUE
        assert status(1, 1025) == INVALID_VALUE
        assert status(1, 513) == 701  # more threads than the kernel's registers allow
        assert status(1, 1, shared=50_000) == INVALID_VALUE
        assert status(1, 1, arguments=()) == INVALID_VALUE
        assert status(1, 1, handle=12345) == INVALID_HANDLE
        c.synchronize()
    """)
    assert recorded("launch") == []


def test_what_a_kernel_is_comes_with_the_load(client: Client) -> None:
    client.check("""
        c = Cuda()
        library = c.library_of("entry a 8 4\\nentry b\\n")
        count = UINT()
        c.call("cuLibraryGetKernelCount", ctypes.byref(count), U64(library))
        assert count.value == 2
        kernels = (U64 * 2)()
        c.call("cuLibraryEnumerateKernels", kernels, UINT(2), U64(library))
        name = ctypes.c_char_p()
        c.call("cuKernelGetName", ctypes.byref(name), U64(kernels[1]))
        assert name.value == b"b"
        offset, size = SIZE(), SIZE()
        c.call("cuKernelGetParamInfo", U64(kernels[0]), SIZE(1), ctypes.byref(offset), ctypes.byref(size))
        assert (offset.value, size.value) == (8, 4)
        last = c.status("cuKernelGetParamInfo", U64(kernels[0]), SIZE(2), ctypes.byref(offset), None)
        assert last == INVALID_VALUE
        value = INT()
        c.call("cuKernelGetAttribute", ctypes.byref(value), INT(4), U64(kernels[0]), INT(0))
        assert value.value == 32
        blocks = INT()
        c.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(blocks), U64(kernels[0]), INT(256),
               SIZE(0))
        assert blocks.value == 4
        function = U64()
        c.call("cuKernelGetFunction", ctypes.byref(function), U64(kernels[0]))
        assert function.value == kernels[0]
        assert c.status("cuLibraryGetKernel", ctypes.byref(function), U64(library), b"none") == NOT_FOUND
        c.call("cuLibraryUnload", U64(library))
        assert c.status("cuKernelGetName", ctypes.byref(name), U64(kernels[1])) == INVALID_HANDLE
    """)


def test_variables_of_a_library_can_be_copied_to(client: Client) -> None:
    client.check("""
        c = Cuda()
        library = c.library_of("entry a\\n")
        address, size = U64(), SIZE()
        for _ in range(2):
            c.call("cuLibraryGetGlobal", ctypes.byref(address), ctypes.byref(size), U64(library), b"table")
        assert size.value == 256
        c.copy_in(address.value, b"x" * 256)
        assert c.copy_out(address.value, 256) == b"x" * 256
        missing = c.status("cuModuleGetGlobal_v2", ctypes.byref(address), None, U64(library), b"other")
        assert missing == NOT_FOUND
        assert c.status("cuMemFree_v2", address) == INVALID_VALUE
    """)


def test_an_image_is_sent_once(client: Client, recorded: Recorded) -> None:
    program = """
        c = Cuda()
        text = "entry k\\n" + "# filler\\n" * 100_000
        c.kernel(c.library_of(text), "k")
        c.synchronize()
    """
    client.check(program)
    client.check(program)
    assert recorded("load") == [["900008"], ["900008"]]


def test_a_bad_image_fails_with_the_compilers_words(client: Client) -> None:
    client.check("""
        c = Cuda()
        log = ctypes.create_string_buffer(256)
        options = (INT * 2)(5, 6)
        values = (POINTER * 2)(ctypes.addressof(log), 256)
        module = U64()
        text = b"nonsense\\0"
        status = c.status("cuModuleLoadDataEx", ctypes.byref(module), text, UINT(2), options, values)
        assert (status, log.value) == (INVALID_PTX, b"no entry")
        assert c.status("cuModuleLoadData", ctypes.byref(module), bytes([1, 2, 3])) == 200
        c.synchronize()
    """)


def test_links_join_their_inputs(client: Client) -> None:
    client.check("""
        c = Cuda()
        state = U64()
        c.call("cuLinkCreate_v2", UINT(0), None, None, ctypes.byref(state))
        for text in (b"entry one\\n", b"entry two 8\\n"):
            c.call("cuLinkAddData_v2", state, INT(1), text, SIZE(len(text)), b"part", UINT(0), None, None)
        image, size = POINTER(), SIZE()
        c.call("cuLinkComplete", state, ctypes.byref(image), ctypes.byref(size))
        assert ctypes.string_at(image.value, size.value) == b"entry one\\nentry two 8\\n"
        module = U64()
        c.call("cuModuleLoadData", ctypes.byref(module), image)
        c.call("cuLinkDestroy", state)
        assert c.status("cuLinkDestroy", state) == INVALID_HANDLE
        c.out("cuModuleGetFunction", module, b"two")
    """)


def test_events_and_streams(client: Client, recorded: Recorded) -> None:
    client.check("""
        c = Cuda()
        stream = c.out("cuStreamCreateWithPriority", UINT(1), INT(-99))
        event, other = c.out("cuEventCreate", UINT(0)), c.out("cuEventCreate", UINT(0))
        c.call("cuEventRecord", U64(event), U64(stream))
        c.call("cuStreamWaitEvent", U64(0), U64(event), UINT(0))
        c.call("cuEventSynchronize", U64(event))
        c.call("cuEventQuery", U64(event))
        milliseconds = ctypes.c_float()
        c.call("cuEventElapsedTime_v2", ctypes.byref(milliseconds), U64(event), U64(other))
        assert milliseconds.value == 1.5
        priority = INT()
        c.call("cuStreamGetPriority", U64(stream), ctypes.byref(priority))
        assert priority.value == -5  # clamped to what the device has
        c.call("cuEventDestroy_v2", U64(event))
        c.call("cuStreamDestroy_v2", U64(stream))
        for call, handle in [("cuEventQuery", event), ("cuEventDestroy_v2", event), ("cuStreamQuery", stream),
                             ("cuStreamDestroy_v2", stream)]:
            assert c.status(call, U64(handle)) == INVALID_HANDLE
        c.synchronize()
    """)
    # The worker may mark the end of the session's work in the default stream, which is 1.
    assert len([event for event, stream in recorded("record") if stream != "1"]) == 1
    assert len(recorded("wait")) == len(recorded("end-stream")) == 1
    # The event was known to be complete: the query was answered in the client.
    assert recorded("cuEventQuery") == []


def test_the_first_posted_error_comes_back_with_the_next_answer(client: Client) -> None:
    client.check("""
        c = Cuda()
        address = c.allocate(100)
        # The recording driver has no such fill.
        assert c.status("cuMemsetD16_v2", U64(address), ctypes.c_uint16(1), SIZE(50)) == SUCCESS
        assert c.status("cuMemsetD8_v2", U64(address), ctypes.c_uint8(0), SIZE(100)) == SUCCESS
        assert c.status("cuCtxSynchronize") == NOT_SUPPORTED
        c.synchronize()
        assert c.copy_out(address, 100) == bytes(100)
        outside = c.status("cuMemcpyDtoH_v2", ctypes.create_string_buffer(8), U64(address + 96), SIZE(8))
        assert outside == INVALID_VALUE
        c.synchronize()
    """)


def test_mapped_and_managed_memory_are_seen_by_both_sides(client: Client) -> None:
    client.check("""
        c = Cuda()
        store = c.kernel(c.library_of("entry store 8 4\\n"), "store")
        host, device = POINTER(), U64()
        c.call("cuMemHostAlloc", ctypes.byref(host), SIZE(8192), UINT(2))
        c.call("cuMemHostGetDevicePointer_v2", ctypes.byref(device), host, UINT(0))
        words = (UINT * 2048).from_address(host.value)
        words[1] = 11
        c.launch(store, [device, UINT(22)])
        words_before = words[0]
        c.synchronize()
        assert (words_before, words[0], words[1]) == (0, 22, 11)
        managed = c.out("cuMemAllocManaged", SIZE(10_000), UINT(1))
        data = (UINT * 2500).from_address(managed)
        data[7] = 33
        c.launch(store, [U64(managed), UINT(44)])
        stream_done = c.status("cuStreamSynchronize", U64(0))
        assert (stream_done, data[0], data[7]) == (0, 44, 33)
        c.copy_in(managed, b"\\1\\0\\0\\0")
        assert c.copy_out(managed, 4) == b"\\1\\0\\0\\0"
        assert data[0] == 1
        c.free(managed)
        c.call("cuMemFreeHost", host)
        c.synchronize()
    """)


def test_pointers_are_told_apart(client: Client) -> None:
    client.check("""
        c = Cuda()
        address = c.allocate(1000)
        base, size = U64(), SIZE()
        c.call("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), U64(address + 10))
        assert (base.value, size.value) == (address, 1000)
        kind = UINT()
        c.call("cuPointerGetAttribute", ctypes.byref(kind), INT(2), U64(address + 999))
        assert kind.value == 2
        host = ctypes.create_string_buffer(8)
        where = U64(ctypes.addressof(host))
        assert c.status("cuPointerGetAttribute", ctypes.byref(kind), INT(2), where) == INVALID_VALUE
        ordinal = INT()
        results = (POINTER * 2)(ctypes.addressof(kind), ctypes.addressof(ordinal))
        c.call("cuPointerGetAttributes", UINT(2), (INT * 2)(2, 9), results, where)
        assert (kind.value, ordinal.value) == (0, -2)
    """)


def test_contexts_are_each_threads_own(client: Client) -> None:
    client.check("""
        c = Cuda()
        seen = []
        def thread():
            context = U64(1)
            c.call("cuCtxGetCurrent", ctypes.byref(context))
            address = U64()
            seen.append((context.value, c.status("cuMemAlloc_v2", ctypes.byref(address), SIZE(1))))
            c.use_context()
            c.free(c.allocate(1))
        worker = threading.Thread(target=thread)
        worker.start(); worker.join()
        assert seen == [(0, INVALID_CONTEXT)]
        context = c.out("cuCtxPopCurrent_v2")
        assert c.status("cuCtxSynchronize") == INVALID_CONTEXT
        c.call("cuCtxPushCurrent_v2", U64(context))
        assert c.status("cuCtxPushCurrent_v2", U64(context + 8)) == INVALID_CONTEXT
        c.synchronize()
    """)


def test_releasing_the_context_frees_what_it_had(client: Client) -> None:
    client.check("""
        c = Cuda()
        c.allocate(60 << 20)
        stream = c.out("cuStreamCreate", UINT(0))
        c.call("cuDevicePrimaryCtxRelease_v2", INT(0))
        assert c.status("cuDevicePrimaryCtxRelease_v2", INT(0)) == INVALID_CONTEXT
        c.use_context()
        c.allocate(60 << 20)
        assert c.status("cuStreamQuery", U64(stream)) == INVALID_HANDLE
    """)


def test_a_function_that_is_missing_says_so_once(client: Client) -> None:
    done = client.run(
        """
        c = Cuda()
        for _ in range(3):
            assert c.status("cuTexRefCreate", None) == NOT_SUPPORTED
        """,
        GPU_KERNELS_LOG="stderr",
    )
    assert done.returncode == 0
    assert done.stderr.count("cuTexRefCreate is not supported") == 1


def test_limits_and_attributes_reach_the_driver(client: Client, recorded: Recorded) -> None:
    client.check("""
        c = Cuda()
        value = SIZE()
        c.call("cuCtxGetLimit", ctypes.byref(value), INT(2))
        assert value.value == 102
        c.call("cuCtxSetLimit", INT(2), SIZE(4096))
        c.call("cuCtxGetLimit", ctypes.byref(value), INT(2))
        assert value.value == 4096
        c.call("cuCtxSetLimit", INT(4), SIZE(3000))
        kernel = c.kernel(c.library_of("entry k\\n"), "k")
        c.call("cuFuncSetAttribute", U64(kernel), INT(8), INT(65536))
        assert c.status("cuFuncSetAttribute", U64(kernel), INT(8), INT(65537)) == INVALID_VALUE
        c.synchronize()
    """)
    assert recorded("limit") == [["2", "4096"], ["4", "3000"]]
    assert recorded("attribute") == [["8", "65536"]]


def test_over_tcp_it_is_the_same(client: Client, agent: MinimalAgent, tmp_path: Path) -> None:
    folder = tmp_path / "tcp"
    folder.mkdir()
    with MinimalAgent(folder, agent.program, agent.driver, tcp=True) as listening:
        Client(listening, client.native).check("""
            c = Cuda()
            data = os.urandom(1_000_000)
            address = c.allocate(len(data))
            c.copy_in(address, data)
            assert c.copy_out(address, len(data)) == data
        """)
