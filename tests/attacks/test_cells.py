"""What holds a worker holds one that somebody has taken over, by whatever it leaves behind.

The worker here has no filter: what the agent does from outside must be enough where a kernel has none.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_kernels.remoting.agent.accounts import (
    UNUSED_UIDS,
    Accounts,
    device_groups,
    kill_all_of,
    out_of_reach,
)
from gpu_kernels.remoting.agent.cgroups import Cgroup, Cgroups, NoCgroups
from gpu_kernels.remoting.agent.confine import Account
from gpu_kernels.remoting.agent.settings import Settings
from tests.agent.conftest import (
    agent_process,
    controller,
    echo_worker,
    inventory,
    is_alive,
    serve,
    settings,
)
from tests.agent.lanes import lane
from tests.agent.test_workers import python_for_everyone

__all__ = ["controller", "echo_worker", "inventory", "serve", "settings"]
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="giving processes accounts needs root")
PYTHON = pytest.mark.skipif(python_for_everyone() is None, reason="no Python here that everyone may run")


@pytest.fixture
def worker() -> Iterator[Path]:
    """A program that every account may run; pytest's temporary folders are the owner's alone."""
    folder = Path("/tmp") / f"gpu-kernels-reaching-{os.getpid()}"
    folder.mkdir(mode=0o755)
    shutil.copy(Path(__file__).with_name("reaching_worker.py"), folder / "program.py")
    (folder / "program.py").chmod(0o644)
    script = folder / "worker"
    script.write_text(f'#!/bin/sh\nexec {python_for_everyone()} -I {folder}/program.py "$@"\n')
    script.chmod(0o755)
    yield script
    shutil.rmtree(folder)


def cgroup_tree() -> Path | None:
    """Where the cgroup v2 tree is, if this process may make cgroups in it."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 ") and os.access(mount.split()[4], os.W_OK):
            return Path(mount.split()[4])
    return None


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A folder of the tree that is a test's own."""
    tree = cgroup_tree()
    if tree is None:
        pytest.skip("no cgroup v2 tree here that this account may use")
    folder = tree / f"gpu-kernels-test-{os.getpid()}"
    folder.mkdir()
    yield folder
    for left in sorted(folder.rglob("*/"), reverse=True):
        left.rmdir()
    folder.rmdir()


def given(settings: Settings, worker: Path, **changed: object) -> Settings:
    return dataclasses.replace(
        settings, workers=dataclasses.replace(settings.workers, program=worker, **changed)
    )


@ROOT
@PYTHON
async def test_a_worker_reaches_nothing_of_its_agent_and_no_other_worker(
    controller, serve, settings, worker, tmp_path
):
    token = tmp_path / "token"
    token.touch(mode=0o600)
    async with serve(given(settings, worker, uids=UNUSED_UIDS)) as agent:
        first, second = await controller.grant("lease-a"), await controller.grant("lease-b")
        async with lane(agent.address, first) as taken, lane(agent.address, second) as other:
            status = dict(line.split(":\t", 1) for line in taken.facts["status"].splitlines())
            uids = set(status["Uid"].split()) | set(status["Gid"].split())
            assert len(uids) == 1
            assert UNUSED_UIDS.split("-")[0] <= uids.pop() <= UNUSED_UIDS.split("-")[1]
            assert status["Groups"].split() == []
            kinds = ("Inh", "Prm", "Eff", "Bnd", "Amb")
            assert [int(status[f"Cap{kind}"], 16) for kind in kinds] == [0] * 5
            for path in (f"/proc/{os.getpid()}/mem", token, f"/proc/{other.facts['pid']}/environ"):
                assert await taken.ask(f"open {path}") == "PermissionError"
            for number in (signal.SIGKILL, signal.SIGSTOP):
                for pid in (other.facts["pid"], os.getpid()):
                    assert await taken.ask(f"kill {pid} {int(number)}") == "PermissionError"
            assert other.facts["status"] != taken.facts["status"]


@ROOT
@PYTHON
async def test_nothing_of_a_worker_outlives_it_where_it_has_an_account_of_its_own(
    controller, serve, settings, worker
):
    async with serve(given(settings, worker, uids=UNUSED_UIDS)) as agent:
        lease = await controller.grant("lease-a")
        async with lane(agent.address, lease) as taken:
            strays = [int(await taken.ask("escape")) for _ in range(3)]
            assert all(is_alive(stray) for stray in strays)
            seq = await controller.end("lease-a")
            await controller.report_where(
                lambda report: report["target_seq"] >= seq and report["leases"] == []
            )
        assert not [stray for stray in strays if is_alive(stray)], "the end was confirmed too early"


