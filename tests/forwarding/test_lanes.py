"""Threads of a program: each has its lane, and what one did before another began comes first on the GPU."""

from __future__ import annotations

from collections.abc import Callable

from .minimal_agent import MinimalAgent
from .recorded import Client

Recorded = Callable[[str], list[list[str]]]


def test_calls_that_follow_each_other_over_threads_stay_in_order(client: Client, recorded: Recorded) -> None:
    client.check("""
        c = Cuda()
        kernel = c.kernel(c.library_of("entry k 4\\n"), "k")
        turns = [threading.Semaphore(n == 0) for n in range(4)]
        def play(me):
            c.use_context()
            for round in range(50):
                turns[me].acquire()
                c.launch(kernel, [UINT(4 * round + me)])
                turns[(me + 1) % 4].release()
        threads = [threading.Thread(target=play, args=(n,)) for n in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        c.synchronize()
    """)
    numbers = [int.from_bytes(bytes.fromhex(words[4]), "little") for words in recorded("launch")]
    assert numbers == list(range(200))


def test_what_a_thread_posted_is_done_before_another_asks(client: Client) -> None:
    client.check("""
        c = Cuda()
        address = c.allocate(8)
        store = c.kernel(c.library_of("entry store 8 4\\n"), "store")
        ready, taken = threading.Semaphore(0), threading.Semaphore(0)
        def write():
            c.use_context()
            for n in range(100):
                c.launch(store, [U64(address), UINT(n)])
                ready.release()
                taken.acquire()
        writer = threading.Thread(target=write)
        writer.start()
        for n in range(100):
            ready.acquire()
            assert int.from_bytes(c.copy_out(address, 4), "little") == n
            taken.release()
        writer.join()
    """)


def test_a_long_synchronize_does_not_hold_up_another_thread(client: Client) -> None:
    client.check(
        """
        c = Cuda()
        library = c.library_of("entry gate\\nentry other\\n")
        c.launch(c.kernel(library, "gate"))
        waits = threading.Thread(target=lambda: (c.use_context(), c.synchronize()))
        waits.start()
        # The other thread waits on the worker; this one still posts and asks.
        c.launch(c.kernel(library, "other"))
        for _ in range(20):
            c.free(c.allocate(1000))
        assert c.status("cuStreamQuery", U64(0)) == NOT_READY
        assert waits.is_alive()
        open(os.environ["GATE"], "w").close()
        waits.join()
        c.synchronize()
    """,
        GATE=str(client.agent.environment["RECORDING_DRIVER_GATE"]),
    )


def test_posted_calls_are_sent_though_nobody_asks(client: Client, agent: MinimalAgent) -> None:
    with client.start("""
        c = Cuda()
        kernel = c.kernel(c.library_of("entry k\\n"), "k")
        for _ in range(10):
            c.launch(kernel)
        print("launched", flush=True)
        sys.stdin.read()
    """) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "launched\n"
        launches = 0
        while launches != 10:  # the worker reports at least once a second while numbers change
            launches = max([launches, *(int(str(p["launches"])) for p in agent.packets() if "launches" in p)])
        process.communicate("")


def test_threads_that_come_and_go_share_few_connections(client: Client, agent: MinimalAgent) -> None:
    client.check("""
        c = Cuda()
        before = len(os.listdir("/proc/self/fd"))
        def once():
            c.use_context()
            c.free(c.allocate(100))
        for _ in range(50):
            thread = threading.Thread(target=once)
            thread.start(); thread.join()
        assert len(os.listdir("/proc/self/fd")) <= before + 2
    """)


def test_many_threads_at_once(client: Client) -> None:
    client.check("""
        c = Cuda()
        kernel = c.kernel(c.library_of("entry k 4\\n"), "k")
        failures = []
        def work(me):
            try:
                c.use_context()
                stream = c.out("cuStreamCreate", UINT(1))
                for n in range(30):
                    data = bytes([me]) * 5000
                    address = c.allocate(5000)
                    c.copy_in(address, data)
                    c.launch(kernel, [UINT(n)], stream=stream)
                    assert c.copy_out(address, 5000) == data
                    c.free(address)
                c.call("cuStreamSynchronize", U64(stream))
                c.call("cuStreamDestroy_v2", U64(stream))
            except BaseException as error:
                failures.append(error)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(24)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert not failures, failures
    """)


def test_two_processes_share_the_slice_and_nothing_else(client: Client) -> None:
    with client.start("""
        c = Cuda()
        address = c.allocate(40 << 20)
        c.copy_in(address, b"mine")
        print(address, flush=True)
        sys.stdin.read()
    """) as holder:
        assert holder.stdout is not None
        address = int(holder.stdout.readline())
        client.check(f"""
            c = Cuda()
            other = U64()
            assert c.status("cuMemAlloc_v2", ctypes.byref(other), SIZE(40 << 20)) == OUT_OF_MEMORY
            assert c.status("cuMemFree_v2", U64({address})) == INVALID_VALUE
        """)
        holder.communicate("")
    client.check("Cuda().allocate(60 << 20)")  # what the other process had was given back
