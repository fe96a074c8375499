"""A child of fork cannot use what its parent has started; one that was forked before can start it itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .conftest import Way

REMEDY = "multiprocessing.get_context('spawn')"


def test_a_child_is_refused_and_told_once_and_its_parent_goes_on(way: Way) -> None:
    ended = way.check("""
        c = Cuda()
        memory = c.allocate(40)
        bump = c.kernel(c.library_of(TEXT), "bump")
        c.copy_in(memory, bytes(40))
        if (child := os.fork()) == 0:
            out, arguments = U64(), [U64(memory), UINT(10)]
            say({
                c.status("cuInit", UINT(0)),
                c.status("cuDeviceGetCount", ctypes.byref(out)),
                c.status("cuMemAlloc_v2", ctypes.byref(out), SIZE(4)),
                c.status("cuLaunchKernel", *launch_arguments(bump, arguments, 1, 32, 0)),
                c.status("cuCtxSynchronize"),
            })
            os._exit(0)
        os.waitpid(child, 0)
        c.launch(bump, [U64(memory), UINT(10)], block=32)
        say(c.copy_out(memory, 40) == b"\\1\\0\\0\\0" * 10)
    """)
    assert ended.out == "{3}\nTrue\n"
    assert len(ended.told) == 1
    assert REMEDY in ended.told[0]
    assert "start CUDA after the fork" in ended.told[0]


def test_a_child_of_a_program_with_the_runtime_is_refused_and_told_once(way: Way) -> None:
    ended = way.check("""
        runtime = ctypes.CDLL("libcudart.so.13")
        say(runtime.cudaFree(None))
        if (child := os.fork()) == 0:
            memory = ctypes.c_void_p()
            assert Cuda(start=False).status("cuCtxSynchronize") == NOT_INITIALIZED
            say(runtime.cudaMalloc(ctypes.byref(memory), SIZE(4)), runtime.cudaDeviceSynchronize())
            os._exit(0)
        os.waitpid(child, 0)
        say(runtime.cudaDeviceSynchronize())
    """)
    assert ended.out == "0\n3 3\n0\n"  # 3: cudaErrorInitializationError
    assert len(ended.told) == 1
    assert REMEDY in ended.told[0]


def test_forked_before_cuda_starts_both_use_it(way: Way) -> None:
    ended = way.check("""
        ctypes.CDLL("libcuda.so.1")
        runtime = ctypes.CDLL("libcudart.so.13")
        child = os.fork()
        c = Cuda()
        memory = c.allocate(4)
        c.copy_in(memory, b"mine")
        say(c.copy_out(memory, 4), runtime.cudaDeviceSynchronize())
        if child:
            assert os.waitpid(child, 0)[1] == 0
        sys.stdout.flush()
        os._exit(0)
    """)
    assert ended.out == "b'mine' 0\n" * 2
    assert not ended.told


def test_a_child_that_leaves_cuda_alone_is_told_nothing(way: Way) -> None:
    """Its exit handlers run, as after a plain fork in C."""
    ended = way.check("""
        c = Cuda()
        ctypes.CDLL("libcudart.so.13").cudaFree(None)
        if (child := os.fork()) == 0:
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        c.synchronize()
    """)
    assert not ended.told


def test_a_program_that_a_forked_child_starts_has_a_session_of_its_own(way: Way) -> None:
    ended = way.check("""
        c = Cuda()
        if (child := os.fork()) == 0:
            os.execv(sys.executable, [sys.executable, "-c",
                "from tests.forwarding.driver_api import Cuda; Cuda().synchronize(); print('done')"])
        assert os.waitpid(child, 0)[1] == 0
        c.synchronize()
    """)
    assert (ended.out, ended.told) == ("done\n", [])


NUMBA = """
import multiprocessing, sys
import numpy
from numba import cuda

@cuda.jit("void(int32[:])")
def bump(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1

def work(number):
    x = cuda.to_device(numpy.full(1000, number, dtype=numpy.int32))
    bump[8, 128](x)
    return int(x.copy_to_host().sum())

def refused(number):
    try:
        return work(number)
    except Exception as error:
        return type(error).__name__

if __name__ == "__main__":
    mine = cuda.to_device(numpy.arange(10, dtype=numpy.int32))
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        print(pool.map(work if sys.argv[1] == "spawn" else refused, [1, 2], chunksize=1))
    bump[1, 32](mine)
    print(mine.copy_to_host().sum())
"""


@pytest.mark.parametrize(
    ("method", "expected"),
    [("spawn", "[2000, 3000]"), ("fork", "['CudaDriverError', 'CudaDriverError']")],
)
def test_numba_in_the_children_of_multiprocessing(
    way: Way, tmp_path: Path, method: str, expected: str
) -> None:
    script = tmp_path / "program.py"
    script.write_text(NUMBA)
    with way.start_command(sys.executable, str(script), method) as process:
        out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    assert out == f"{expected}\n55\n", err
    # Once in each child; one of them may have done all the work.
    assert err.count(REMEDY) in ([1, 2] if method == "fork" else [0])
