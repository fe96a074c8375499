"""A slice's memory mapped into its client, on one host (docs/design/shared-memory.md): real processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.forwarding.recorded import Client, native
from tests.native_build import Build

from .mapped import MIB, held_bytes, sharing

__all__ = ["native"]
pytestmark = pytest.mark.native
LONG_S = 60.0


@pytest.fixture
def shared(tmp_path: Path, native: Build) -> Iterator[Client]:
    with sharing(tmp_path, native) as client:
        yield client


def soon(condition: Callable[[], bool]) -> bool:
    """Whether it comes true while a slow machine may still be at it."""
    until = time.monotonic() + LONG_S
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def test_processor_and_kernels_work_on_the_same_memory_without_copies(shared: Client) -> None:
    out = shared.check("""
        c = Mapped()
        address, words = c.here(4 * MB)
        print(words[0], words[MB - 1])
        words[0], words[MB - 1] = 40, 7
        add = c.kernel(c.library_of(TEXT), "add")
        c.launch(add, [U64(address), UINT(2)])
        c.launch(add, [U64(address + 4 * (MB - 1)), UINT(1)])
        c.wait_in()
        print(words[0], words[MB - 1], c.traffic()[:2])
    """)
    assert out == "0 0\n42 8 (0, 0)\n"


def test_over_tcp_on_one_host_memory_is_mapped_too(tmp_path: Path, native: Build) -> None:
    with sharing(tmp_path, native, tcp=True) as client:
        out = client.check("""
            c = Mapped()
            address, words = c.here(4 * MB)
            words[0] = 40
            c.launch(c.kernel(c.library_of(TEXT), "add"), [U64(address), UINT(2)])
            c.wait_in()
            print(words[0], c.traffic()[:2])
        """)
    assert out == "42 (0, 0)\n"


def test_copies_of_cuda_see_what_the_processor_wrote_and_are_counted(shared: Client) -> None:
    out = shared.check("""
        c = Mapped()
        address, words = c.here(MB)
        words[5] = 1234
        print(int.from_bytes(c.copy_out(address + 20, 4), "little"), c.traffic()[:2])
        c.copy_in(address, b"\\1\\0\\0\\0")
        c.wait_in()
        print(words[0], c.traffic()[:2])
    """)
    assert out == "1234 (1, 4)\n1 (2, 8)\n"


def test_nothing_is_mapped_for_who_has_not_asked_and_of_what_is_small(shared: Client) -> None:
    out = shared.check("""
        c = Cuda()
        is_here = lambda at, size: c.library.gkIsMapped(U64(at), SIZE(size))
        print(is_here(c.allocate(MB), MB))
        c.library.gkMapMemory()
        large, small = c.allocate(MB), c.allocate(4096)
        print(is_here(large, MB), is_here(small, 1), is_here(large, MB + 1), is_here(large + MB, 1))
        print(is_here(large + 1, MB - 1), is_here(0, 1), is_here(2**64 - 1, 2))
    """)
    assert out == "0\n1 0 0 0\n1 0 0\n"


def test_memory_that_was_freed_is_not_here_and_its_addresses_come_again_as_zeros(shared: Client) -> None:
    out = shared.check(f"""
        c = Mapped()
        for i in range(40):
            address, words = c.here(20 * MB)
            assert not any(words[i * 4096 + 17] for i in range(1024)), i
            for i in range(0, 5 * MB, 1024):
                words[i] = 77
            c.free(address)
            assert not c.is_here(address, 1)
            c.synchronize()
        print(c.is_here(c.allocate({MIB - 1} * MB), 1))
    """)
    assert out == "True\n"


def test_pages_go_back_to_the_host_with_the_free(shared: Client) -> None:
    with shared.start("""
        c = Mapped()
        address, words = c.here(32 * MB)
        ctypes.memset(address, 1, 32 * MB)
        print("full", flush=True)
        sys.stdin.readline()
        c.free(address)
        c.synchronize()
        print("freed", flush=True)
        sys.stdin.readline()
    """) as program:
        assert program.stdin
        assert program.stdout
        assert program.stdout.readline() == "full\n"
        assert held_bytes(shared.agent) >= 32 << 20
        program.stdin.write("\n")
        program.stdin.flush()
        assert program.stdout.readline() == "freed\n"
        assert held_bytes(shared.agent) == 0
        program.communicate("\n", timeout=LONG_S)


def test_pages_go_back_to_the_host_when_the_client_is_killed(shared: Client) -> None:
    with shared.start("""
        c = Mapped()
        address, words = c.here(32 * MB)
        ctypes.memset(address, 1, 32 * MB)
        print("full", flush=True)
        sys.stdin.readline()
    """) as program:
        assert program.stdout
        assert program.stdout.readline() == "full\n"
        assert held_bytes(shared.agent) >= 32 << 20
        program.kill()
    assert soon(lambda: held_bytes(shared.agent) == 0)


def test_the_slice_bounds_what_is_mapped(shared: Client) -> None:
    out = shared.check(f"""
        c = Mapped()
        first = c.allocate(40 * MB)
        print(c.status("cuMemAlloc_v2", ctypes.byref(U64()), SIZE(40 * MB)))
        kept = []
        while c.status("cuMemAlloc_v2", ctypes.byref(one := U64()), SIZE(MB)) == SUCCESS:
            kept.append(one.value)
        print(len(kept) <= {MIB} - 40, all(c.is_here(one, MB) for one in kept))
    """)
    assert out == "2\nTrue True\n"


def test_a_wait_comes_after_kernels_and_asks_nothing_when_nothing_was_posted(shared: Client) -> None:
    out = shared.check("""
        c = Mapped()
        address, words = c.here(MB)
        slow = c.kernel(c.library_of(TEXT), "slow_add")
        for round in range(3):
            c.launch(slow, [U64(address), UINT(1)])
            before = c.traffic()[2]
            c.wait_in()
            after = c.traffic()[2]
            for i in range(100):
                c.wait_in()
            print(words[0], after - before, c.traffic()[2] - after)
    """)
    assert out == "1 1 0\n2 1 0\n3 1 0\n"


def test_a_wait_in_the_default_stream_comes_after_blocking_streams_and_no_others(shared: Client) -> None:
    out = shared.check("""
        c = Mapped()
        address, words = c.here(MB)
        library = c.library_of(TEXT)
        slow, spin = c.kernel(library, "slow_add"), c.kernel(library, "spin")
        blocking, free = c.stream(0), c.stream(1)
        c.launch(spin, stream=free)
        c.launch(slow, [U64(address), UINT(5)], stream=blocking)
        c.wait_in()
        print(words[0])
        c.launch(slow, [U64(address), UINT(5)])
        c.wait_in(blocking)
        print(words[0])
        c.wait_in(blocking)
        os._exit(0 if print(c.status("cuStreamQuery", U64(free)), flush=True) is None else 1)
    """)
    assert out == "5\n10\n600\n"


def test_a_wait_in_another_thread_comes_after_what_it_was_told_of(shared: Client) -> None:
    out = shared.check("""
        c = Mapped()
        address, words = c.here(MB)
        slow = c.kernel(c.library_of(TEXT), "slow_add")
        wrong, there, seen = [], threading.Semaphore(0), threading.Semaphore(0)
        def waits():
            c.use_context()
            for i in range(1, 41):
                there.acquire()
                c.wait_in()
                if words[0] != i:
                    wrong.append((i, words[0]))
                seen.release()
        thread = threading.Thread(target=waits)
        thread.start()
        for i in range(1, 41):
            c.launch(slow, [U64(address), UINT(1)])
            there.release()
            seen.acquire()
        thread.join()
        print(wrong)
    """)
    assert out == "[]\n"


def test_a_wait_answers_what_a_kernel_failed_with(shared: Client) -> None:
    out = shared.check("""
        c = Mapped()
        address, words = c.here(MB)
        c.wait_in()
        c.launch(c.kernel(c.library_of(TEXT), "add"), [U64(64), UINT(1)])
        print([c.status("gkWaitInStream", U64(0)) for i in range(2)])
        print(c.status("gkWaitInStream", U64(77)))
    """)
    assert out == "[700, 700]\n700\n"


def test_a_worker_that_is_killed_is_an_error_and_not_a_signal(shared: Client) -> None:
    with shared.start("""
        c = Mapped()
        address, words = c.here(8 * MB)
        c.wait_in()
        print("here", flush=True)
        sys.stdin.readline()
        status, ends = SUCCESS, time.monotonic() + 60
        while status == SUCCESS and time.monotonic() < ends:
            ctypes.memset(address, 9, 8 * MB)  # an operator that does not know
            status = c.status("gkWaitInStream", U64(0))
        print(status, words[MB], c.status("gkWaitInStream", U64(0)), flush=True)
    """) as program:
        assert program.stdout
        assert program.stdout.readline() == "here\n"
        assert shared.agent.worker
        shared.agent.worker.kill()
        out, _ = program.communicate("\n", timeout=LONG_S)
    assert out == f"46 {0x09090909} 46\n"
    assert program.returncode == 0


def test_the_memory_of_a_life_that_has_ended_is_nobodys_and_a_second_life_maps_its_own(
    shared: Client,
) -> None:
    out = shared.check("""
        c = Mapped()
        address, words = c.here(8 * MB)
        words[3] = 5
        assert c.library.gkNewLife() == 0
        print(c.is_here(address, 1), words[3])
        words[3] = 6  # a thread that was still at it
        c.use_context()
        second, its = c.here(8 * MB)
        print(c.is_here(address, 1) == (second == address), its[3])
        c.wait_in()
        print(c.status("cuMemFree_v2", U64(address)) == SUCCESS, c.is_here(second, 1) or second == address)
    """)
    assert out == "False 0\nTrue 0\nTrue True\n"


def test_a_forked_child_has_none_of_it(shared: Client) -> None:
    out = shared.check("""
        c = Mapped()
        address, words = c.here(MB)
        words[0] = 3
        child = os.fork()
        if child == 0:
            maps = open("/proc/self/maps").read()
            files = [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
                     if os.path.exists(f"/proc/self/fd/{n}")]
            here = c.is_here(address, 1) or "gpu-kernels slice" in maps or any("slice" in f for f in files)
            os._exit(1 if here else 0)
        print(os.waitpid(child, 0)[1], words[0], c.is_here(address, 1))
    """)
    assert out == "0 3 True\n"


def test_memory_is_as_before_where_the_agent_shares_none(tmp_path: Path, native: Build) -> None:
    for how in ({"shares": False}, {"shares": False, "tcp": True}):
        (folder := tmp_path / str(how)).mkdir()
        with sharing(folder, native, **how) as client:
            out = client.check("""
                c = Mapped()
                address = c.allocate(MB)
                c.copy_in(address, b"\\7" * MB)
                print(c.is_here(address, 1), c.copy_out(address, MB) == b"\\7" * MB, c.traffic()[1] == 2 * MB)
                c.wait_in()
                c.free(address)
            """)
            assert out == "False True True\n"


def test_two_clients_of_a_lease_have_memory_of_their_own(shared: Client) -> None:
    program = """
        c = Mapped()
        address, words = c.here(16 * MB)
        ctypes.memset(address, 0x11, 16 * MB)
        print("full", flush=True)
        sys.stdin.readline()
        c.wait_in()
        print(set(bytes(words)) == {0x11}, flush=True)
    """
    with shared.start(program) as one, shared.start(program.replace("0x11", "0x22")) as other:
        for process in (one, other):
            assert process.stdout
            assert process.stdout.readline() == "full\n"
        for process in (one, other):
            out, err = process.communicate("\n", timeout=LONG_S)
            assert out == "True\n", err


def test_memory_comes_back_after_thousands_of_mappings(shared: Client) -> None:
    out = shared.check("""
        c = Mapped()
        for i in range(1500):
            a, b = c.allocate(70_000 + i), c.allocate(1_000_000 - 13 * i)
            assert c.is_here(a, 70_000 + i) and c.is_here(b, 1_000_000 - 13 * i)
            ctypes.memset(a, 1, 70_000 + i)
            c.free(a)
            c.free(b)
        c.synchronize()
        free, total = SIZE(), SIZE()
        c.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        print(free.value == total.value, len(open("/proc/self/maps").read().splitlines()) < 1000)
    """)
    assert out == "True True\n"
    assert held_bytes(shared.agent) == 0


def test_memory_taken_just_after_as_much_was_unmapped_is_not_counted_twice(
    tmp_path: Path, native: Build
) -> None:
    """The worker's own memory and its file's are one bound: what is loaded then finds room."""
    with sharing(tmp_path, native, options=("--host-memory-mib", "64")) as client:
        out = client.check("""
            c = Mapped()
            for i in range(30):
                address, words = c.here(56 * MB)
                ctypes.memset(address, 1, 56 * MB)
                c.free(address)
                pooled = U64()
                c.call("cuMemAllocAsync", ctypes.byref(pooled), SIZE(56 * MB), U64(0))
                c.call("cuMemsetD8Async", pooled, ctypes.c_uint8(2), SIZE(56 * MB), U64(0))
                c.synchronize()
                c.call("cuLibraryUnload", U64(c.library_of(TEXT)))
                c.call("cuMemFreeAsync", pooled, U64(0))
                c.synchronize()
            print("all")
        """)
    assert out == "all\n"
