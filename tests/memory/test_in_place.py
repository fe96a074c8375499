"""What becomes of memory that host and kernels use at once, when a life, a worker or the memory ends."""

from __future__ import annotations

import time
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
    assert leaves_nothing(shared.agent.worker.pid)


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


def test_a_child_of_a_fork_has_memory_of_its_own_that_is_larger_than_the_machine_s(shared: Client) -> None:
    out = shared.check("""
        c = Mapped()
        c.allocate(1)
        size = 2 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        words = (ctypes.c_uint32 * 2).from_address(c.out("cuMemHostAlloc", SIZE(size), UINT(0)))
        words[0] = 40
        if (child := os.fork()) == 0:
            seen, words[0] = words[0], 5
            os._exit(seen)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), words[0], files()[1])
    """)
    assert out == "40 40 True\n"


@pytest.mark.parametrize("shares", ["1", "0"], ids=["in place", "beside"])
def test_a_graph_copies_what_kernels_have_come_to_use_since_it_was_made(shared: Client, shares: str) -> None:
    out = shared.check(
        """
c = Mapped()
stream, device, library = c.stream(1), c.allocate(MB), c.library_of(TEXT)
add, slow = c.kernel(library, "add"), c.kernel(library, "slow_add")
p, q = (c.out("cuMemHostAlloc", SIZE(MB), UINT(0)) for _ in range(2))
words = [ctypes.c_uint32.from_address(address) for address in (p, q)]
words[0].value = 40
take = made(c, stream, lambda: c.call("cuMemcpyAsync", U64(device), U64(p), SIZE(16), U64(stream)))
c.launch(slow, [U64(p), UINT(2)], stream=stream)
c.call("cuGraphLaunch", take, U64(stream))
c.call("cuStreamSynchronize", U64(stream))
print(words[0].value, number(c, device))
c.copy_in(device, (100).to_bytes(4, "little"))
give = made(c, stream, lambda: c.call("cuMemcpyAsync", U64(q), U64(device), SIZE(16), U64(stream)))
for _ in range(2):
    c.call("cuGraphLaunch", give, U64(stream))
    c.launch(add, [U64(q), UINT(2)], stream=stream)
    c.call("cuStreamSynchronize", U64(stream))
    print(words[1].value)
""",
        GPU_KERNELS_MAP=shares,
    )
    assert out == "42 42\n102\n102\n"


@pytest.mark.parametrize("shares", ["1", "0"], ids=["in place", "beside"])
@pytest.mark.parametrize("way", ["captured", "added"])
def test_a_kernel_of_a_graph_uses_pinned_memory(shared: Client, shares: str, way: str) -> None:
    out = shared.check(
        f"""
c = Mapped()
stream, add = c.stream(1), c.kernel(c.library_of(TEXT), "add")
p = c.out("cuMemHostAlloc", SIZE(MB), UINT(0))
word = ctypes.c_uint32.from_address(p)
word.value = 40
if {way == "captured"}:
    ready = made(c, stream, lambda: c.launch(add, [U64(p), UINT(2)], stream=stream))
else:
    class Node(ctypes.Structure):
        _fields_ = [("function", POINTER), ("shape", UINT * 7), ("parameters", POINTER), ("extra", POINTER),
                    ("kernel", POINTER), ("context", POINTER)]
    values = [U64(p), UINT(2)]
    pointers = (POINTER * 2)(*(ctypes.addressof(value) for value in values))
    node = Node(add, (UINT * 7)(1, 1, 1, 1, 1, 1, 0), ctypes.addressof(pointers))
    graph, ready = U64(), U64()
    c.call("cuGraphCreate", ctypes.byref(graph), UINT(0))
    c.call("cuGraphAddKernelNode_v2", ctypes.byref(U64()), graph, None, SIZE(0), ctypes.byref(node))
    c.call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, U64(0))
for _ in range(2):
    c.call("cuGraphLaunch", ready, U64(stream))
    c.call("cuStreamSynchronize", U64(stream))
    print(word.value)
""",
        GPU_KERNELS_MAP=shares,
    )
    assert out == "42\n44\n"


