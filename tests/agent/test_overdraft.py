"""Workers are compared with what the driver says that they hold, and their contexts are of their slices."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_kernels.remoting.agent.contexts import smallest_slice_mib, with_contexts
from gpu_kernels.remoting.agent.gpus import MIB, Inventory
from gpu_kernels.remoting.agent.overdraft import LOOKS, Overdrafts, tolerance_mib
from gpu_kernels.remoting.hello import Status
from gpu_kernels.resources.agents import OutsideMemory
from tests.agent.fake_controller import Granted
from tests.agent.lanes import exchange, hello, lane


class NvmlError(Exception):
    pass


class HeldByFiles:
    """NVML as nvidia-ml-py gives it, for GPUs whose processes hold what ``folder``'s files say."""

    NVMLError = NvmlError
    nvmlMemory_v2 = 2

    def __init__(self, folder: Path, hides: bool = False) -> None:
        self._folder, self._hides = folder, hides

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        return uuid

    def nvmlDeviceGetMemoryInfo(self, handle: str, version: int) -> Any:
        held = sum(int(path.read_text()) for path in self._folder.iterdir() if path.name.isdigit())
        return SimpleNamespace(used=held)

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: str) -> list[Any]:
        return []

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        files = [] if self._hides else [path for path in self._folder.iterdir() if path.name.isdigit()]
        return [SimpleNamespace(pid=int(path.name), usedGpuMemory=int(path.read_text())) for path in files]


@pytest.fixture
def inventory(inventory: Inventory) -> Inventory:
    """NVIDIA GPUs, on each of which a context takes 300 MiB."""
    gpus = tuple(dataclasses.replace(gpu, device="nvidia") for gpu in inventory.gpus)
    return with_contexts(dataclasses.replace(inventory, gpus=gpus), [300] * len(gpus))


@pytest.fixture
def settings(settings):
    return dataclasses.replace(settings, report_every_s=0.2)


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "held"
    folder.mkdir()
    monkeypatch.setitem(sys.modules, "pynvml", HeldByFiles(folder))
    return folder


async def refusal(address: str, lease: Granted) -> str:
    """The words with which a lane is refused for want of a worker."""
    status, text = await exchange(address, hello(lease))
    assert status == Status.NO_WORKER
    return text


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def write(folder: Path, pid: int, mib: int) -> None:
    fresh = folder / f".{pid}"
    fresh.write_text(str(mib * MIB))
    fresh.rename(folder / str(pid))


async def test_a_worker_that_holds_more_than_its_slice_is_ended_and_its_user_told(
    controller, agent, held, caplog
):
    lease = await controller.grant("lease-a")
    async with lane(agent.address, lease) as open_lane:
        (worker,) = agent._workers.alive()
        slice_mib = worker.grant.slices[0].mib
        with caplog.at_level(logging.ERROR):
            write(held, worker.pid, slice_mib + tolerance_mib(slice_mib) + 1)
            async with asyncio.timeout(60):
                await open_lane.ended()
                await worker.ended.wait()
    assert "holds" in caplog.text
    assert lease.id in caplog.text
    text = await refusal(agent.address, lease)
    assert f"your slice is {slice_mib} MiB" in text
    assert "Restart the kernel" in text
    async with lane(agent.address, lease):  # told once; the lease goes on
        pass


async def test_a_worker_within_its_slice_goes_on(controller, agent, held):
    lease = await controller.grant("lease-a")
    async with lane(agent.address, lease) as open_lane:
        (worker,) = agent._workers.alive()
        slice_mib = worker.grant.slices[0].mib
        write(held, worker.pid, slice_mib + tolerance_mib(slice_mib))
        write(held, 1, 4096)  # of somebody else
        await until(lambda: OutsideMemory(worker.grant.slices[0].gpu, 4096) in agent._outside)
        assert await open_lane.ask("echo here") == "here"


async def test_where_nvml_shows_no_processes_all_of_the_gpu_is_compared_with_all_slices(
    controller, agent, held, monkeypatch, caplog
):
    monkeypatch.setitem(sys.modules, "pynvml", HeldByFiles(held, hides=True))
    lease = await controller.grant("lease-a")
    with caplog.at_level(logging.WARNING):
        async with lane(agent.address, lease):
            (worker,) = agent._workers.alive()
            write(held, worker.pid, worker.grant.slices[0].mib + 100)
            await until(lambda: OutsideMemory(worker.grant.slices[0].gpu, 100) in agent._outside)
    assert caplog.text.count("NVML does not show what this server's workers hold") == 1


async def test_a_slice_that_a_context_would_fill_is_refused_with_the_smallest_that_works(controller, agent):
    small = await controller.grant("lease-s", mib=300)
    text = await refusal(agent.address, small)
    assert "CUDA takes 300 MiB of each slice there" in text
    assert f"Ask for {smallest_slice_mib(300)} MiB or more." in text


async def test_a_worker_is_told_what_its_context_takes(controller, agent):
    lease = await controller.grant("lease-a")
    async with lane(agent.address, lease) as open_lane:
        argv = open_lane.facts["argv"]
        assert argv[argv.index("--context-mib") + 1] == "300"


def test_one_look_ends_nobody():
    grant: Any = SimpleNamespace(lease_id="L", slices=(SimpleNamespace(gpu="G", mib=1000),))
    overdrafts = Overdrafts()
    much = {"G": {7: 2000 * MIB}}
    for _ in range(LOOKS - 1):
        assert overdrafts.look(much, [(7, grant)]) == []
    assert overdrafts.look({"G": {7: 1000 * MIB}}, [(7, grant)]) == []  # it was for a moment
    assert overdrafts.look(much, [(7, grant)]) == []
    (overdraft,) = overdrafts.look(much, [(7, grant)])
    assert overdraft.pid == 7
    assert overdrafts.ended == 1
