"""An agent says at each start what does not hold its workers, and `jupyter gpu check --agent` at any time."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_kernels.remoting.agent import protections as module
from gpu_kernels.remoting.agent.accounts import UNUSED_UIDS
from gpu_kernels.remoting.agent.cells import Cells
from gpu_kernels.remoting.agent.gpus import Inventory
from gpu_kernels.remoting.agent.protections import Protection, protections
from gpu_kernels.remoting.agent.settings import Settings
from tests.agent.conftest import LOG, agent_process
from tests.agent.lanes import connect, hello
from tests.agent.test_workers import python_for_everyone
from tests.attacks.taken_over import children_of
from tests.native_build import ROOT as ROOT_FOLDER

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="giving processes accounts needs root")


def found(settings: Settings, inventory: Inventory, **changed: object) -> dict[str, Protection]:
    workers = dataclasses.replace(settings.workers, program=Path("/bin/true"), **changed)
    return {each.name: each for each in protections(Cells(inventory, workers, LOG), workers)}


@ROOT
def test_workers_that_are_roots_are_told_with_what_to_do(settings, inventory):
    account = found(settings, inventory)["account"]
    assert not account.in_force
    assert "root's" in account.detail
    assert "workers_as_root" in account.advice
    assert found(settings, inventory, uids=UNUSED_UIDS)["account"].in_force


def test_workers_that_share_the_agents_account_are_told_with_what_to_do(settings, inventory, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1234)
    account = found(settings, inventory)["account"]
    assert (account.in_force, "1234" in account.detail) == (False, True)
    assert "Run the agent as root" in account.advice


@ROOT
def test_one_account_for_all_workers_counts_and_says_what_it_does_not_do(settings, inventory):
    account = found(settings, inventory, user="nobody")["account"]
    assert (account.in_force, "end each other" in account.detail) == (True, True)


@pytest.mark.parametrize(
    ("seccomp", "actions", "in_force", "words"),
    [
        ("required", "kill_process kill_thread errno allow", True, "filtered by seccomp"),
        ("required", "kill_thread errno allow", False, "no worker serves here"),
        ("optional", None, False, "workers serve without"),
        ("off", "kill_process kill_thread errno allow", False, "worker_seccomp is off"),
    ],
)
def test_a_kernel_without_seccomp_is_told(
    settings, inventory, monkeypatch, tmp_path, seccomp, actions, in_force, words
):
    told = tmp_path / "actions"
    if actions is not None:
        told.write_text(actions)
    monkeypatch.setattr(module, "SECCOMP_ACTIONS", told)
    calls = found(settings, inventory, seccomp=seccomp)["system calls"]
    assert (calls.in_force, words in calls.detail) == (in_force, True)


def test_what_stands_in_a_cgroups_place_is_told(settings, inventory):
    cgroup = found(settings, inventory, cgroups="/nonexistent")["cgroup"]
    assert not cgroup.in_force
    assert "/nonexistent" in cgroup.detail
    assert "Delegate" in cgroup.advice


def check(folder: Path, **env: str) -> dict[str, tuple[bool, str]]:
    command = [sys.executable, "-m", "gpu_kernels.cli", "check", "--json", "--agent", str(folder)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=100, env=os.environ | env
    )
    return {each["name"]: (each["ok"], each["detail"]) for each in json.loads(done.stdout)}


@pytest.mark.native
async def test_check_tells_what_holds_the_workers_of_an_agent_that_runs(controller, tmp_path):
    """The real worker, as the kernel sees it."""
    state = tmp_path / "state"
    async with agent_process(controller, state, own_accounts=os.geteuid() == 0) as process:
        lease = await controller.grant("lease-a")
        await controller.carried_out()
        _, writer = await connect(controller.registrations[0]["address"])
        writer.write(hello(lease))
        await controller.report_where(lambda report: report["leases"] != [])
        said = await asyncio.to_thread(check, state)
        assert said["agent"] == (True, f"process {process.pid}")
        assert said["workers"] == (True, "the kernel says the same of each that lives")
        assert said["system calls"][0]
        assert said["account"][0] == (os.geteuid() == 0)
        assert [oom_score(pid) for pid in children_of(process.pid)] == [500]
        writer.close()
    ended = await asyncio.to_thread(check, state)
    assert ended == {"agent": (False, f"process {process.pid} has ended")}


def oom_score(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


def test_check_of_a_folder_that_is_no_agents_says_so(tmp_path):
    assert check(tmp_path)["agent"][0] is False


@ROOT
@pytest.mark.native
async def test_check_finds_a_worker_that_is_not_held_as_it_should_be(controller, tmp_path, echo_worker):
    """It stands where the real one would, and filters nothing."""
    state = tmp_path / "state"
    async with agent_process(controller, state, f"--AgentApp.worker={echo_worker}"):
        lease = await controller.grant("lease-a")
        await controller.carried_out()
        _, writer = await connect(controller.registrations[0]["address"])
        writer.write(hello(lease))
        await controller.report_where(lambda report: report["leases"] != [])
        ok, detail = (await asyncio.to_thread(check, state))["workers"]
        assert (ok, "its system calls are not filtered" in detail) == (False, True)
        writer.close()


@ROOT
@pytest.mark.skipif(python_for_everyone() is None, reason="no Python here that everyone may run")
@pytest.mark.parametrize(("protected", "answer"), [(False, ""), (True, "Permission denied")])
def test_the_agents_memory_is_closed_to_its_own_account(protected, answer):
    """Also where workers share it; without the protection it is open to them."""
    program = (
        "import sys; from gpu_kernels.remoting.agent.protections import protect_this_process;"
        f"{protected} and protect_this_process(); print(flush=True); sys.stdin.read()"
    )
    account = {"user": 1900100009, "group": 1900100009, "extra_groups": []}
    path = os.pathsep.join([str(ROOT_FOLDER), *(entry for entry in sys.path if "site-packages" in entry)])
    with subprocess.Popen(
        [str(python_for_everyone()), "-c", program],
        env={"PYTHONPATH": path, "SECRET": "token"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd="/",
        **account,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        look = ["/bin/cat", f"/proc/{process.pid}/environ"]
        seen = subprocess.run(look, capture_output=True, text=True, check=False, **account)
        process.kill()
    assert answer in seen.stderr
    assert ("SECRET" in seen.stdout) is not protected
