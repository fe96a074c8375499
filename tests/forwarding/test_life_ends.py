"""What is under way when a life ends, and how the next one begins."""

from __future__ import annotations

import os
import signal

from .lives import OLD, software
from .recorded import Client
from .test_attaching import attached, points, waiting, without_slice

__all__ = ["points", "software"]


BUSY = """
    import time
    c = Cuda()
    stop = threading.Event()
    counts, wrong, hangs = [0] * 4, [], []
    ANSWERS = {SUCCESS, CONTEXT_IS_DESTROYED, INVALID_HANDLE, INVALID_CONTEXT, INVALID_VALUE, NOT_FOUND}

    def once(number):
        c.use_context()
        stream, library = c.out("cuStreamCreate", UINT(0)), c.library_of(TEXT)
        kernel = c.kernel(library, "store")
        memory = c.out("cuMemAllocAsync", SIZE(4096), U64(stream))
        pinned = c.out("cuMemHostAlloc", SIZE(4096), UINT(0))
        try:
            for _ in range(20):
                c.launch(kernel, [U64(memory), U64(number)], 1, 1, stream)
                c.call("cuMemcpyDtoHAsync_v2", U64(pinned), U64(memory), SIZE(4096), U64(stream))
                c.call("cuStreamSynchronize", U64(stream))
                assert ctypes.c_uint32.from_address(pinned).value == number
        finally:
            c.call("cuMemFreeHost", U64(pinned))
        c.call("cuMemFreeAsync", U64(memory), U64(stream))
        c.call("cuStreamDestroy_v2", U64(stream))
        c.call("cuLibraryUnload", U64(library))

    def loop(number):
        while not stop.is_set():
            try:
                once(number + 5)
                counts[number] += 1
            except CudaError as error:
                if error.status not in ANSWERS:
                    wrong.append(str(error))
            except AssertionError as error:
                wrong.append("another's value")

    threads = [threading.Thread(target=loop, args=(n,)) for n in range(4)]
    [t.start() for t in threads]
"""


def test_calls_in_flight_fail_cleanly_and_every_thread_goes_on_in_the_next_life(software: Client) -> None:
    out = software.check(
        BUSY
        + """
    for _ in range(int(os.environ.get("LIVES", 30))):
        before = list(counts)
        while any(now < was + 1 for now, was in zip(counts, before)) and not wrong:
            time.sleep(0.001)
        new_life(c)
    stop.set()
    [t.join() for t in threads]
    print(wrong[:3], life(c)[0])
    """
    )
    assert out == "[] 30\n"


def test_a_call_that_waits_for_a_kernel_without_end_comes_back(software: Client) -> None:
    out = software.check("""
        c = Cuda()
        library = c.library_of(TEXT)
        spin = c.kernel(library, "spin")
        started = threading.Event()
        def wait():
            c.use_context()
            c.launch(spin)
            started.set()
            print(c.status("cuCtxSynchronize"))
        thread = threading.Thread(target=wait)
        thread.start()
        started.wait()
        new_life(c)
        thread.join()
        works(c)
        print("works")
    """)
    assert out.splitlines() == ["709", "works"]


def test_a_hundred_lives_leave_no_descriptor_no_thread_and_no_mapping(software: Client) -> None:
    out = software.check(
        OLD
        + """
    import gc, time
    c = Cuda()
    def calls_functions(task):
        try:
            return open(f"/proc/self/task/{task}/comm").read() == "gpu-host-calls\\n"
        except OSError:
            return False  # it has ended
    def lived():
        c.use_context()
        made = all_of(c)
        called = threading.Event()
        function = FUNCTION(lambda data: called.set())
        c.call("cuLaunchHostFunc", U64(0), function, None)
        called.wait()
        c.call("cuLinkDestroy", U64(made["link"]))
        c.call("cuCtxSynchronize")
        new_life(c)
    def held():
        while any(map(calls_functions, os.listdir("/proc/self/task"))):
            time.sleep(0.001)  # a thread that calls functions ends by itself, with what it holds
        gc.collect()
        maps = [line for line in open("/proc/self/maps") if "[heap]" not in line]
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), len(maps)
    for _ in range(10):
        lived()
    before = held()
    for _ in range(100):
        lived()
    after = held()
    # glibc keeps stacks of threads that have ended (40 MiB) and arenas (eight a core): on a busy machine more
    # of them than the first lives needed. One mapping left by every second life would be 50.
    assert after[:2] == before[:2] and after[2] < before[2] + 50, (before, after)
    """,
    )
    assert out == ""


