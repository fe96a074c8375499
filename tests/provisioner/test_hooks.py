"""The table of docs/design/jupyter.md, run against the installed jupyter_client.

Which hooks are called, in what order, and whether the kernel has its lease afterwards. When a new release
changes the order, this says so.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest
from jupyter_client.ioloop import AsyncIOLoopKernelManager
from jupyter_client.provisioning.factory import KernelProvisionerFactory

from gpu_kernels.client import Slot
from gpu_kernels.client.keeper import KEEPER
from gpu_kernels.provisioner import GPUSliceProvisioner
from tests.provisioner.conftest import PROCESS
from tests.provisioner.pool import wait_until

START = ["pre_launch", "launch_kernel", "post_launch"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; [signal.signal(number, signal.SIG_IGN) for number in (2, 15)];"
    "print(flush=True); time.sleep(600)",
    "{connection_file}",
]


class Traced(GPUSliceProvisioner):
    """Notes each hook as it is called, with the argument that could tell a restart from a stop."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.trace = []

    def traced(self) -> list[str]:
        calls, self.trace = self.trace, []
        return calls

    async def pre_launch(self, **kwargs):
        self.trace.append("pre_launch")
        return await super().pre_launch(**kwargs)

    async def launch_kernel(self, cmd, **kwargs):
        self.trace.append("launch_kernel")
        return await super().launch_kernel(cmd, **kwargs)

    async def post_launch(self, **kwargs):
        self.trace.append("post_launch")
        await super().post_launch(**kwargs)

    async def send_signal(self, signum):
        self.trace.append(f"send_signal({int(signum)})")
        await super().send_signal(signum)

    async def shutdown_requested(self, restart=False):
        self.trace.append(f"shutdown_requested({restart})")
        await super().shutdown_requested(restart=restart)

    async def terminate(self, restart=False):
        self.trace.append(f"terminate({restart})")
        await super().terminate(restart=restart)

    async def kill(self, restart=False):
        self.trace.append(f"kill({restart})")
        await super().kill(restart=restart)

    async def cleanup(self, restart=False):
        self.trace.append(f"cleanup({restart})")
        await super().cleanup(restart=restart)


@pytest.fixture
def traced(monkeypatch, make_kernel):
    """A kernel manager with a restarter, whose provisioner notes its calls."""

    def instance(self, kernel_id, spec, parent):
        config = spec.metadata["kernel_provisioner"]["config"]
        return Traced(kernel_id=kernel_id, kernel_spec=spec, parent=parent, **config)

    monkeypatch.setattr(KernelProvisionerFactory, "create_provisioner_instance", instance)

    def make(name: str = "small", **config):
        restarter = {"time_to_dead": 0.05, **config}
        return make_kernel(name, cls=AsyncIOLoopKernelManager, KernelRestarter=restarter)

    return make


async def test_start_and_stop(pool, traced):
    kernel = traced()
    await kernel.start_kernel()
    assert kernel.provisioner.traced() == START
    assert len(pool.in_force()) == 1
    await kernel.shutdown_kernel()
    assert kernel.provisioner.traced()[:2] == ["send_signal(2)", "shutdown_requested(False)"]
    assert pool.in_force() == []


async def test_stop_now(pool, traced):
    kernel = traced()
    await kernel.start_kernel()
    kernel.provisioner.traced()
    await kernel.shutdown_kernel(now=True)
    assert kernel.provisioner.traced() == [
        "send_signal(2)",
        "kill(False)",
        "send_signal(9)",
        "cleanup(False)",
    ]
    assert pool.in_force() == []


async def test_an_interrupt_is_a_signal_and_changes_nothing(pool, traced, specs):
    specs("stubborn", argv=STUBBORN)
    kernel = traced("stubborn")
    await kernel.start_kernel()
    (before,) = pool.in_force()
    kernel.provisioner.traced()
    await kernel.interrupt_kernel()
    assert kernel.provisioner.traced() == ["send_signal(2)"]
    assert [lease.id for lease in pool.in_force()] == [before.id]
    await kernel.shutdown_kernel(now=True)


async def test_restart_by_the_user_of_a_kernel_that_ends_when_it_is_asked(pool, traced):
    kernel = traced()
    await kernel.start_kernel()
    (before,) = pool.in_force()
    kernel.provisioner.traced()
    kernel.shutdown_wait_time = 60
    await kernel.restart_kernel()
    calls = kernel.provisioner.traced()
    assert calls == ["send_signal(2)", "shutdown_requested(True)", "cleanup(True)", *START]
    assert [lease.id for lease in pool.in_force()] == [before.id]
    kernel.shutdown_wait_time = 0.2
    await kernel.shutdown_kernel(now=True)


