"""Workers are real processes here: started clean, killed whole, replaced when they die."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from gpu_kernels.remoting.agent.accounts import named_account
from gpu_kernels.remoting.agent.confine import limit_numbers
from gpu_kernels.remoting.agent.worker import MAX_PACKET
from tests.agent.conftest import gone, is_alive
from tests.agent.lanes import exchange, hello, lane, slices

NO_WORKER = 7


@pytest.fixture
async def lease(controller, agent):
    return await controller.grant("lease-a")


async def test_a_worker_is_told_what_the_design_says_and_no_secret(agent, lease, inventory):
    async with lane(agent.address, lease) as open_lane:
        argv, uuid = open_lane.facts["argv"], inventory.gpus[0].uuid
        control_fd = argv[2]
        assert argv[1:] == [
            *("--control-fd", control_fd),
            *("--mark-fd", argv[4]),
            *("--seccomp", "required"),
            *("--driver", str(agent._settings.workers.native.softgpu_driver)),
            *("--memory-mib", "655"),
            *("--context-mib", "0"),
            *("--thousandths", "20"),
            *("--name", "V100 (software GPU)"),
            *("--uuid", uuid),
            *("--live-until", argv[argv.index("--live-until") + 1]),
            *("--host-memory-mib", str(agent._workers.own_memory.usual_mib(20))),
            *("--slice-file-fd", argv[-1]),
        ]
        assert int(argv[-1]) in open_lane.facts["descriptors"]
        assert lease.secret.hex() not in str(open_lane.facts)


async def test_a_worker_inherits_nothing_but_what_is_named(
    controller, serve, settings, inventory, monkeypatch
):
    monkeypatch.setenv("GPU_KERNELS_TOKEN", "the agent's own")
    monkeypatch.setenv("A_MARK", "kept")
    kept = dataclasses.replace(settings.workers, kept_variables=("A_MARK",), software_threads=2)
    async with serve(dataclasses.replace(settings, workers=kept)) as agent:
        lease = await controller.grant("lease-a")
        async with lane(agent.address, lease) as open_lane:
            environment = open_lane.facts["env"]
            assert environment["A_MARK"] == "kept"
            assert environment["GPU_KERNELS_SOFTGPU_MEMORY_MIB"] == "655"
            assert environment["GPU_KERNELS_SOFTGPU_UUID"] == inventory.gpus[0].uuid
            assert environment["GPU_KERNELS_SOFTGPU_THREADS"] == "2"
            assert environment["GPU_KERNELS_SOFTGPU_NAME"] == "V100 (software GPU)"
            assert not {"GPU_KERNELS_TOKEN", "GPU_KERNELS_CONTROLLER", "USER"} & set(environment)
            control_fd = int(open_lane.facts["argv"][2])
            # Standard streams, the control socket, the mark that it lives, its slice file, this lane, and the
            # listing of this very folder.
            assert len(open_lane.facts["descriptors"]) == 8
            assert control_fd in open_lane.facts["descriptors"]


async def test_a_worker_is_a_session_of_its_own_and_gains_no_rights(agent, lease):
    async with lane(agent.address, lease) as open_lane:
        facts = open_lane.facts
        assert facts["session"] == facts["pid"] != os.getsid(0)
        assert facts["no_new_privs"]


async def test_the_end_of_a_lease_kills_its_worker_and_the_workers_children(controller, agent, lease):
    other = await controller.grant("lease-b")
    async with lane(agent.address, lease) as open_lane, lane(agent.address, other) as going_on:
        child = int(await open_lane.ask("child"))
        await controller.end("lease-a")
        await open_lane.ended()
        await controller.carried_out()
        await controller.report_where(
            lambda report: (
                report["target_seq"] == controller.target_seq
                and [entry["id"] for entry in report["leases"]] == ["lease-b"]
            )
        )
        assert not is_alive(open_lane.facts["pid"])
        await gone(child)
        assert await going_on.ask("echo unharmed") == "unharmed"


async def test_a_killed_worker_is_replaced_at_the_next_connection(agent, lease):
    async with lane(agent.address, lease) as first:
        child = int(await first.ask("child"))
        os.kill(first.facts["pid"], signal.SIGKILL)
        await first.ended()
    async with lane(agent.address, lease) as second:
        assert second.facts["pid"] != first.facts["pid"]
        assert await second.ask("echo again") == "again"
        assert not is_alive(first.facts["pid"])
    await gone(child)


async def test_a_worker_that_ends_by_itself_is_replaced_too(agent, lease):
    async with lane(agent.address, lease) as first:
        await first.say("exit 3")
        await first.ended()
    async with lane(agent.address, lease) as second:
        assert second.facts["pid"] != first.facts["pid"]


async def test_a_slice_counts_as_used_until_its_worker_is_dead(controller, agent, lease, monkeypatch):
    async with lane(agent.address, lease) as open_lane:
        (worker,) = agent._workers.alive()
        kill = worker.kill

        def kill_that_takes_its_time() -> None:
            worker.dying = True

        monkeypatch.setattr(worker, "kill", kill_that_takes_its_time)
        seq = await controller.end("lease-a")
        report = await controller.report_where(lambda report: report["target_seq"] == seq)
        assert [(entry["id"], entry["state"]) for entry in report["leases"]] == [("lease-a", "draining")]
        kill()
        await open_lane.ended()
        await controller.report_where(lambda report: report["target_seq"] == seq and not report["leases"])


async def test_a_gpu_is_never_promised_twice_even_where_the_controller_does(controller, agent, monkeypatch):
    first = await controller.grant("lease-a", mib=32000)
    async with lane(agent.address, first) as open_lane:
        second = await controller.grant("lease-b", mib=32000)
        await controller.carried_out()
        status, _ = await exchange(agent.address, hello(second))
        assert status == NO_WORKER
        (worker,) = agent._workers.alive()
        kill = worker.kill

        def kill_that_takes_its_time() -> None:
            worker.dying = True

        monkeypatch.setattr(worker, "kill", kill_that_takes_its_time)
        await controller.end("lease-a")
        await controller.carried_out()
        waiting = asyncio.ensure_future(exchange(agent.address, hello(second, flags=0)[:128]))
        await controller.grant("lease-c")  # so that another report is made
        await controller.carried_out()
        assert agent._workers.alive() == [worker], "the next one waits for the end of the last"
        kill()
        await open_lane.ended()
        async with lane(agent.address, second) as served:
            assert await served.ask("echo here") == "here"
        waiting.cancel()


async def test_a_worker_that_talks_nonsense_harms_nobody(controller, agent, lease, caplog):
    caplog.set_level(logging.INFO)
    other = await controller.grant("lease-b")
    async with lane(agent.address, lease) as noisy, lane(agent.address, other) as quiet:
        assert await noisy.ask("flood 300") == "flooded"
        await noisy.say("usage " + "x" * (2 * MAX_PACKET))
        assert await quiet.ask("echo calm") == "calm"
        assert await slices(agent.address, other)
        assert await noisy.ask("echo still served") == "still served"
    assert sum("no JSON" in record.message for record in caplog.records) < 50


async def test_faults_and_error_output_are_logged_with_their_lease(agent, lease, caplog):
    caplog.set_level(logging.INFO)
    async with lane(agent.address, lease) as open_lane:
        await open_lane.say("fault illegal address in kernel add, block 3")
        await open_lane.say("stderr a line\x1b[2Jof the worker")
        await open_lane.say("exit 0")
        await open_lane.ended()
    while agent._workers.alive():
        await agent._workers.alive()[0].ended.wait()
    text = "\n".join(record.getMessage() for record in caplog.records)
    assert "worker of lease lease-a: fault: illegal address in kernel add, block 3" in text
    assert "worker of lease lease-a: a line\\x1b[2Jof the worker" in text


def python_for_everyone() -> str | None:
    """A Python that accounts without rights may run."""
    for candidate in (Path(sys.executable).resolve(), Path("/usr/bin/python3")):
        if candidate.exists() and all(folder.stat().st_mode & 0o001 for folder in candidate.parents):
            return str(candidate)
    return None


@pytest.mark.skipif(os.geteuid() != 0, reason="changing the account of a process needs root")
@pytest.mark.skipif(python_for_everyone() is None, reason="no Python here that everyone may run")
async def test_workers_run_under_an_unprivileged_account(controller, serve, settings):
    # pytest's temporary folders are the owner's alone.
    folder = Path("/tmp") / f"gpu-kernels-worker-{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        shutil.copy(Path(__file__).parent / "echo_worker.py", folder / "echo_worker.py")
        script = folder / "worker"
        script.write_text(f'#!/bin/sh\nexec {python_for_everyone()} -I {folder}/echo_worker.py "$@"\n')
        script.chmod(0o755)
        (folder / "echo_worker.py").chmod(0o644)
        limits = {"NOFILE": 64, "CORE": 0}
        workers = dataclasses.replace(settings.workers, program=script, user="nobody", rlimits=limits)
        async with serve(dataclasses.replace(settings, workers=workers)) as agent:
            lease = await controller.grant("lease-a")
            async with lane(agent.address, lease) as open_lane:
                assert open_lane.facts["uid"] == named_account("nobody").uid
                assert open_lane.facts["no_new_privs"]
                assert open_lane.facts["most_descriptors"] == 64
                await controller.end("lease-a")
                await open_lane.ended()
    finally:
        shutil.rmtree(folder)


def test_accounts_and_limits_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="no account"):
        named_account("nobody-is-called-this")
    with pytest.raises(ValueError, match="root"):
        named_account("root")
    with pytest.raises(ValueError, match="not a resource limit"):
        limit_numbers({"NOFLIES": 3})