def test_a_worker_that_was_killed_leaves_a_life_that_can_be_ended_and_begun_anew(software: Client) -> None:
    program = """
        c = Cuda()
        address = c.allocate(64)
        print("there", flush=True)
        sys.stdin.readline()
        print(c.status("cuCtxSynchronize"), life(c))
        new_life(c)
        works(c)
        print(life(c))
    """
    with software.start(program) as process:
        assert process.stdout.readline() == "there\n"
        software.agent.worker.kill()
        software.agent.worker.wait()
        out, err = process.communicate("go\n", timeout=60)
    assert out.splitlines() == ["46 (0, 2)", "(1, 1)"], err


def test_a_fault_ends_with_the_life(software: Client) -> None:
    program = """
        c = Cuda()
        kernel = c.kernel(c.library_of(TEXT), "store")
        c.launch(kernel, [U64(64), U64(1)])
        print(c.status("cuCtxSynchronize"), life(c), flush=True)
        new_life(c)
        sys.stdin.readline()
        works(c)
    """
    with software.start(program) as process:
        assert process.stdout.readline() == "700 (0, 2)\n"
        software.agent.worker.wait()  # its last session has gone, and its context is lost
        _, err = process.communicate("go\n", timeout=60)
        assert process.returncode == 0, err


def test_a_function_of_the_program_can_end_no_life_and_ends_with_it(software: Client) -> None:
    out = software.check("""
        c = Cuda()
        FUNCTION = ctypes.CFUNCTYPE(None, POINTER)
        within, go = threading.Event(), threading.Event()
        said = []
        def host(data):
            within.set()
            go.wait()
            said.append((c.library.gkNewLife(), c.status("cuCtxSynchronize")))
        function = FUNCTION(host)
        never = FUNCTION(lambda data: said.append("never"))
        CALLBACK = ctypes.CFUNCTYPE(None, POINTER, INT, POINTER)
        told = threading.Event()
        callback = CALLBACK(lambda stream, status, data: (said.append(status), told.set()))
        c.call("cuLaunchHostFunc", U64(0), function, None)
        c.call("cuLaunchHostFunc", U64(0), never, None)
        c.call("cuStreamAddCallback", U64(0), callback, None, UINT(0))
        within.wait()
        new_life(c)
        works(c)
        again = threading.Event()
        second = FUNCTION(lambda data: again.set())
        c.call("cuLaunchHostFunc", U64(0), second, None)
        again.wait()
        go.set()
        told.wait()
        print(said)
    """)
    assert out == "[(800, 800), 709]\n"


def test_user_objects_of_graphs_are_destroyed_with_the_life(software: Client) -> None:
    out = software.check("""
        c = Cuda()
        FUNCTION = ctypes.CFUNCTYPE(None, POINTER)
        said = []
        function = FUNCTION(lambda data: said.append((data, life(c)[1])))
        graph = c.out("cuGraphCreate", UINT(0))
        object = c.out("cuUserObjectCreate", POINTER(77), function, UINT(1), UINT(1))
        c.call("cuGraphRetainUserObject", U64(graph), U64(object), UINT(1), UINT(1))
        executable = c.out("cuGraphInstantiateWithFlags", U64(graph), U64(0))
        new_life(c)
        print(said)
        works(c)
    """)
    assert out == "[(77, 3)]\n"


def test_a_capture_ends_with_the_life(software: Client) -> None:
    software.check("""
        c = Cuda()
        stream = c.out("cuStreamCreate", UINT(0))
        c.call("cuStreamBeginCapture_v2", U64(stream), INT(0))
        new_life(c)
        works(c)
        stream = c.out("cuStreamCreate", UINT(0))
        c.call("cuStreamSynchronize", U64(stream))
    """)