async def test_restart_by_the_user_of_a_kernel_that_does_not_end_by_itself(pool, traced, specs):
    # The row that shows why terminate and kill must not give a lease back: this is a restart, and terminate
    # says that it is not.
    specs("stubborn", argv=STUBBORN)
    kernel = traced("stubborn")
    await kernel.start_kernel(stdout=(pipe := os.pipe())[1])
    os.close(pipe[1])
    os.read(pipe[0], 1)
    os.close(pipe[0])
    kernel.provisioner.traced()
    (before,) = pool.in_force()
    kernel._launch_args.pop("stdout")
    await kernel.restart_kernel()
    assert kernel.provisioner.traced() == [
        "send_signal(2)",
        "shutdown_requested(True)",
        "terminate(False)",
        "send_signal(15)",
        "kill(True)",
        "send_signal(9)",
        "cleanup(True)",
        *START,
    ]
    assert [lease.id for lease in pool.in_force()] == [before.id]
    await kernel.shutdown_kernel(now=True)


async def test_the_process_dies_and_is_restarted(pool, traced):
    kernel = traced()
    await kernel.start_kernel()
    (before,) = pool.in_force()
    kernel.provisioner.traced()
    os.kill(kernel.provisioner.process.pid, signal.SIGKILL)
    await asyncio.to_thread(
        wait_until, lambda: "post_launch" in kernel.provisioner.trace and kernel.ready.done()
    )
    calls = kernel.provisioner.traced()
    assert calls == ["send_signal(2)", "kill(False)", "send_signal(9)", "cleanup(True)", *START]
    assert [lease.id for lease in pool.in_force()] == [before.id]
    await kernel.shutdown_kernel(now=True)
    assert pool.in_force() == []


async def test_a_kernel_given_up_by_the_restarter_is_told_nothing_and_its_lease_is_no_longer_renewed(
    pool, traced, specs, monkeypatch
):
    specs("dies", argv=[sys.executable, "-c", ""])
    kernel = traced("dies", restart_limit=2)
    given_up = asyncio.Event()
    await kernel.start_kernel()
    kernel.add_restart_callback(given_up.set, "dead")
    async with asyncio.timeout(60):
        await given_up.wait()
    calls = kernel.provisioner.traced()
    assert calls.count("pre_launch") == 3
    assert "cleanup(False)" not in calls
    assert KEEPER.keeps() == [lease.id for lease in pool.in_force()]
    monkeypatch.setattr("gpu_kernels.provisioner.leasing.DEAD_GRACE_S", 0.0)
    KEEPER.round()
    assert KEEPER.keeps() == []


async def test_a_launch_that_fails_is_followed_by_no_hook_at_all(pool, traced, specs):
    specs("absent", argv=["/no/such/program"])
    kernel = traced("absent")
    with pytest.raises(FileNotFoundError):
        await kernel.start_kernel()
    assert kernel.provisioner.traced() == ["pre_launch", "launch_kernel"]
    assert pool.in_force() == []


