"""Several threads of a program: each its own contexts, and order as CUDA's manual has it."""

from __future__ import annotations

from .conftest import Way


def test_each_thread_has_contexts_of_its_own(way: Way) -> None:
    ended = way.check("""
        c = Cuda()
        def other():
            out = U64()
            say(c.status("cuMemAlloc_v2", ctypes.byref(out), SIZE(4)), c.out("cuCtxGetCurrent"))
            c.use_context()
            c.free(c.allocate(4))
            popped = U64()
            c.call("cuCtxPopCurrent_v2", ctypes.byref(popped))
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        c.free(c.allocate(4))
    """)
    assert ended.out == "201 0\n"


def test_what_one_thread_gave_to_a_stream_comes_before_what_another_gives_it_later(way: Way) -> None:
    """Threads hand a stream on: what has returned in one is before what begins in the next."""
    ended = way.check("""
        c = Cuda()
        words, threads, rounds = 1 << 14, 4, 50
        memory = c.allocate(4 * words)
        c.copy_in(memory, bytes(4 * words))
        bump = c.kernel(c.library_of(TEXT), "bump")
        stream = c.out("cuStreamCreate", UINT(1))
        turns = [threading.Semaphore(0) for _ in range(threads)]
        def work(me):
            c.use_context()
            for _ in range(rounds):
                turns[me].acquire()
                c.launch(bump, [U64(memory), UINT(words)], words // 256, 256, stream)
                c.call("cuMemcpyDtoDAsync_v2", U64(memory), U64(memory + 4), SIZE(4), U64(stream))
                turns[(me + 1) % threads].release()
        pool = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
        [thread.start() for thread in pool]
        turns[0].release()
        [thread.join() for thread in pool]
        c.call("cuStreamSynchronize", U64(stream))
        back = memoryview(c.copy_out(memory, 4 * words)).cast("I")
        say(set(back))
    """)
    assert ended.out == "{200}\n"


def test_an_event_of_one_thread_orders_the_stream_of_another(way: Way) -> None:
    ended = way.check("""
        c = Cuda()
        words = 1 << 16
        a, b = c.allocate(4 * words), c.allocate(4 * words)
        bump = c.kernel(c.library_of(TEXT), "bump")
        first, second = (c.out("cuStreamCreate", UINT(1)) for _ in range(2))
        event = c.out("cuEventCreate", UINT(2))
        right = 0
        for round in range(20):
            c.copy_in(a, bytes(4 * words))
            c.copy_in(b, bytes(4 * words))
            def producer():
                c.use_context()
                for _ in range(10):
                    c.launch(bump, [U64(a), UINT(words)], words // 256, 256, first)
                c.call("cuEventRecord", U64(event), U64(first))
            thread = threading.Thread(target=producer)
            thread.start()
            thread.join()
            c.call("cuStreamWaitEvent", U64(second), U64(event), UINT(0))
            c.call("cuMemcpyDtoDAsync_v2", U64(b), U64(a), SIZE(4 * words), U64(second))
            c.call("cuStreamSynchronize", U64(second))
            right += set(memoryview(c.copy_out(b, 4 * words)).cast("I")) == {10}
        say(right)
    """)
    assert ended.out == "20\n"


def test_per_thread_default_streams_are_apart_and_the_legacy_one_waits_for_them(way: Way) -> None:
    ended = way.check("""
        c = Cuda()
        words, threads = 1 << 14, 4
        bump = c.kernel(c.library_of(TEXT), "bump")
        memories = [c.allocate(4 * words) for _ in range(threads)]
        [c.copy_in(memory, bytes(4 * words)) for memory in memories]
        def work(memory):
            c.use_context()
            arguments = [U64(memory), UINT(words)]
            for _ in range(20):
                c.call("cuLaunchKernel_ptsz", *launch_arguments(bump, arguments, words // 256, 256, 0))
        pool = [threading.Thread(target=work, args=(memory,)) for memory in memories]
        [thread.start() for thread in pool]
        [thread.join() for thread in pool]
        # Copies on the legacy stream come after all of it, with no synchronisation in between.
        say([set(memoryview(c.copy_out(memory, 4 * words)).cast("I")) for memory in memories])
    """)
    assert ended.out == "[{20}, {20}, {20}, {20}]\n"


def test_many_threads_compute_at_once(way: Way) -> None:
    ended = way.check("""
        c = Cuda()
        words = 1 << 12
        bump = c.kernel(c.library_of(TEXT), "bump")
        results = []
        def work(times):
            c.use_context()
            stream = c.out("cuStreamCreate", UINT(1))
            memory = c.allocate(4 * words)
            c.call("cuMemsetD32Async", U64(memory), UINT(0), SIZE(words), U64(stream))
            for _ in range(times):
                c.launch(bump, [U64(memory), UINT(words)], words // 256, 256, stream)
            c.call("cuStreamSynchronize", U64(stream))
            results.append(set(memoryview(c.copy_out(memory, 4 * words)).cast("I")) == {times})
            c.free(memory)
            c.call("cuStreamDestroy_v2", U64(stream))
        pool = [threading.Thread(target=work, args=(10 + i,)) for i in range(24)]
        [thread.start() for thread in pool]
        [thread.join() for thread in pool]
        say(results == [True] * 24)
    """)
    assert ended.out == "True\n"