async def test_nothing_of_a_worker_outlives_it_where_it_has_a_cgroup(
    controller, serve, settings, cgroup, worker
):
    async with serve(given(settings, worker, cgroups=str(cgroup))) as agent:
        lease = await controller.grant("lease-a")
        async with lane(agent.address, lease) as taken:
            stray = int(await taken.ask("escape"))
            (its,) = cgroup.glob("worker-*")
            assert {str(stray), str(taken.facts["pid"])} <= set((its / "cgroup.procs").read_text().split())
            seq = await controller.end("lease-a")
            await controller.report_where(
                lambda report: report["target_seq"] >= seq and report["leases"] == []
            )
        assert not is_alive(stray), "the end was confirmed too early"
        assert not list(cgroup.glob("worker-*"))


@pytest.mark.skipif(python_for_everyone() is None, reason="no Python here that everyone may run")
async def test_nothing_of_a_worker_outlives_it_where_orphans_come_to_the_agent(controller, worker, tmp_path):
    given = (f"--AgentApp.worker={worker}", "--worker-cgroups=off")
    async with agent_process(controller, tmp_path / "state", *given):
        lease = await controller.grant("lease-a")
        await controller.carried_out()
        async with lane(controller.registrations[0]["address"], lease) as taken:
            stray = int(await taken.ask("escape"))
            seq = await controller.end("lease-a")
            await controller.report_where(
                lambda report: report["target_seq"] >= seq and report["leases"] == []
            )
        assert not is_alive(stray), "the end was confirmed too early"


async def test_what_lives_on_after_its_worker_keeps_the_lease_from_a_new_one(
    controller, serve, settings, cgroup, worker
):
    """A worker that ends by itself, and leaves a process on the GPU."""
    async with serve(given(settings, worker, cgroups=str(cgroup))) as agent:
        lease = await controller.grant("lease-a")
        async with lane(agent.address, lease) as taken:
            stray = int(await taken.ask("escape"))
            os.kill(taken.facts["pid"], signal.SIGKILL)
            await taken.ended()
        async with lane(agent.address, lease) as again:
            assert again.facts["pid"] != taken.facts["pid"]
            assert not is_alive(stray)


async def test_the_next_agent_kills_what_workers_of_the_last_left_behind(
    controller, serve, settings, cgroup, worker
):
    left = Cgroup(cgroup / "worker-of-the-last-agent", 64)
    stray = subprocess.Popen(  # noqa: ASYNC220
        ["sleep", "600"], preexec_fn=lambda: os.write(left.entrance, b"0")
    )
    assert not left.emptied()
    async with serve(given(settings, worker, cgroups=str(cgroup))):
        await controller.next_reports()
        assert not is_alive(stray.pid)
    assert stray.wait() == -signal.SIGKILL
    os.close(left.entrance)


def test_a_cgroup_that_is_no_agents_own_is_refused(cgroup, tmp_path):
    with pytest.raises(NoCgroups, match="no folder of the cgroup v2 tree"):
        Cgroups(str(tmp_path))
    with contextlib.ExitStack() as stack:
        first = Cgroups(str(cgroup))
        stack.callback(os.close, first._lock)
        with pytest.raises(NoCgroups, match="another agent"):
            Cgroups(str(cgroup))


@ROOT
def test_accounts_are_lent_to_one_worker_at_a_time_on_the_whole_machine():
    first, second = Accounts("1900100000-1900100002"), Accounts("1900100000-1900100002")
    lent = [first.lend(), second.lend(), first.lend()]
    assert len({account.uid for account in lent}) == 3
    with pytest.raises(OSError, match="are lent"):
        second.lend()
    first.take_back(lent[0])
    assert second.lend().uid == lent[0].uid


@pytest.mark.parametrize(
    "text", ["", "1900000000", "5-4", "0-65535", "1-2000", "9999999999-9999999999", "a-b"]
)
def test_what_is_no_range_of_accounts_is_refused(text):
    with pytest.raises(ValueError, match="range of accounts"):
        Accounts(text)


def test_accounts_that_a_container_does_not_have_are_refused(tmp_path, monkeypatch):
    uid_map = tmp_path / "uid_map"
    uid_map.write_text("         0     100000      65536\n")
    monkeypatch.setattr("gpu_kernels.remoting.agent.accounts.UID_MAP", uid_map)
    with pytest.raises(ValueError, match="worker_uids"):
        Accounts(UNUSED_UIDS)
    assert Accounts("60000-65000").last == 65000


@ROOT
def test_a_program_that_its_account_may_not_use_is_named(tmp_path):
    hidden = tmp_path / "inside" / "program"
    hidden.parent.mkdir()
    hidden.touch(mode=0o755)
    account = Account(1900100000, 1900100000, own=True)
    tmp_path.chmod(0o700)
    assert out_of_reach([Path("/bin/sh"), hidden], account) is not None
    assert out_of_reach([Path("/bin/sh")], account) is None
    assert kill_all_of(account)


def test_only_groups_without_which_a_device_stays_closed_are_given(tmp_path):
    assert device_groups(["/dev/null"]) == ()
    plain = tmp_path / "no-device"
    plain.touch(mode=0o660)
    assert device_groups([str(plain)]) == ()
