"""Thousands of streams, a million events, hundreds of threads: they work, or are refused with a text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.both_ways import agent_of
from tests.native_build import Build

from .conftest import MEMORY_MIB, Way


def own_mib(pid: int) -> int:
    """What a process has and had at most of memory, its files included."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) // 1024


def test_ten_thousand_streams_and_a_million_events_work(way: Way) -> None:
    way.check("""
        c = Cuda()
        streams = [c.out('cuStreamCreate', UINT(1)) for _ in range(10_000)]
        memory = c.allocate(4)
        for stream in streams:
            c.call('cuMemsetD8Async', U64(memory), ctypes.c_ubyte(1), SIZE(4), U64(stream))
        create, destroy, made = c.library.cuEventCreate, c.library.cuEventDestroy_v2, U64()
        at = ctypes.byref(made)
        for _ in range(1_000_000):
            assert create(at, 2) == 0 and destroy(made) == 0
        c.synchronize()
        for stream in streams:
            c.call('cuStreamDestroy_v2', U64(stream))
        c.synchronize()
        assert c.copy_out(memory, 4) == b'\\1' * 4
    """)
    if way.name == "forwarded":
        assert way.agent.worker is not None
        assert own_mib(way.agent.worker.pid) < 512


def test_a_million_events_alive_are_all_that_a_program_may_have_on_a_slice(
    native: Build, tmp_path: Path, ways: dict[str, Way]
) -> None:
    """Another lease, with a worker and an agent of its own, works meanwhile."""
    with ways["forwarded"].start("""
        c = Cuda()
        create, made, count = c.library.cuEventCreate, U64(), 0
        at = ctypes.byref(made)
        while create(at, 2) == 0:
            count += 1
        print(count, c.status('cuCtxSynchronize'), flush=True)
        sys.stdin.readline()
        c.call('cuEventDestroy_v2', made)
        print(c.status('cuEventCreate', at, UINT(2)))
    """) as hog:
        assert hog.stdout is not None
        assert hog.stdout.readline().split() == [str(2**20), "0"]
        worker = ways["forwarded"].agent.worker
        assert worker is not None
        assert own_mib(worker.pid) < 1024
        with agent_of(native, tmp_path, (MEMORY_MIB,)) as other:
            environment = ways["forwarded"].environment | other.client_environment(native.client)
            Way("other", environment, other).check("c = Cuda(); c.copy_in(c.allocate(4), b'well')")
        out, err = hog.communicate("go on\n", timeout=60)
    assert (out, hog.returncode) == ("0\n", 0), err


