"""A process ends its life on one slice and begins another: nothing of the first reaches the second."""

from __future__ import annotations

from .lives import OLD, software
from .recorded import Client

__all__ = ["software"]


def test_a_second_life_is_a_new_session_with_all_the_memory(software: Client) -> None:
    out = software.check("""
        c = Cuda()
        c.allocate(40 << 20)
        print(c.status("cuMemAlloc_v2", ctypes.byref(U64()), SIZE(40 << 20)), life(c))
        new_life(c)
        print(life(c))
        works(c)
        print(life(c))
        while c.status("cuMemAlloc_v2", ctypes.byref(U64()), SIZE(40 << 20)) == OUT_OF_MEMORY:
            pass  # the worker takes down the session of before
        print(c.status("cuMemAlloc_v2", ctypes.byref(U64()), SIZE(40 << 20)))
    """)
    assert out.splitlines() == ["2 (0, 1)", "(1, 3)", "(1, 1)", "2"]


def test_between_two_lives_each_handle_is_refused_and_nothing_begins(software: Client) -> None:
    out = software.check(
        OLD
        + """
    c = Cuda()
    old = all_of(c)
    default = c.out("cuDeviceGetDefaultMemPool", INT(0))
    access, granule = (UINT * 3)(1, 0, 3), SIZE(GRANULE)
    addresses = U64(c.out("cuMemAddressReserve", granule, SIZE(0), U64(0), U64(0)))
    c.call("cuMemMap", addresses, granule, SIZE(0), U64(old["physical"]), U64(0))
    new_life(c)
    # A link needs a context, so it begins no life either.
    assert c.status("cuLinkCreate_v2", 0, None, None, ctypes.byref(U64())) in (
        CONTEXT_IS_DESTROYED, INVALID_CONTEXT)
    answered = answers(c, old)
    out = ctypes.byref(U64())
    for name, arguments in {
        "cuMemSetAccess": (addresses, granule, access, SIZE(1)),
        "cuMemGetAccess": (out, access, addresses),
        "cuMemRetainAllocationHandle": (out, addresses),
        "cuMemUnmap": (addresses, granule),
        "cuMemAddressFree": (addresses, granule),
    }.items():
        answered[name] = c.status(name, *arguments)
    # A default pool keeps its handle, but what it is, is the next life's to say.
    for attribute in (1, 9):
        answered["cuMemPoolGetAttribute", attribute] = c.status(
            "cuMemPoolGetAttribute", U64(default), INT(attribute), ctypes.byref(U64()))
    answered["cuMemPoolDestroy (default)"] = c.status("cuMemPoolDestroy", U64(default))
    for name, answer in answered.items():
        gone = name in ("cuMemFree", "cuMemFreeAsync")
        expected = (SUCCESS,) if gone else (CONTEXT_IS_DESTROYED, INVALID_CONTEXT, INVALID_HANDLE)
        assert answer in expected, (name, answer)
    print(life(c))
    """
    )
    assert out == "(1, 3)\n"


def test_in_the_second_life_no_handle_of_the_first_is_known_though_all_was_made_again(
    software: Client,
) -> None:
    out = software.check(
        OLD
        + """
    c = Cuda()
    old = all_of(c)
    new_life(c)
    c.use_context()
    new = all_of(c)
    print(sorted(name for name in new if new[name] == old[name]))
    for name, answer in answers(c, old).items():
        gone = name in ("cuMemFree", "cuMemFreeAsync")
        expected = (SUCCESS,) if gone else (INVALID_VALUE, INVALID_CONTEXT, INVALID_HANDLE)
        assert answer in expected, (name, answer)
    # What has the same names and places in the second life works as if nobody had asked for the first's.
    c.call("cuStreamSynchronize", U64(new["stream"]))
    c.call("cuEventRecord", U64(new["event"]), U64(new["stream"]))
    c.call("cuEventSynchronize", U64(new["event"]))
    c.call("cuGraphLaunch", U64(new["exec"]), U64(0))
    c.call("cuMemFree_v2", U64(new["memory"]))
    c.call("cuMemFreeAsync", U64(new["pooled"]), U64(0))
    c.call("cuCtxSynchronize")
    """
    )
    assert out == "[]\n"