@pytest.fixture
def vanishing(specs, tmp_path):
    """A kernel spec whose program can be taken away."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    specs("vanishing", argv=[str(program)])
    return program


async def test_a_restart_that_fails_gives_the_slice_back_though_nobody_cleans_up(pool, traced, vanishing):
    kernel = traced("vanishing")
    await kernel.start_kernel()
    kernel.provisioner.traced()
    vanishing.unlink()
    with pytest.raises(FileNotFoundError):
        await kernel.restart_kernel(now=True)
    calls = kernel.provisioner.traced()
    assert calls[-3:] == ["cleanup(True)", "pre_launch", "launch_kernel"]
    assert "cleanup(False)" not in calls
    assert pool.in_force() == []
    assert KEEPER.keeps() == []


async def test_an_automatic_restart_that_fails_gives_the_slice_back_though_the_kernel_stays_listed(
    pool, traced, vanishing
):
    kernel = traced("vanishing")
    await kernel.start_kernel()
    kernel.provisioner.traced()
    vanishing.unlink()
    os.kill(kernel.provisioner.process.pid, signal.SIGKILL)
    await asyncio.to_thread(wait_until, lambda: "launch_kernel" in kernel.provisioner.trace)
    await asyncio.to_thread(wait_until, lambda: pool.in_force() == [] and KEEPER.keeps() == [])
    kernel.stop_restarter()
    assert "cleanup(False)" not in kernel.provisioner.traced()


# --- the same for a kernel that has started without its slice, and waits for it


@pytest.fixture
def waiting(pool, traced, specs):
    """A kernel that has started while the GPU is taken, and its request in the line."""
    pool.limit(5000)
    pool.student.ask("1 V100", key="b", slot=Slot("", "b"), holder="blocker")

    async def start(argv=PROCESS, **config):
        specs("lazy", argv=argv, start="lazy", first_wait_s=0)
        kernel = traced("lazy", **config)
        await kernel.start_kernel()
        await asyncio.to_thread(wait_until, lambda: queued(pool))
        assert kernel.provisioner.traced() == START
        return kernel, queued(pool)

    return start


def queued(pool) -> list[str]:
    return [lease.id for lease in pool.leases() if lease.queued]


async def test_a_stop_of_a_kernel_that_waits_takes_its_request_out_of_the_line(pool, waiting):
    kernel, _ = await waiting()
    await kernel.shutdown_kernel()
    assert queued(pool) == []


async def test_a_restart_of_a_kernel_that_waits_keeps_its_place(pool, waiting):
    kernel, before = await waiting()
    await kernel.restart_kernel(now=True)
    assert kernel.provisioner.traced()[-4:] == ["cleanup(True)", *START]
    assert queued(pool) == before
    await kernel.shutdown_kernel(now=True)


async def test_a_kernel_that_dies_while_it_waits_is_restarted_with_its_place(pool, waiting):
    kernel, before = await waiting()
    os.kill(kernel.provisioner.process.pid, signal.SIGKILL)
    await asyncio.to_thread(
        wait_until, lambda: "post_launch" in kernel.provisioner.trace and kernel.ready.done()
    )
    assert queued(pool) == before
    await kernel.shutdown_kernel(now=True)


async def test_a_kernel_given_up_by_the_restarter_while_it_waits_waits_no_longer(pool, waiting, monkeypatch):
    monkeypatch.setattr("gpu_kernels.client.lease_holder.LOOK_UP_S", 0.05)
    kernel, _ = await waiting(restart_limit=0)
    given_up = asyncio.Event()
    kernel.add_restart_callback(given_up.set, "dead")
    os.kill(kernel.provisioner.process.pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        await given_up.wait()
    assert "cleanup(False)" not in kernel.provisioner.traced()
    monkeypatch.setattr("gpu_kernels.provisioner.leasing.DEAD_GRACE_S", 0.0)
    await asyncio.to_thread(wait_until, lambda: not queued(pool))


async def test_two_starts_for_one_notebook_stand_in_the_line_once(pool, traced, specs, monkeypatch):
    monkeypatch.setattr("gpu_kernels.client.lease_holder.LOOK_UP_S", 0.05)
    pool.limit(5000)
    pool.student.ask("1 V100", key="b", slot=Slot("", "b"), holder="blocker")
    specs("lazy", start="lazy", first_wait_s=0)
    first, second = traced("lazy"), traced("lazy")
    session = {**os.environ, "JPY_SESSION_NAME": "/home/ada/first_steps.ipynb"}
    await asyncio.gather(first.start_kernel(env=session), second.start_kernel(env=session))
    await asyncio.to_thread(wait_until, lambda: queued(pool))
    await first.shutdown_kernel(now=True)
    await second.shutdown_kernel(now=True)
    assert queued(pool) == []


async def test_a_change_of_kernel_while_it_waits_leaves_one_request(pool, traced, specs):
    pool.limit(5000)
    pool.student.ask("1 V100", key="b", slot=Slot("", "b"), holder="blocker")
    session = {**os.environ, "JPY_SESSION_NAME": "/home/ada/first_steps.ipynb"}
    specs("lazy", start="lazy", first_wait_s=0)
    specs("larger", "0.1 V100", start="lazy", first_wait_s=0)
    old, new = traced("lazy"), traced("larger")
    await old.start_kernel(env=session)
    await asyncio.to_thread(wait_until, lambda: len(queued(pool)) == 1)
    await new.start_kernel(env=session)
    await asyncio.to_thread(wait_until, lambda: [e.size for e in pool.leases() if e.queued] == ["0.1 V100"])
    await old.shutdown_kernel(now=True)
    assert [lease.size for lease in pool.leases() if lease.queued] == ["0.1 V100"]
    await new.shutdown_kernel(now=True)
    assert queued(pool) == []
