"""Without its controller, or stopped itself, an agent's server runs nothing past the promised time.

With the real worker on the software GPU: what ends it by itself is part of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import signal
import socket
import struct
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gpu_kernels.remoting.agent.clock import clock
from gpu_kernels.remoting.agent.floors import FloorsFile
from gpu_kernels.remoting.agent.gpus import Inventory, software_gpus
from gpu_kernels.remoting.agent.listeners import CannotListen
from gpu_kernels.remoting.agent.marks import Marks, claim_gpus
from gpu_kernels.remoting.agent.outside import Memory, gpu_memory
from gpu_kernels.remoting.paths import native_build
from tests.agent.conftest import LOG, agent_process, gone, is_alive
from tests.agent.lanes import connect, exchange, hello, lane

ENDED = 6
FENCE = 60.0
SOON = 6.0
"""A fence whose time a test waits for. A machine that stands still for seconds must not end it before."""


@pytest.fixture
def fencing(settings):
    """An agent with real workers, which fences itself."""
    workers = dataclasses.replace(settings.workers, program=native_build().worker)
    return dataclasses.replace(settings, workers=workers, fences_after_s=FENCE, report_every_s=0.3)


@contextlib.asynccontextmanager
async def open_lane(address: str, lease) -> AsyncIterator[asyncio.StreamReader]:
    reader, writer = await connect(address)
    try:
        writer.write(hello(lease))
        assert await reader.readexactly(8) == bytes(8)
        await reader.readexactly(1)  # the worker's own word: the connection is its alone now
        yield reader
    finally:
        writer.close()


async def test_an_agent_without_its_controller_serves_nothing_after_the_promised_time(
    controller, serve, fencing, ahead
):
    async with serve(fencing) as agent:
        lease = await controller.grant("lease-a", ttl=600.0)
        async with open_lane(agent.address, lease):
            (worker,) = agent._workers.alive()
            for _ in range(3):
                ahead.let_pass(FENCE * 0.4)
                await controller.next_reports(2)
            assert is_alive(worker.pid), "reports that are acknowledged keep it alive"
            await controller.go_away()
            ahead.let_pass(FENCE / 2)
            assert agent._grants.trusted_until > clock()
            ahead.let_pass(FENCE / 2)
            await gone(worker.pid)
            status, text = await exchange(agent.address, hello(lease))
            assert (status, "lost touch" in text) == (ENDED, True)
        await controller.come_back()
        await controller.next_reports(2)
        async with open_lane(agent.address, lease):
            assert agent._workers.alive()[0].pid != worker.pid
    assert controller.registrations[0]["fences_after"] == FENCE


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


async def test_a_worker_ends_by_itself_when_its_agent_stands_still_and_its_epoch_is_refused(
    controller, tmp_path
):
    quick = ("--fences-after", str(SOON), "--report-every", "0.3")
    async with agent_process(controller, tmp_path / "state", *quick) as process:
        lease = await controller.grant("lease-a", ttl=600.0)
        await controller.carried_out()
        address = controller.registrations[0]["address"]
        async with open_lane(address, lease) as reader:
            (worker,) = children(process.pid)
            # Once a session is counted the worker has the connection, and the agent has it no more.
            await controller.report_where(lambda report: [row["sessions"] for row in report["leases"]] == [1])
            process.send_signal(signal.SIGSTOP)
            await reader.read()  # the end of the connection: nobody but the worker itself can have ended it
            await gone(worker)
            await controller.end("lease-a")
            await controller.grant("lease-a", epoch=2, ttl=600.0)
            process.send_signal(signal.SIGCONT)
            await controller.carried_out()
            assert (await exchange(address, hello(lease)))[0] != 0
            report = await controller.report_where(
                lambda report: report["target_seq"] == controller.target_seq and report["leases"] == []
            )
            assert report["epoch"] in (1, 2)


def test_a_worker_lives_as_long_as_it_was_last_told():
    """Told a later time it goes on; told nothing more it ends, whoever holds its control socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    build = native_build()
    with theirs:
        worker = subprocess.Popen(
            [
                *(str(build.worker), "--control-fd", str(theirs.fileno())),
                *("--driver", str(build.softgpu_driver), "--memory-mib", "16", "--thousandths", "20"),
                *("--name", "Test GPU", "--uuid", "GPU-00112233-4455-6677-8899-aabbccddeeff"),
                *("--live-until", str(int(clock() * 1000) + 60_000)),
            ],
            pass_fds=[theirs.fileno()],
            stderr=subprocess.DEVNULL,
        )
    with ours:
        try:
            ours.recv(4096)  # it is ready
            until = clock() + 0.4
            for end in (clock() + 100.0, until):
                ours.send(struct.pack("<8sQ", b"GPUKLIVE", int(end * 1000)))
            assert worker.wait(60) == 3
            assert clock() >= until - 0.001
            assert "ends by itself" in json.loads(ours.recv(4096))["fault"]
        finally:
            worker.kill()
            worker.wait()