def test_each_thread_has_lost_its_context_and_makes_another_current(software: Client) -> None:
    out = software.check("""
        c = Cuda()
        go, done = threading.Event(), threading.Event()
        def other():
            c.use_context()
            c.allocate(64)
            done.set()
            go.wait()
            current = U64(5)
            print(c.status("cuMemAlloc_v2", ctypes.byref(U64()), SIZE(64)))
            c.call("cuCtxGetCurrent", ctypes.byref(current))
            print(current.value, c.status("cuCtxPopCurrent_v2", ctypes.byref(current)))
            works(c)
            done.set()
        thread = threading.Thread(target=other)
        thread.start()
        done.wait()
        done.clear()
        new_life(c)
        go.set()
        thread.join()
        works(c)
    """)
    assert out.splitlines() == ["709", "0 201"]


def test_a_primary_context_and_a_default_pool_keep_their_handles_and_begin_again(software: Client) -> None:
    out = software.check("""
        c = Cuda()
        primary, pool = c.out("cuCtxGetCurrent"), c.out("cuDeviceGetDefaultMemPool", INT(0))
        created = c.out("cuCtxCreate_v2", UINT(0), INT(0))
        new_life(c)
        print(c.status("cuCtxSetCurrent", U64(created)), life(c)[1])
        c.call("cuCtxPushCurrent_v2", U64(primary))
        print(life(c)[1])
        address = c.out("cuMemAllocFromPoolAsync", SIZE(64), U64(pool), U64(0))
        c.call("cuMemFreeAsync", U64(address), U64(0))
        print(c.status("cuCtxSetCurrent", U64(created)))
        works(c)
    """)
    assert out.splitlines() == ["201 3", "1", "201"]


def test_host_memory_of_the_first_life_stays_the_programs_until_it_frees_it(software: Client) -> None:
    software.check("""
        c = Cuda()
        pinned, managed = c.out("cuMemHostAlloc", SIZE(8192), UINT(0)), c.out(
            "cuMemAllocManaged", SIZE(8192), UINT(1))
        mine = ctypes.create_string_buffer(4096)
        c.call("cuMemHostRegister_v2", mine, SIZE(4096), UINT(2))
        mapped = c.out("cuMemHostGetDevicePointer_v2", U64(pinned), UINT(0))
        ctypes.memset(pinned, 1, 8192)
        ctypes.memset(managed, 2, 8192)
        new_life(c)
        def still():
            assert ctypes.string_at(pinned, 8192) == b"\\1" * 8192
            assert ctypes.string_at(managed, 8192) == b"\\2" * 8192
        still()
        c.use_context()
        again = [c.out("cuMemAllocManaged", SIZE(8192), UINT(1)) for _ in range(4)]
        for address in again:
            assert address != managed
            ctypes.memset(address, 3, 8192)
        works(c)
        still()
        address = c.allocate(8192)
        c.call("cuMemcpyHtoD_v2", U64(address), POINTER(pinned), SIZE(8192))
        assert c.copy_out(address, 8192) == b"\\1" * 8192
        assert c.status("cuMemHostUnregister", mine) == 713
        c.call("cuMemHostRegister_v2", mine, SIZE(4096), UINT(2))
        maps = lambda: open("/proc/self/maps").read()
        assert c.status("cuMemFreeAsync", U64(managed), U64(0)) == INVALID_VALUE  # as for any managed memory
        assert f"{pinned:x}-" in maps() and f"{managed:x}-" in maps()
        c.call("cuMemFreeHost", U64(pinned))
        c.call("cuMemFree_v2", U64(managed))
        assert f"{pinned:x}-" not in maps() and f"{managed:x}-" not in maps()
        assert c.status("cuMemFreeHost", U64(pinned)) == INVALID_VALUE
        assert c.status("cuMemFree_v2", U64(managed)) == INVALID_VALUE
    """)


def test_an_address_that_the_first_life_had_is_not_given_out_while_it_may_be_freed(software: Client) -> None:
    software.check("""
        c = Cuda()
        old = {c.allocate(65536) for _ in range(8)}
        new_life(c)
        c.use_context()
        new = {c.allocate(65536) for _ in range(8)}
        assert not old & new
        for address in old:
            c.free(address)  # it has gone with its life
            assert c.status("cuMemFree_v2", U64(address)) == INVALID_VALUE
        for address in new:
            c.free(address)
    """)