def test_without_a_life_there_is_nothing_to_end(software: Client) -> None:
    out = software.check("""
        c = Cuda(start=False)
        print(c.library.gkNewLife(), life(c)[1], c.status("cuDeviceGetCount", ctypes.byref(INT())))
        c.call("cuInit", UINT(0))
        works(c)
        new_life(c)
        new_life(c)
        works(c)
    """)
    assert out == "0 0 3\n"


def test_a_child_of_a_fork_has_no_life_to_end_but_between_two_lives_it_begins_one(software: Client) -> None:
    out = software.check("""
        def child(act):
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                act()
                sys.stdout.flush()
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        c = Cuda()
        c.allocate(64)
        child(lambda: print(c.library.gkNewLife(), c.status("cuCtxSynchronize")))
        works(c)
        new_life(c)
        child(lambda: (works(c), print("the child works")))
        works(c)
        print("and so does its parent")
    """)
    assert out.splitlines() == ["3 3", "the child works", "and so does its parent"]


def test_the_next_life_is_begun_at_the_attach_point_by_a_call_that_needs_no_handle(
    software: Client, points
) -> None:
    point = points(attached(software.agent, software))
    out = software.check(
        """
        c = Cuda()
        stream = c.out("cuStreamCreate", UINT(0))
        address = c.allocate(64)
        new_life(c)
        # What gives back does not wait for a slice.
        print(c.status("cuStreamDestroy_v2", U64(stream)), c.status("cuMemFree_v2", U64(address)),
              c.status("cuDevicePrimaryCtxRelease_v2", INT(0)), life(c)[1])
        count = INT()
        c.call("cuDeviceGetCount", ctypes.byref(count))
        print(count.value, life(c)[1])
        works(c)
    """,
        **without_slice(point),
    )
    assert out.splitlines() == ["709 0 0 3", "1 1"]
    assert point.requests == [{"do": "wait"}] * 2


def test_a_thread_that_waits_for_its_slice_does_not_hold_up_the_end_of_a_life(
    software: Client, points
) -> None:
    point = points(waiting(2), attached(software.agent, software))
    point.goes_on.clear()
    program = """
        c = Cuda(start=False)
        def begin():
            c.call("cuInit", UINT(0))
            works(c)
            print("works", flush=True)
        thread = threading.Thread(target=begin)
        thread.start()
        sys.stdin.readline()
        print(c.library.gkNewLife(), life(c), flush=True)
        sys.stdin.readline()
        thread.join()
    """
    with software.start(program, **without_slice(point)) as process:
        shown = ""
        while "waiting for a GPU" not in shown:
            shown += process.stdout.read(1)
        process.stdin.write("end\n")
        process.stdin.flush()
        line = process.stdout.readline()
        while "(1, 0)" not in line:
            line = process.stdout.readline()
        point.goes_on.set()
        out, err = process.communicate("go\n", timeout=60)
        assert process.returncode == 0, err
    assert "works" in out
    assert point.requests == [{"do": "wait"}] * 2  # what it was given first may be another slice's


def test_a_lease_that_has_gone_is_told_with_its_reason_and_what_to_do(software: Client, points) -> None:
    lines = [attached(software.agent, software)]
    point = points(*lines)
    program = """
        c = Cuda()
        address = c.allocate(64)
        print("there", flush=True)
        sys.stdin.readline()
        print([c.status("cuCtxSynchronize") for _ in range(3)], life(c), flush=True)
        new_life(c)
        sys.stdin.readline()
        works(c)
        print("works")
    """
    with software.start(program, **without_slice(point)) as process:
        assert process.stdout.readline() == "there\n"
        point.lines = ({"state": "released", "text": "The slice was taken back: a class begins."},)
        software.agent.worker.send_signal(signal.SIGKILL)
        software.agent.worker.wait()
        process.stdin.write("go\n")
        process.stdin.flush()
        assert process.stdout.readline() == "[46, 46, 46] (0, 2)\n"
        point.lines = tuple(lines)
        out, err = process.communicate("go\n", timeout=60)
    assert out == "works\n", err
    assert err.count("The slice was taken back: a class begins.") == 1, err
    assert os.linesep.join(err.splitlines()).count("gpu-kernels:") == 1, err