# The main thread takes its connection first: a thread that has been joined may still be giving its own back.
THREADS = """
c = Cuda()
c.synchronize()
failed = []
all_there = threading.Barrier({count})
def work():
    try:
        c.use_context()
        memory = c.allocate(64)
        all_there.wait(100)
        c.copy_in(memory, b'thread')
        assert c.copy_out(memory, 6) == b'thread'
        c.free(memory)
    except CudaError as error:
        failed.append(error.status)
        all_there.abort()
    except threading.BrokenBarrierError:
        pass
threads = [threading.Thread(target=work) for _ in range({count})]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_three_hundred_threads_use_the_gpu_at_once(way: Way) -> None:
    way.check(THREADS.format(count=300) + "assert not failed, failed\n")


def told_of_too_many_threads(way: Way) -> str:
    """What a program with 530 threads is told first: some are refused, and the rest goes on."""
    done = way.run(
        THREADS.format(count=530) + "print(set(failed)); memory = c.allocate(4); c.synchronize()\n"
    )
    assert (done.returncode, done.stdout) == (0, "{46}\n"), done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("gpu-kernels: ")]
    assert 1 <= len(told) <= 5
    return told[0]


def test_more_threads_than_a_slice_serves_are_refused_and_told_a_few_times(ways: dict[str, Way]) -> None:
    told = told_of_too_many_threads(ways["forwarded"])
    assert "this slice's programs have 384 connections to their GPU server" in told
    assert "Use fewer threads" in told


def test_more_threads_than_a_process_may_have_are_refused_where_the_slice_serves_more(
    native: Build, tmp_path: Path, ways: dict[str, Way]
) -> None:
    roomy = ("--host-memory-mib", "8192")
    with agent_of(native, tmp_path, (MEMORY_MIB,), options=roomy) as agent:
        environment = ways["forwarded"].environment | agent.client_environment(native.client)
        told = told_of_too_many_threads(Way("roomy", environment, agent))
    assert "512 threads of this process use CUDA already" in told
    assert "give their work to fewer" in told


@pytest.mark.parametrize("size", [200 << 30, 1 << 60, (1 << 64) - 1])
def test_huge_pinned_memory_is_refused_with_how_much_it_was(way: Way, size: int) -> None:
    done = way.run(f"""
        c = Cuda()
        made = U64()
        for _ in range(50):
            print(c.status('cuMemHostAlloc', ctypes.byref(made), SIZE({size}), UINT(0)))
        host = c.out('cuMemHostAlloc', SIZE(64), UINT(0))
        memory = c.allocate(64)
        c.call('cuMemcpyHtoD_v2', U64(memory), POINTER(host), SIZE(64))
        c.synchronize()
    """)
    assert (done.returncode, set(done.stdout.split())) == (0, {"2"}), done.stderr
    told = [line for line in done.stderr.splitlines() if "no pinned memory" in line]
    assert len(told) == 5
    assert told[0].startswith(f"gpu-kernels: no pinned memory of {size} bytes (")
    assert "Ask for less" in told[0]


def test_device_memory_beyond_the_slice_is_refused_and_what_is_there_stays(way: Way) -> None:
    way.check("""
        c = Cuda()
        kept = c.allocate(1 << 20)
        c.copy_in(kept, b'kept')
        made, pitch = U64(), SIZE()
        for size in (65 << 20, 1 << 40, 1 << 63, (1 << 64) - 1):
            assert c.status('cuMemAlloc_v2', ctypes.byref(made), SIZE(size)) == OUT_OF_MEMORY
            assert c.status('cuMemAllocManaged', ctypes.byref(made), SIZE(size), UINT(1)) == OUT_OF_MEMORY
            assert c.status('cuMemAllocAsync', ctypes.byref(made), SIZE(size), None) == OUT_OF_MEMORY
        arguments = (ctypes.byref(made), ctypes.byref(pitch), SIZE(1 << 40), SIZE(1 << 40), UINT(4))
        assert c.status('cuMemAllocPitch_v2', *arguments) == OUT_OF_MEMORY
        assert c.status('cuMemAlloc_v2', ctypes.byref(made), SIZE(0)) == INVALID_VALUE
        assert c.copy_out(kept, 4) == b'kept'
    """)


def test_what_is_not_supported_is_told_once_a_name(way: Way) -> None:
    """The issue's one line: a student sees at once which call it was, without asking for a log."""
    done = way.run("""
        c = Cuda()
        handle = ctypes.create_string_buffer(64)
        for _ in range(3):
            print(c.status('cuIpcGetMemHandle', handle, U64(c.allocate(4))))
        c.synchronize()
    """)
    assert done.stdout.split() == ["801"] * 3
    told = [line for line in done.stderr.splitlines() if "cuIpcGetMemHandle" in line]
    assert len(told) == 1, done.stderr
    assert told[0].startswith(
        "gpu-kernels: cuIpcGetMemHandle is not supported and returns CUDA_ERROR_NOT_SUPPORTED. Leave it out"
    )


def test_a_program_that_tries_everything_is_not_told_everything(way: Way) -> None:
    done = way.run("""
        import subprocess
        c = Cuda()
        library = os.path.join(os.environ['LD_LIBRARY_PATH'].split(':')[0], 'libcuda.so.1')
        names = subprocess.run(['nm', '-D', '--defined-only', library], capture_output=True, text=True)
        kinds = [line.split()[1:] for line in names.stdout.splitlines()]
        of = ('cuLogical', 'cuGraphics', 'cuMulticast', 'cuCoredump', 'cuGreen', 'cuCheckpoint', 'cuIpc')
        tried = [name.split('@')[0] for kind, name in kinds if kind in 'TW' and name.startswith(of)]
        print(sum(c.status(name, *[None] * 8) == NOT_SUPPORTED for name in tried))
    """)
    assert int(done.stdout) > 40, done.stderr
    told = [line for line in done.stderr.splitlines() if "not supported" in line]
    assert len(told) == 21, done.stderr
    assert "More calls of this program are not supported" in told[-1]