async def test_the_highest_epoch_is_on_disk_before_a_worker_runs_and_survives_kill_9(
    controller, echo_worker, tmp_path
):
    more = (f"--AgentApp.worker={echo_worker}",)
    async with agent_process(controller, tmp_path / "state", *more) as process:
        lease = await controller.grant("lease-a", epoch=41)
        await controller.carried_out()
        async with lane(controller.registrations[0]["address"], lease):
            assert FloorsFile(tmp_path / "state").load() == ({"lease-a": 41}, 41)
            process.kill()
    await controller.end("lease-a")
    async with agent_process(controller, tmp_path / "state", *more):
        # What the killed one had sent may have come in after it.
        await controller.until(lambda: len(controller.registrations) == 2)
        boot = controller.registrations[1]["boot_id"]
        first = await controller.report_where(lambda report: report["boot_id"] == boot)
        assert (first["epoch"], first["target_seq"], first["full"]) == (41, 0, True)
        await controller.report_where(
            lambda report: (report["boot_id"], report["incarnation"]) == (boot, "ledger-1")
        )


async def test_an_agent_counts_anew_when_its_controller_has_another_ledger(controller, agent):
    await controller.grant("lease-a")
    await controller.grant("lease-b")
    await controller.carried_out()
    controller.incarnation, controller.target_seq = "ledger-restored", 0
    await controller.grant("lease-c", epoch=9)
    await controller.report_where(
        lambda report: (report["incarnation"], report["target_seq"]) == ("ledger-restored", 1)
    )
    assert agent._grants.incarnation == "ledger-restored"


async def test_a_change_that_was_lost_is_made_up_at_once(controller, agent):
    await controller.grant("lease-a")
    await controller.carried_out()
    lease = await controller.grant("lease-b", quietly=True)  # as if the agent had been told of it
    await controller.grant("lease-c")
    await controller.report_where(lambda report: report["full"] and report["target_seq"] > 1)
    await controller.next_reports()
    async with lane(agent.address, lease) as served:
        assert await served.ask("echo here") == "here"


async def test_a_second_agent_waits_until_nothing_of_the_first_one_lives(tmp_path):
    marks = Marks(tmp_path)
    with marks.another() as mark:
        survivor = await asyncio.create_subprocess_exec("sleep", "600", pass_fds=[mark])
    waiting = asyncio.ensure_future(marks.none_left(LOG))
    try:
        await asyncio.sleep(0.2)
        assert not waiting.done()
        survivor.kill()
        async with asyncio.timeout(60):
            await waiting
        await marks.none_left(LOG)
    finally:
        with contextlib.suppress(ProcessLookupError):
            survivor.kill()
        await survivor.wait()
        waiting.cancel()


def test_a_software_gpu_has_no_memory_in_use_outside_leases():
    assert gpu_memory(software_gpus("a", "V100", 1000, 2, "1")) == Memory()


def test_a_gpu_is_served_by_one_agent_of_the_machine():
    gpu = dataclasses.replace(software_gpus("a", "V100", 1000, 1, "1").gpus[0], device="nvidia")
    inventory = Inventory((gpu,), "580.10", 13000)
    (claim,) = claim_gpus(inventory)
    with pytest.raises(CannotListen, match="another agent on this machine serves GPU"):
        claim_gpus(inventory)
    claim.close()
    for claim in claim_gpus(inventory):
        claim.close()
