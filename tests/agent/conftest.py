from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_kernels.client import AsyncPoolClient
from gpu_kernels.remoting.agent.gpus import Inventory, software_gpus
from gpu_kernels.remoting.agent.server import Agent
from gpu_kernels.remoting.agent.settings import Limits, Settings, WorkerSettings
from gpu_kernels.remoting.paths import native_build
from tests.agent.fake_controller import FakeController

LOG = logging.getLogger("tests.agent")


@pytest.fixture
async def controller() -> AsyncIterator[FakeController]:
    async with FakeController() as fake:
        yield fake


@pytest.fixture
def echo_worker(tmp_path: Path) -> Path:
    """The program that stands where gpu-worker would."""
    script = tmp_path / "echo-worker"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -I {Path(__file__).parent}/echo_worker.py "$@"\n')
    script.chmod(0o755)
    return script


@pytest.fixture
def settings(tmp_path: Path, echo_worker: Path) -> Settings:
    return Settings(
        name="gpu-server-1",
        state=tmp_path / "agent",
        listen=("tcp://127.0.0.1:0",),
        advertised=None,
        workers=WorkerSettings(native=native_build(), program=echo_worker, nvidia_driver="libcuda.so.1"),
        limits=Limits(hello_bytes_within_s=60.0, lookup_s=60.0),
        report_every_s=5.0,
    )


@pytest.fixture
def inventory() -> Inventory:
    return software_gpus("gpu-server-1", "V100", 32768, 2, "0.1.0")


class Ahead:
    """How far a test has set the agent's clock forward."""

    def __init__(self) -> None:
        self.by = 0.0

    def let_pass(self, seconds: float) -> None:
        self.by += seconds


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> Ahead:
    """Sets the clock of agents in this process forward: long times pass at once, and a machine that stands
    still for seconds ends none of them."""
    made = Ahead()
    moved = SimpleNamespace(
        CLOCK_BOOTTIME=time.CLOCK_BOOTTIME, clock_gettime=lambda which: time.clock_gettime(which) + made.by
    )
    monkeypatch.setattr("gpu_kernels.remoting.agent.clock.time", moved)
    return made


Serve = Callable[..., contextlib.AbstractAsyncContextManager[Agent]]


@pytest.fixture
def serve(controller: FakeController, settings: Settings, inventory: Inventory) -> Serve:
    """Runs an agent of the fake controller in this process, and checks that it leaves no worker behind."""

    @contextlib.asynccontextmanager
    async def run(
        with_settings: Settings = settings, pool: Any = None, gpus: Inventory = inventory
    ) -> AsyncIterator[Agent]:
        client = AsyncPoolClient(controller.url, "token", timeout=60.0) if pool is None else pool
        agent = Agent(with_settings, gpus, client, LOG)
        running = asyncio.ensure_future(agent.run())
        try:
            yield agent
        finally:
            pids = [worker.pid for worker in agent._workers.alive()]
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
            await client.aclose()
            assert not [pid for pid in pids if is_alive(pid)], "a worker outlived its agent"

    return run


@pytest.fixture
async def agent(serve: Serve) -> AsyncIterator[Agent]:
    async with serve() as running:
        yield running


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that ended and was not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


async def gone(pid: int, within: float = 60.0) -> None:
    """Wait until a process that may not be our child has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        async with asyncio.timeout(within):
            await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


@contextlib.asynccontextmanager
async def agent_process(
    controller: FakeController, state: Path, *more: str, own_accounts: bool = False
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The agent as a process of its own, by its command line; killed at the end. ``own_accounts``: workers
    get them, if this is root; what stands in for a worker is mostly where no other account may read it."""
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "gpu_kernels.remoting.agent",
            "--name",
            "gpu-server-1",
            "--controller",
            controller.url,
        ),
        *("--state-dir", str(state), "--device", "software", "--software-memory-mib", "1000", *more),
        f"--AgentApp.workers_as_root={not own_accounts}",
        env={**os.environ, "GPU_KERNELS_TOKEN": "token"},
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
