"""What a program sees when something on the way to its GPU breaks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.native_build import Build

from .minimal_agent import MinimalAgent
from .programs import PRELUDE
from .recorded import Client


def run_without_agent(native: Build, program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPU_KERNELS_")}
    root = str(Path(__file__).resolve().parents[2])
    if preload := os.environ.get("GPU_KERNELS_TEST_PRELOAD"):
        kept["LD_PRELOAD"] = preload
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + program],
        env=kept | {"LD_LIBRARY_PATH": str(native.client), "PYTHONPATH": root} | environment,
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_a_process_without_a_lease_has_no_device(native: Build) -> None:
    done = run_without_agent(
        native,
        "c = Cuda(start=False)\n"
        "print(c.status('cuInit', UINT(0)), c.status('cuInit', UINT(0)))\n"
        "n = INT(); print(c.status('cuDeviceGetCount', ctypes.byref(n)))\n",
    )
    assert done.stdout.split() == ["100", "100", "3"]
    assert done.stderr.count("this process holds no GPU") == 1


def test_calls_before_cuinit_say_so(native: Build) -> None:
    done = run_without_agent(
        native,
        "c = Cuda(start=False)\n"
        "p = U64()\n"
        "print(c.status('cuMemAlloc_v2', ctypes.byref(p), SIZE(1)), c.status('cuCtxSynchronize'))\n",
    )
    assert done.stdout.split() == ["3", "3"]


@pytest.mark.parametrize(
    ("variable", "value"),
    [("GPU_KERNELS_AGENT", "carrier pigeon"), ("GPU_KERNELS_SECRET", "zz"), ("GPU_KERNELS_EPOCH", "-1")],
)
def test_a_broken_environment_is_explained(client: Client, variable: str, value: str) -> None:
    done = client.run("print(Cuda(start=False).status('cuInit', UINT(0)))", **{variable: value})
    assert done.stdout.strip() == "100"
    assert "gpu-kernels: no GPU:" in done.stderr
    assert client.agent.secret.hex() not in done.stderr


def test_a_wrong_secret_is_refused(client: Client) -> None:
    done = client.run("print(Cuda(start=False).status('cuInit', UINT(0)))", GPU_KERNELS_SECRET="00" * 32)
    assert done.stdout.strip() == "46"
    assert "the secret is wrong" in done.stderr


def test_no_agent_is_an_error_within_the_time(native: Build, tmp_path: Path) -> None:
    done = run_without_agent(
        native,
        "print(Cuda(start=False).status('cuInit', UINT(0)))",
        GPU_KERNELS_AGENT=f"unix://{tmp_path / 'nobody'}",
        GPU_KERNELS_LEASE="L",
        GPU_KERNELS_EPOCH="1",
        GPU_KERNELS_SECRET="00" * 32,
    )
    assert done.stdout.strip() == "46"
    assert len(done.stderr.splitlines()) == 1


def test_a_killed_worker_fails_every_call_and_is_told_once(client: Client, agent: MinimalAgent) -> None:
    with client.start("""
        c = Cuda()
        address = c.allocate(1000)
        kernel = c.kernel(c.library_of("entry k\\n"), "k")
        print("ready", flush=True)
        sys.stdin.readline()
        host = ctypes.create_string_buffer(1000)
        print(c.status("cuMemcpyDtoH_v2", host, U64(address), SIZE(1000)), c.status("cuCtxSynchronize"))
        results = [c.status("cuMemcpyHtoD_v2", U64(address), host, SIZE(1000)) for _ in range(100)]
        print(set(results))
        name = ctypes.create_string_buffer(64)
        print(c.status("cuDeviceGetName", name, INT(64), INT(0)))
        def other_thread():
            print(c.status("cuCtxSynchronize"))
        thread = threading.Thread(target=other_thread)
        thread.start(); thread.join()
    """) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert agent.worker is not None
        agent.worker.kill()
        agent.worker.wait()
        out, err = process.communicate("go\n", timeout=60)
    assert out.split("\n") == ["46 46", "{46}", "0", "46", ""]
    assert process.returncode == 0
    assert err.count("the connection to the GPU server was lost") == 1
    assert "Restart the kernel" in err


def test_posting_into_a_dead_connection_ends_and_does_not_hang(client: Client, agent: MinimalAgent) -> None:
    with client.start("""
        c = Cuda()
        kernel = c.kernel(c.library_of("entry k\\n"), "k")
        print("ready", flush=True)
        sys.stdin.readline()
        while c.status("cuLaunchKernel", *launch_arguments(kernel, (), 1, 1, 0)) == 0:
            pass
        print("failed")
    """) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert agent.worker is not None
        agent.worker.kill()
        out, _ = process.communicate("go\n", timeout=60)
    assert out == "failed\n"


def test_an_illegal_address_stays_until_the_process_ends(client: Client, agent: MinimalAgent) -> None:
    done = client.run("""
        c = Cuda()
        address = c.allocate(1000)
        c.launch(c.kernel(c.library_of("entry fault\\n"), "fault"))
        print(c.status("cuCtxSynchronize"))
        print(c.status("cuMemcpyDtoH_v2", ctypes.create_string_buffer(10), U64(address), SIZE(10)))
        other = U64()
        print(c.status("cuMemAlloc_v2", ctypes.byref(other), SIZE(10)))
        print(c.status("cuMemFree_v2", U64(address)))
    """)
    assert done.stdout.split() == ["700"] * 4
    assert done.returncode == 0
    assert done.stderr.count("CUDA_ERROR_ILLEGAL_ADDRESS") == 1
    assert "Restart the kernel" in done.stderr
    assert agent.worker is not None
    assert agent.worker.wait(timeout=60) == 0  # it ends with its last session
    assert any("ILLEGAL_ADDRESS" in str(packet.get("fault")) for packet in agent.packets())
    client.check("c = Cuda(); c.free(c.allocate(1000)); c.synchronize()")  # on a new worker


def test_a_new_process_waits_for_the_poisoned_worker_to_end(client: Client) -> None:
    for _ in range(5):
        client.run("""
            c = Cuda()
            c.launch(c.kernel(c.library_of("entry fault\\n"), "fault"))
            assert c.status("cuCtxSynchronize") == ILLEGAL_ADDRESS
            os._exit(0)
        """)
        client.check("Cuda().synchronize()")


def test_a_forked_child_is_told_that_cuda_is_not_initialised(client: Client) -> None:
    client.check("""
        c = Cuda()
        address = c.allocate(1000)
        kernel = c.kernel(c.library_of("entry k\\n"), "k")
        c.launch(kernel)
        child = os.fork()
        if child == 0:
            p = U64()
            results = {
                c.status("cuMemAlloc_v2", ctypes.byref(p), SIZE(1)),
                c.status("cuCtxSynchronize"),
                c.status("cuInit", UINT(0)),
                c.status("cuLaunchKernel", *launch_arguments(kernel, (), 1, 1, 0)),
            }
            os._exit(0 if results == {NOT_INITIALIZED} else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        for _ in range(100):
            c.launch(kernel)
        c.copy_in(address, b"still here")
        assert c.copy_out(address, 10) == b"still here"
    """)


def test_a_forked_child_that_lives_on_does_not_keep_the_slice(client: Client, agent: MinimalAgent) -> None:
    with client.start("""
        c = Cuda()
        c.allocate(60 << 20)
        child = os.fork()
        if child == 0:
            print(os.getpid(), flush=True)
            import time
            time.sleep(60)
        os._exit(0)
    """) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        client.check("""
            import time
            c = Cuda()
            address = U64()
            while c.status("cuMemAlloc_v2", ctypes.byref(address), SIZE(60 << 20)):
                time.sleep(0.01)
        """)
        os.kill(child, signal.SIGKILL)


def test_calls_while_the_process_exits_are_safe(client: Client) -> None:
    done = client.run("""
        import atexit
        c = Cuda()
        kernel = c.kernel(c.library_of("entry k\\n"), "k")
        def late():
            c.launch(kernel)
            c.synchronize()
        atexit.register(late)
        # And when Python itself is gone.
        ctypes.CDLL(None).__cxa_atexit(c.library.cuCtxSynchronize, None, None)
        threading.Thread(target=lambda: (c.use_context(), [c.launch(kernel) for _ in range(100)])).start()
    """)
    assert done.returncode == 0, done.stderr


def test_a_killed_program_gives_its_memory_back(client: Client) -> None:
    with client.start("""
        Cuda().allocate(60 << 20)
        print("ready", flush=True)
        sys.stdin.read()
    """) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.kill()
    client.check("""
        import time
        c = Cuda()
        address = U64()
        while c.status("cuMemAlloc_v2", ctypes.byref(address), SIZE(60 << 20)):
            time.sleep(0.01)
    """)


def test_a_kernel_that_cannot_be_stopped_ends_with_the_worker_when_its_program_is_killed(
    client: Client, agent: MinimalAgent
) -> None:
    """A notebook's restart: nothing of the lease is in use then, and the next program must not wait."""
    with client.start("""
        c = Cuda()
        c.launch(c.kernel(c.library_of("entry gate\\n"), "gate"))
        print("waits", flush=True)
        c.synchronize()
    """) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        process.kill()
    assert agent.worker is not None
    assert agent.worker.wait(60) == 0
    client.check("c = Cuda(); c.free(c.allocate(1000)); c.synchronize()")


def test_a_killed_program_with_such_a_kernel_does_not_take_others_with_it(client: Client, gate: Path) -> None:
    with client.start("""
        c = Cuda()
        address = c.allocate(1000)
        c.copy_in(address, b"still here")
        print("ready", flush=True)
        sys.stdin.readline()
        print(c.copy_out(address, 10), flush=True)
    """) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        with client.start("""
            c = Cuda()
            c.launch(c.kernel(c.library_of("entry gate\\n"), "gate"))
            print("waits", flush=True)
            c.synchronize()
        """) as killed:
            assert killed.stdout is not None
            assert killed.stdout.readline() == "waits\n"
            killed.kill()
        # A third comes and goes meanwhile: the worker has looked about since.
        client.check("import time; c = Cuda(); c.free(c.allocate(1000)); time.sleep(2)")
        gate.touch()
        assert other.communicate("\n", timeout=60)[0] == "b'still here'\n"


def test_a_worker_without_a_driver_says_why(agent: MinimalAgent, tmp_path: Path, native: Build) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    with MinimalAgent(folder, native.worker, tmp_path / "no-such-driver.so") as broken:
        assert broken.worker is not None
        assert broken.worker.wait(timeout=60) == 1
        assert "cannot serve the lease" in str(broken.packets()[0]["fault"])
