"""What becomes of memory that host and kernels use at once, when a life, a worker or the memory ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forwarding.recorded import Client, native
from tests.native_build import Build

from .mapped import sharing

__all__ = ["native"]
pytestmark = pytest.mark.native

BOTH = '''
def pinned_and_managed(c):
    """With a kernel's number in each."""
    pinned = c.out("cuMemHostAlloc", SIZE(MB), UINT(0))
    managed = c.out("cuMemAllocManaged", SIZE(MB), UINT(1))
    add = c.kernel(c.library_of(TEXT), "add")
    arrays = []
    for address in (pinned, managed):
        words = (ctypes.c_uint32 * (MB // 4)).from_address(address)
        words[0], words[MB // 4 - 1] = 40, 7
        arrays.append(words)
    for address in (pinned, managed):
        c.launch(add, [U64(address), UINT(2)])
    c.synchronize()
    return pinned, managed, arrays

def seen(arrays):
    return [(words[0], words[1], words[MB // 4 - 1]) for words in arrays]

def files():
    """Descriptors of pinned files, and mappings of one and of the slice file."""
    names = []
    for name in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            pass
    maps, pinned = open("/proc/self/maps").read(), "gpu-kernels pinned"
    return pinned in " ".join(names), pinned in maps, "gpu-kernels slice" in maps

LATCH = """.version 8.0
.target sm_70
.address_size 64
.visible .entry latch(.param .u64 x) {
    .reg .b32 %r<2>; .reg .b64 %d<2>; .reg .pred %p<2>;
    ld.param.u64 %d1, [x];
again: ld.volatile.global.u32 %r1, [%d1]; setp.ne.u32 %p1, %r1, 7; @%p1 bra again; ret;
}
"""

def made(c, stream, captured):
    """An executable graph of what `captured` does."""
    c.call("cuStreamBeginCapture_v2", U64(stream), UINT(2))
    captured()
    graph, ready = U64(), U64()
    c.call("cuStreamEndCapture", U64(stream), ctypes.byref(graph))
    c.call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, U64(0))
    return ready

def number(c, address):
    return int.from_bytes(c.copy_out(address, 4), "little")
'''


@pytest.fixture
def shared(tmp_path: Path, native: Build) -> Iterator[Client]:
    with sharing(tmp_path, native) as client:
        client.prelude += BOTH
        yield client


def test_nothing_of_it_is_copied_and_nothing_is_left_when_it_is_freed(shared: Client) -> None:
    out = shared.check("""
        c = Mapped()
        pinned, managed, arrays = pinned_and_managed(c)
        print(seen(arrays), c.traffic()[:2], files())
        c.call("cuMemFreeHost", U64(pinned))
        c.call("cuMemFree_v2", U64(managed))
        c.synchronize()
        print(files())
    """)
    same = "(42, 0, 7)"
    assert out == f"[{same}, {same}] (0, 0) (True, True, True)\n(False, False, False)\n"
    assert shared.agent.worker
    maps = Path(f"/proc/{shared.agent.worker.pid}/maps").read_text()
    assert "gpu-kernels pinned" not in maps


def test_it_goes_over_tcp_on_one_host_too(tmp_path: Path, native: Build) -> None:
    with sharing(tmp_path, native, tcp=True) as client:
        client.prelude += BOTH
        out = client.check("c = Mapped(); print(seen(pinned_and_managed(c)[2]), c.traffic()[:2], files())")
        assert out == "[(42, 0, 7), (42, 0, 7)] (0, 0) (True, True, True)\n"


def test_who_wants_nothing_shared_has_copies(shared: Client) -> None:
    out = shared.check(
        """
        c = Mapped()
        concurrent = c.out("cuDeviceGetAttribute", INT(89), INT(0)) & 1
        print(seen(pinned_and_managed(c)[2]), files(), concurrent)
        """,
        GPU_KERNELS_MAP="0",
    )
    assert out == "[(42, 0, 7), (42, 0, 7)] (False, False, False) 0\n"


def test_it_charges_managed_memory_to_the_slice_and_pinned_memory_to_nobody(shared: Client) -> None:
    out = shared.check("""
        c = Mapped()
        def free():
            free, total = SIZE(), SIZE()
            c.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
            return free.value
        add, before = c.kernel(c.library_of(TEXT), "add"), free()
        pinned = c.out("cuMemHostAlloc", SIZE(100 * MB), UINT(0))  # more than the slice
        c.launch(add, [U64(pinned), UINT(2)])
        c.synchronize()
        print(before - free())
        managed = c.out("cuMemAllocManaged", SIZE(3 * MB), UINT(1))
        none = c.status("cuMemAllocManaged", ctypes.byref(U64()), SIZE(62 * MB), UINT(1))
        print((before - free()) // MB, none)
    """)
    assert out == "0\n3 2\n"


def test_it_stays_with_what_is_in_it_when_its_life_ends(shared: Client) -> None:
    out = shared.check("""
        c = Mapped()
        pinned, managed, arrays = pinned_and_managed(c)
        assert c.library.gkNewLife() == SUCCESS
        print(seen(arrays), files())
        for words in arrays:
            words[1] = 5
        c = Mapped()
        others, more, again = pinned_and_managed(c)
        assert len({pinned, managed, others, more}) == 4
        print(seen(arrays), seen(again), c.traffic()[:2])
        for address in (pinned, others):
            c.call("cuMemFreeHost", U64(address))
        for address in (managed, more):
            c.call("cuMemFree_v2", U64(address))
        print(files())
    """)
    first, later = "(42, 0, 7)", "(42, 5, 7)"
    assert out == (
        f"[{first}, {first}] (True, True, False)\n[{later}, {later}] [{first}, {first}] (0, 0)\n"
        "(False, False, False)\n"
    )


def test_a_worker_that_dies_takes_managed_memory_along_and_says_so(shared: Client) -> None:
    with shared.start("""
        c = Mapped()
        pinned, managed, arrays = pinned_and_managed(c)
        print("there", flush=True)
        sys.stdin.readline()
        assert c.status("cuCtxSynchronize") != SUCCESS
        print(seen(arrays))
        arrays[0][1] = arrays[1][1] = 6
        c.library.gkNewLife()
        print(seen(arrays))
        c.call("cuMemFreeHost", U64(pinned))
        c.call("cuMemFree_v2", U64(managed))
    """) as program:
        assert program.stdin
        assert program.stdout
        assert program.stdout.readline() == "there\n"
        assert shared.agent.worker
        shared.agent.worker.kill()
        shared.agent.worker.wait()
        assert shared.agent.file
        shared.agent.file.empty()
        out, err = program.communicate("\n", timeout=60)
    assert out == "[(42, 0, 7), (0, 0, 0)]\n[(42, 6, 7), (0, 6, 0)]\n", err
    assert err.count("what lay in managed memory has gone with the GPU") == 1


def test_memory_that_is_freed_while_a_kernel_uses_it_hits_nobody(shared: Client) -> None:
    out = shared.check("""
        c = Mapped()
        add = c.kernel(c.library_of(TEXT), "slow_add")
        for i in range(5):
            pinned = c.out("cuMemHostAlloc", SIZE(MB), UINT(0))
            c.launch(add, [U64(pinned), UINT(2)])
            c.call("cuMemFreeHost", U64(pinned))
        c.synchronize()
        print(seen(pinned_and_managed(c)[2]))
    """)
    assert out == "[(42, 0, 7), (42, 0, 7)]\n"


def test_memory_comes_in_place_while_a_copy_to_it_waits_for_the_host(shared: Client) -> None:
    """The kernel before the copy ends when the host writes, which happens after the call."""
    out = shared.check(
        """
        c = Mapped()
        stream, source = c.stream(1), c.allocate(MB)
        c.copy_in(source, b"\\7" * MB)
        p, q = (c.out("cuMemHostAlloc", SIZE(MB), UINT(0)) for _ in range(2))
        word, seen = ctypes.c_uint32.from_address(p), ctypes.c_uint64.from_address(q)
        late = threading.Timer(10, lambda: setattr(word, "value", 7))
        c.launch(c.kernel(c.library_of(LATCH), "latch"), [U64(p)], stream=stream)
        c.call("cuMemcpyDtoHAsync_v2", U64(q), U64(source), SIZE(MB), U64(stream))
        late.start()
        c.call("cuMemHostGetDevicePointer_v2", ctypes.byref(U64()), U64(q), UINT(0))
        print(word.value, seen.value)
        late.cancel()
        word.value = 7
        c.call("cuStreamSynchronize", U64(stream))
        print(ctypes.string_at(q, MB) == b"\\7" * MB)
        """
    )
    assert out == "0 0\nTrue\n"


def test_a_program_with_a_limit_for_files_has_memory_of_its_own(shared: Client) -> None:
    out = shared.check("""
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it
        resource.setrlimit(resource.RLIMIT_FSIZE, (MB // 2, MB // 2))
        c = Mapped()
        add = c.kernel(c.library_of(TEXT), "add")
        small, large = (c.out("cuMemHostAlloc", SIZE(size), UINT(0)) for size in (MB // 2, MB))
        for address in (small, large):
            c.launch(add, [U64(address), UINT(2)])
        c.synchronize()
        maps = [line.split()[0] for line in open("/proc/self/maps") if "gpu-kernels pinned" in line]
        print(*(ctypes.c_uint32.from_address(address).value for address in (small, large)), len(maps))
    """)
    assert out == "2 2 1\n"