def test_a_kernel_set_later_may_not_share_memory_with_the_graph_s_copies(shared: Client) -> None:
    done = shared.run("""
        class Node(ctypes.Structure):
            _fields_ = [("function", POINTER), ("shape", UINT * 7), ("parameters", POINTER),
                        ("extra", POINTER), ("kernel", POINTER), ("context", POINTER)]
        c = Mapped()
        stream, device, add = c.stream(1), c.allocate(MB), c.kernel(c.library_of(TEXT), "add")
        p, q = (c.out("cuMemHostAlloc", SIZE(MB), UINT(0)) for _ in range(2))
        kept = []
        def node_of(address):
            values = [U64(address), UINT(2)]
            pointers = (POINTER * 2)(*(ctypes.addressof(value) for value in values))
            kept.extend((values, pointers))
            return ctypes.byref(Node(add, (UINT * 7)(1, 1, 1, 1, 1, 1, 0), ctypes.addressof(pointers)))
        c.call("cuStreamBeginCapture_v2", U64(stream), UINT(2))
        c.call("cuMemcpyAsync", U64(device), U64(p), SIZE(16), U64(stream))
        graph, kernel, ready = U64(), U64(), U64()
        c.call("cuStreamEndCapture", U64(stream), ctypes.byref(graph))
        c.call("cuGraphAddKernelNode_v2", ctypes.byref(kernel), graph, None, SIZE(0), node_of(device + 64))
        c.call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, U64(0))
        for address in (p, q):
            print(c.status("cuGraphExecKernelNodeSetParams_v2", ready, kernel, node_of(address)))
        c.call("cuGraphLaunch", ready, U64(stream))
        c.call("cuStreamSynchronize", U64(stream))
        print(ctypes.c_uint32.from_address(q).value, number(c, device + 64))
    """)
    assert done.stdout == "801\n0\n2 0\n", done.stderr
    assert done.stderr.count("the same graph copies from or to") == 1


def used_and_freed(shared: Client, sessions: int) -> None:
    """A program that frees pinned memory, and one that leaves it to its end: each ends while others go on."""
    program = """
        c = Mapped()
        pinned = c.out("cuMemHostAlloc", SIZE(MB), UINT(0))
        stream = c.stream(1)
        c.launch(c.kernel(c.library_of(TEXT), "add"), [U64(pinned), UINT(2)], stream=stream)
        c.call("cuStreamSynchronize", U64(stream))
        if {frees}:
            c.call("cuMemFreeHost", U64(pinned))
            again = c.out("cuMemHostAlloc", SIZE(MB), UINT(0))
            c.launch(c.kernel(c.library_of(TEXT), "add"), [U64(again), UINT(2)], stream=stream)
            c.call("cuStreamSynchronize", U64(stream))
        print("through")
    """
    assert shared.agent.worker
    for frees in (True, False):
        assert shared.check(program.format(frees=frees)) == "through\n"
        until = time.monotonic() + 20
        told: object = None
        while told != sessions and time.monotonic() < until:
            told = next((p["sessions"] for p in reversed(shared.agent.packets()) if "sessions" in p), told)
            time.sleep(0.05)
        assert told == sessions, frees


def test_memory_is_freed_and_a_program_ends_while_a_kernel_of_another_never_does(shared: Client) -> None:
    endless = """
        c = Mapped()
        c.launch(c.kernel(c.library_of(TEXT), "spin"))
        c.status("cuStreamQuery", U64(0))
        print("spins", flush=True)
        sys.stdin.readline()
    """
    with shared.start(endless) as other:
        try:
            assert other.stdout
            assert other.stdout.readline() == "spins\n"
            used_and_freed(shared, 1)
        finally:
            other.kill()
    assert shared.agent.worker
    assert leaves_nothing(shared.agent.worker.pid)


def leaves_nothing(worker: int) -> bool:
    """The worker lets go of pinned memory when all that runs has ended."""
    until = time.monotonic() + 30
    while "gpu-kernels pinned" in Path(f"/proc/{worker}/maps").read_text():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize("work", ["from it", "to it"])
def test_a_graph_that_uses_memory_that_was_freed_faults_and_the_worker_goes_on(
    shared: Client, work: str
) -> None:
    calls = {
        "from it": 'c.call("cuMemcpyAsync", U64(device), U64(pinned), SIZE(MB), U64(stream))',
        "to it": 'c.call("cuMemcpyAsync", U64(pinned), U64(device), SIZE(MB), U64(stream))',
    }
    assert shared.agent.worker
    worker = shared.agent.worker
    pid = worker.pid
    out = shared.check(f"""
        c = Mapped()
        pinned, device = c.out("cuMemHostAlloc", SIZE(MB), UINT(0)), c.allocate(MB)
        stream = c.stream(1)
        c.launch(c.kernel(c.library_of(TEXT), "add"), [U64(pinned), UINT(2)], stream=stream)
        c.call("cuStreamSynchronize", U64(stream))
        c.call("cuStreamBeginCapture_v2", U64(stream), UINT(2))
        {calls[work]}
        graph, built = U64(), U64()
        c.call("cuStreamEndCapture", U64(stream), ctypes.byref(graph))
        c.call("cuGraphInstantiateWithFlags", ctypes.byref(built), graph, U64(0))
        c.call("cuGraphLaunch", built, U64(stream))
        c.call("cuStreamSynchronize", U64(stream))
        c.call("cuMemFreeHost", U64(pinned))
        while "gpu-kernels pinned" in open("/proc/{pid}/maps").read():
            c.status("cuStreamQuery", U64(stream))
            time.sleep(0.01)
        print(c.status("cuGraphLaunch", built, U64(stream)) or c.status("cuStreamSynchronize", U64(stream)))
    """)
    assert out == "700\n"
    worker.wait(60)
    assert worker.returncode >= 0, "a signal"
