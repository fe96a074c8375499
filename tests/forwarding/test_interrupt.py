"""The interrupt button while a kernel never ends: what runs stops, what is stored stays."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.native_build import Build, build

from .interrupts import pressing
from .minimal_agent import MinimalAgent
from .recorded import Client

# The program's handler only counts: what is tested is that the call that waits comes back at all.
PRELUDE = """
import signal
heard = []
signal.signal(signal.SIGINT, lambda *_: heard.append(1))
from tests.forwarding.device_text import ALL
c = Cuda()
def say(*words):
    print(*words, flush=True)
def back(*words):
    say("back", *words)
    sys.stdin.readline()  # until nobody presses any more
"""
TIMEOUT, UNAVAILABLE, NOT_READY = 702, 46, 600


@pytest.fixture
def software(tmp_path: Path, native: Build) -> Iterator[Client]:
    build(native.folder, "softgpu")
    driver = native.folder / "softgpu" / "libcuda.so.1"
    environment = {"GPU_KERNELS_SOFTGPU_MEMORY_MIB": "64"}
    with MinimalAgent(tmp_path, native.worker, driver, environment=environment) as agent:
        yield Client(agent, native)


def run_and_interrupt(client: Client, program: str) -> tuple[str, str]:
    """Interrupts between each "waiting" and "back" that the program prints; its output and errors."""
    with client.start(PRELUDE + program) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        printed = []
        while line := process.stdout.readline():
            printed.append(line)
            if line == "waiting\n":
                with pressing(process):
                    printed.append(process.stdout.readline())
                if printed[-1]:
                    process.stdin.write("on\n")
                    process.stdin.flush()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return "".join(printed), errors


def test_an_interrupt_ends_what_runs_and_keeps_what_is_stored(software: Client) -> None:
    printed, _ = run_and_interrupt(
        software,
        """
memory = c.allocate(8)
c.copy_in(memory, b"kept....")
library = c.library_of(ALL)
c.launch(c.kernel(library, "spin"))
say("waiting")
status = c.status("cuCtxSynchronize")
back(status, len(heard) > 0)
say(c.copy_out(memory, 8))
c.launch(c.kernel(library, "print"), [UINT(7)])
say("and on", c.status("cuCtxSynchronize"))
""",
    )
    assert printed == f"waiting\nback {TIMEOUT} True\nb'kept....'\n0 0 7\nand on 0\n"


def test_a_copy_that_waits_behind_an_endless_kernel_is_interrupted_too(software: Client) -> None:
    printed, _ = run_and_interrupt(
        software,
        """
memory = c.allocate(16 << 20)
c.launch(c.kernel(c.library_of(ALL), "spin"))
say("waiting")
status = c.status("cuMemcpyHtoD_v2", U64(memory), bytes(16 << 20), SIZE(16 << 20))
status = status or c.status("cuCtxSynchronize")
back(status)
c.status("cuCtxSynchronize")  # a second interrupt may have met what came behind the kernel
say("and on", c.status("cuCtxSynchronize"))
""",
    )
    assert printed == f"waiting\nback {TIMEOUT}\nand on 0\n"


def test_a_session_that_is_killed_leaves_no_endless_kernel_behind(software: Client) -> None:
    program = """
c.launch(c.kernel(c.library_of(ALL), "spin"))
c.status("cuStreamQuery", U64(0))
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = software.run(PRELUDE + program)
    assert killed.returncode == -signal.SIGKILL
    # Both sessions' kernels are on the same default stream of the lease's context.
    software.check("c = Cuda()\nc.copy_in(c.allocate(4), b'next')\nc.synchronize()\n")


@pytest.mark.parametrize("flags", [0, 1])
def test_a_wait_does_not_wait_for_other_sessions_of_the_lease(software: Client, flags: int) -> None:
    """Whose kernel never ends, in a stream of either kind; one's own work is waited for."""
    of_session = """
from tests.forwarding.device_text import ALL
c, stream = Cuda(), U64()
assert c.status("cuStreamCreate", ctypes.byref(stream), UINT(FLAGS)) == SUCCESS
""".replace("FLAGS", str(flags))
    endless = """
c.launch(c.kernel(c.library_of(ALL), "spin"), stream=stream.value)
c.status("cuStreamQuery", stream)
print("spins", flush=True)
sys.stdin.readline()
"""
    waits = """
def waits():
    of_stream = [c.status("cuStreamSynchronize", U64(0)), c.status("cuStreamQuery", U64(0))]
    return [c.status("cuCtxSynchronize"), *of_stream]
print(waits())
c.launch(c.kernel(c.library_of(ALL), "print"), [UINT(5)], stream=stream.value)
print(waits(), c.status("cuStreamQuery", stream))
flag, writer = U64(c.allocate(4)), U64(c.out("cuStreamCreate", UINT(1)))
c.call("cuStreamWaitValue32_v2", stream, flag, UINT(1), UINT(0))
print(c.status("cuStreamQuery", U64(0)), c.status("cuStreamQuery", stream))
threading.Timer(0.2, c.call, ("cuStreamWriteValue32_v2", writer, flag, UINT(1), UINT(0))).start()
print(waits(), c.status("cuStreamQuery", stream))
"""
    with software.start(of_session + endless) as other:
        assert other.stdout
        assert other.stdout.readline() == "spins\n"
        out = software.check(of_session + waits)
        other.kill()
    held = f"{0 if flags else NOT_READY} {NOT_READY}"
    assert out == f"[0, 0, 0]\n0 0 5\n[0, 0, 0] 0\n{held}\n[0, 0, 0] 0\n"


