"""What meets the end of a life by a hair: callbacks, forks, functions that are told at its end."""

from __future__ import annotations

from .lives import software
from .recorded import Client

__all__ = ["software"]


def test_every_callback_is_called_though_lives_end_while_they_are_due(software: Client) -> None:
    out = software.check("""
        import random, time
        c = Cuda()
        CALLBACK = ctypes.CFUNCTYPE(None, POINTER, INT, POINTER)
        statuses = set()
        for _ in range(300):
            c.use_context()
            told = threading.Event()
            callback = CALLBACK(lambda stream, status, data: (statuses.add(status), told.set()))
            c.call("cuStreamAddCallback", U64(0), callback, None, UINT(0))
            now = time.perf_counter()
            until = now + random.random() * 0.0006
            while now < until:
                now = time.perf_counter()
            new_life(c)
            told.wait()
        print(statuses <= {0, CONTEXT_IS_DESTROYED}, statuses)
    """)
    assert out.startswith("True"), out


def test_a_child_that_is_forked_between_two_lives_sends_what_it_posts(software: Client) -> None:
    out = software.check("""
        c = Cuda()
        def burst():
            works(c)
            kernel, memory = c.kernel(c.library_of(TEXT), "store"), c.allocate(4096)
            for number in range(300):
                c.launch(kernel, [U64(memory), U64(number)], 1, 1, 0)
        burst()
        c.call("cuCtxSynchronize")
        new_life(c)
        sys.stdout.flush()
        pid = os.fork()
        burst()  # in both, and another thread waits for it
        def wait():
            c.use_context()
            c.call("cuCtxSynchronize")
            os.write(1, b"synchronised\\n")  # at once: both processes say it at the same time
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
    """)
    assert out.splitlines() == ["synchronised"] * 2


def test_a_function_that_is_told_at_the_end_of_a_life_can_end_none(software: Client) -> None:
    out = software.check("""
        c = Cuda()
        FUNCTION = ctypes.CFUNCTYPE(None, POINTER)
        function = FUNCTION(lambda data: print(c.library.gkNewLife(), c.status("cuCtxSynchronize")))
        graph = c.out("cuGraphCreate", UINT(0))
        object = c.out("cuUserObjectCreate", POINTER(77), function, UINT(1), UINT(1))
        c.call("cuGraphRetainUserObject", U64(graph), U64(object), UINT(1), UINT(1))
        new_life(c)
        works(c)
    """)
    assert out == "800 709\n"


def test_a_function_of_a_graphs_object_that_lasts_holds_up_no_other_threads_life(software: Client) -> None:
    out = software.check("""
        c = Cuda()
        c.use_context()
        FUNCTION = ctypes.CFUNCTYPE(None, POINTER)
        within, go = threading.Event(), threading.Event()
        function = FUNCTION(lambda data: (within.set(), go.wait()))
        object = c.out("cuUserObjectCreate", POINTER(77), function, UINT(1), UINT(1))
        thread = threading.Thread(target=lambda: c.call("cuUserObjectRelease", U64(object), UINT(1)))
        thread.start()
        within.wait()
        new_life(c)
        works(c)
        go.set()
        thread.join()
        print("went on")
    """)
    assert out == "went on\n"
