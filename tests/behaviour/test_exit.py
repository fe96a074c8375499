"""How programs end, and what is left for the next: clean ends, sudden ends, and ends after a fault."""

from __future__ import annotations

import signal

import pytest

from .conftest import Way

ILLEGAL_ADDRESS = 700


def test_calls_from_exit_handlers_work_even_when_python_is_gone(way: Way) -> None:
    ended = way.check("""
        import atexit
        c = Cuda()
        memory = c.allocate(40)
        c.copy_in(memory, bytes(40))
        bump = c.kernel(c.library_of(TEXT), "bump")
        def late():
            c.launch(bump, [U64(memory), UINT(10)], block=32)
            say(c.copy_out(memory, 40) == b"\\1\\0\\0\\0" * 10)
        atexit.register(late)
        ctypes.CDLL(None).__cxa_atexit(c.library.cuCtxSynchronize, None, None)
    """)
    assert (ended.out, ended.err) == ("True\n", "")


@pytest.mark.parametrize("last", ["pass", "sys.exit(0)", "os._exit(0)"])
def test_python_ends_with_everything_alive(way: Way, last: str) -> None:
    """Streams, events, pinned memory, arrays and work that has not ended; and a thread in a call."""
    ended = way.check(f"""
        import numpy
        from numba import cuda
        stream, event = cuda.stream(), cuda.event()
        arrays = [cuda.to_device(numpy.arange(1000), stream=stream) for _ in range(10)]
        pinned = cuda.pinned_array(1000)
        managed = cuda.managed_array(100)
        event.record(stream)
        c = Cuda()
        memory = c.allocate(8000)
        def work():  # without numba, whose exit handler frees the arrays that a thread is at work on
            c.use_context()
            while True:
                c.copy_in(memory, bytes(8000))
                assert c.copy_out(memory, 8000) == bytes(8000)
                ready.set()
        ready = threading.Event()
        threading.Thread(target=work, daemon=True).start()
        ready.wait()
        {last}
    """)
    assert (ended.out, ended.err) == ("", "")


def test_the_libraries_may_be_closed_and_opened_again(way: Way) -> None:
    ended = way.check("""
        close = ctypes.CDLL(None).dlclose
        close.argtypes = [ctypes.c_void_p]
        for _ in range(3):
            c, runtime = Cuda(), ctypes.CDLL("libcudart.so.13")
            memory = c.allocate(4)
            c.copy_in(memory, b"here")
            say(runtime.cudaDeviceSynchronize(), c.copy_out(memory, 4))
            for library in (runtime, c.library):
                handle = library._handle
                del library
                close(handle)
    """)
    assert ended.out == "0 b'here'\n" * 3


def test_after_a_fault_every_call_says_so_and_the_program_ends_cleanly(way: Way) -> None:
    program = """
        c = Cuda()
        memory = c.allocate(40)
        library = c.library_of(TEXT)
        bump, wild = c.kernel(library, "bump"), c.kernel(library, "wild")
        runtime = ctypes.CDLL("libcudart.so.13")
        c.launch(wild)
        say(c.status("cuCtxSynchronize"))
        out, room, arguments = U64(), ctypes.create_string_buffer(40), [U64(memory), UINT(10)]
        say({
            c.status("cuCtxSynchronize"),
            c.status("cuMemAlloc_v2", ctypes.byref(out), SIZE(4)),
            c.status("cuMemcpyDtoH_v2", room, U64(memory), SIZE(40)),
            c.status("cuMemcpyHtoD_v2", U64(memory), room, SIZE(40)),
            c.status("cuLaunchKernel", *launch_arguments(bump, arguments, 1, 32, 0)),
            c.status("cuStreamCreate", ctypes.byref(out), UINT(0)),
            c.status("cuMemFree_v2", U64(memory)),
            runtime.cudaDeviceSynchronize(),
            runtime.cudaGetLastError(),
            runtime.cudaStreamSynchronize(None),
        })
    """
    ended = way.check(program)
    assert ended.out == f"{ILLEGAL_ADDRESS}\n{{{ILLEGAL_ADDRESS}}}\n"
    assert len([line for line in ended.told if "Restart" in line]) == 1
    # The next program of the lease has a worker that knows nothing of it.
    assert way.check("c = Cuda()\nc.free(c.allocate(1000))\nc.synchronize()\nsay('good')").out == "good\n"


def test_a_program_that_is_killed_while_its_kernel_runs_leaves_nothing(forwarded: Way) -> None:
    with (
        forwarded.start("""
            c = Cuda()
            say("other", c.allocate(4) > 0)
            sys.stdin.readline()
            memory = c.allocate(4)
            c.copy_in(memory, b"good")
            say(c.copy_out(memory, 4))
        """) as other,
        forwarded.start("""
            c = Cuda()
            c.allocate(300 << 20)
            spin = c.kernel(c.library_of(TEXT), "spin")
            c.launch(spin, stream=c.out("cuStreamCreate", UINT(1)))
            c.launch(spin)
            say("spins", c.status("cuStreamQuery", U64(0)))
            c.synchronize()
        """) as killed,
    ):
        assert killed.stdout
        assert other.stdout
        assert other.stdout.readline() == "other True\n"
        assert killed.stdout.readline() == "spins 600\n"
        killed.send_signal(signal.SIGKILL)
        assert killed.wait(100) == -signal.SIGKILL
        # All of its memory comes back to the lease, and its kernels hold up nobody's default stream.
        out = forwarded.check("""
            import time
            c = Cuda()
            address = U64()
            while c.status("cuMemAlloc_v2", ctypes.byref(address), SIZE(400 << 20)):
                time.sleep(0.01)
            c.synchronize()
            say("all there")
        """).out
        assert out == "all there\n"
        assert other.communicate("go on\n", timeout=100)[0] == "b'good'\n"


def test_os_exit_gives_memory_back(forwarded: Way) -> None:
    for _ in range(2):
        forwarded.check("""
            import time
            c = Cuda()
            address = U64()
            while c.status("cuMemAlloc_v2", ctypes.byref(address), SIZE(400 << 20)):
                time.sleep(0.01)
            os._exit(0)
        """)