@pytest.mark.parametrize("wait", ['"cuCtxSynchronize"', '"cuStreamSynchronize", U64(0)'])
def test_an_interrupt_of_a_wait_ends_ones_own_kernel_alone(software: Client, wait: str) -> None:
    spins = """
c, stream = Cuda(), U64()
c.call("cuStreamCreate", ctypes.byref(stream), UINT(FLAGS))
from tests.forwarding.device_text import ALL
c.launch(c.kernel(c.library_of(ALL), "spin"), stream=stream.value)
query = lambda stream: c.status("cuStreamQuery", stream)
print("spins", query(stream), flush=True)
"""
    of_other = "sys.stdin.readline()\nprint(query(stream), flush=True)\nsys.stdin.readline()\n"
    with software.start(spins.replace("FLAGS", "1") + of_other) as other:
        assert other.stdout
        assert other.stdin
        assert other.stdout.readline() == f"spins {NOT_READY}\n"
        printed, _ = run_and_interrupt(
            software,
            f"""{spins.replace("FLAGS", "0")}
say(query(U64(0)))
say("waiting")
back(c.status({wait}))
c.status("cuCtxSynchronize")  # a press that came as it ended
say(query(stream), query(U64(0)))
""",
        )
        other.stdin.write("\n")
        other.stdin.flush()
        assert other.stdout.readline() == f"{NOT_READY}\n"
        other.kill()
    assert printed == f"spins {NOT_READY}\n{NOT_READY}\nwaiting\nback {TIMEOUT}\n0 0\n"


def test_where_kernels_cannot_be_stopped_alone_a_second_interrupt_ends_the_worker(client: Client) -> None:
    printed, errors = run_and_interrupt(
        client,
        """
c.launch(c.kernel(c.library_of("entry gate\\n"), "gate"))
say("waiting")
back(c.status("cuCtxSynchronize"))
say("later", c.status("cuCtxSynchronize"))
""",
    )
    assert printed == f"waiting\nback {UNAVAILABLE}\nlater {UNAVAILABLE}\n"
    told = [line for line in errors.splitlines() if line.startswith("gpu-kernels:")]
    assert "Interrupt once more to end the GPU's worker" in told[0]
    assert "its worker was ended by your interrupt" in told[1]
    assert len(told) == 2
    # The lease is as it was: the next program has a new worker.
    client.check("c = Cuda()\nc.allocate(4)\n")


def test_a_handler_that_another_thread_puts_in_front_meanwhile_is_called_once(software: Client) -> None:
    """As profilers and debuggers do. It then calls ours, which stands in front of it at the next wait."""
    build(software.native.folder, "chaining_handler")
    chain = software.native.folder / "tests_forwarding" / "chaining_handler.so"
    printed, _ = run_and_interrupt(
        software,
        f"""
import time
chain = ctypes.CDLL({str(chain)!r})
chain.present.restype = ctypes.c_void_p
pythons = chain.present()
spin = c.kernel(c.library_of(ALL), "spin")
def once_the_wait_is_long(then):
    while chain.present() == front:
        time.sleep(0.01)
    then()
    say("waiting")
def round(then=lambda: None):
    global front
    front = chain.present()
    c.launch(spin)
    watcher = threading.Thread(target=once_the_wait_is_long, args=(then,))
    watcher.start()
    back(c.status("cuCtxSynchronize"), len(heard) > 0)
    watcher.join()
    heard.clear()
    c.status("cuCtxSynchronize")  # a press that came as it ended
round(chain.put_in_front)
say(chain.present() != pythons, chain.called() > 0)
round()
round()
chain.take_away()
c.launch(spin)
say("waiting")
back(c.status("cuCtxSynchronize"), len(heard) > 0)
say(chain.present() == pythons)
""",
    )
    ended = f"waiting\nback {TIMEOUT} True\n"
    assert printed == f"{ended}True True\n{ended}{ended}{ended}True\n"


@pytest.mark.parametrize("choice", ["SIG_IGN", "SIG_DFL"])
def test_a_program_that_handles_no_interrupt_is_left_as_it_is(software: Client, choice: str) -> None:
    """Ignored, it reaches nobody; by default, it ends the program and with it its kernels."""
    ends_itself = "threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()"
    program = f"""
import signal, threading
signal.signal(signal.SIGINT, signal.{choice})
from tests.forwarding.device_text import ALL
c = Cuda()
c.launch(c.kernel(c.library_of(ALL), "spin"))
print("waiting", flush=True)
{ends_itself if choice == "SIG_IGN" else ""}
c.synchronize()
"""
    with software.start(program) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        expected = signal.SIGTERM if choice == "SIG_IGN" else signal.SIGINT
        assert process.wait(60) == -expected
