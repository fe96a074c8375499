"""The agent as a process: started from its command line, ended by signals, killed."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_kernels.remoting.machine_memory import VARIABLE as MACHINE_MEMORY
from tests.agent.conftest import agent_process, gone, is_alive
from tests.agent.lanes import exchange, hello, lane

COMMAND = [sys.executable, "-m", "gpu_kernels.remoting.agent"]


def served_by(worker: Path) -> str:
    """The option that names the program that stands where gpu-worker would."""
    return f"--AgentApp.worker={worker}"


async def test_a_killed_agent_takes_its_workers_with_it(controller, echo_worker, tmp_path):
    async with agent_process(controller, tmp_path / "state", served_by(echo_worker)) as process:
        lease = await controller.grant("lease-a")
        await controller.carried_out()
        address = controller.registrations[0]["address"]
        async with lane(address, lease) as open_lane:
            process.kill()
            await open_lane.ended()
            await gone(open_lane.facts["pid"])


async def test_a_worker_is_told_how_much_memory_it_may_take_for_itself(controller, echo_worker, tmp_path):
    given = (served_by(echo_worker), "--worker-memory-mib", "777")
    async with agent_process(controller, tmp_path / "state", *given):
        lease = await controller.grant("lease-a")
        await controller.carried_out()
        async with lane(controller.registrations[0]["address"], lease) as open_lane:
            argv = open_lane.facts["argv"]
            assert argv[argv.index("--host-memory-mib") + 1] == "777"


async def test_an_agent_has_room_for_strangers_and_its_workers_keep_their_own_limit(
    controller, echo_worker, tmp_path
):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1024), hard))
    try:
        async with agent_process(controller, tmp_path / "state", served_by(echo_worker)) as process:
            lease = await controller.grant("lease-a")
            await controller.carried_out()
            assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
            async with lane(controller.registrations[0]["address"], lease) as open_lane:
                own = resource.prlimit(open_lane.facts["pid"], resource.RLIMIT_NOFILE)
                assert own == (min(4096, hard), min(4096, hard))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_an_agent_that_is_told_to_end_leaves_nothing_behind(controller, echo_worker, tmp_path, number):
    async with agent_process(controller, tmp_path / "state", served_by(echo_worker)) as process:
        lease = await controller.grant("lease-a")
        await controller.carried_out()
        async with lane(controller.registrations[0]["address"], lease) as open_lane:
            process.send_signal(number)
            async with asyncio.timeout(60):
                assert await process.wait() == 0
            assert not is_alive(open_lane.facts["pid"])
    assert controller.reports[-1]["leases"] == []


async def test_an_agent_that_was_stopped_for_too_long_serves_nothing_old_when_it_goes_on(
    controller, echo_worker, tmp_path
):
    async with agent_process(controller, tmp_path / "state", served_by(echo_worker)) as process:
        lease = await controller.grant("lease-a", ttl=6.0)
        await controller.carried_out()
        address = controller.registrations[0]["address"]
        async with lane(address, lease) as open_lane:
            process.send_signal(signal.SIGSTOP)
            await controller.go_away()
            assert await open_lane.ask("echo the worker goes on") == "the worker goes on"
            await asyncio.sleep(6.0)  # the lease's time, which nobody counts while the agent stands still
            process.send_signal(signal.SIGCONT)
            status, text = await exchange(address, hello(lease, lane=1))
            assert (status, "lost touch" in text) == (6, True)
            await open_lane.ended()


async def test_options_become_what_is_registered(controller, echo_worker, tmp_path):
    async with agent_process(controller, tmp_path / "state", served_by(echo_worker)):
        await controller.next_reports()
        (gpu,) = controller.registrations[0]["gpus"]
        assert (gpu["total_mib"], gpu["gpu_class"], gpu["device"]) == (1000, "V100", "software")


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    machine = {MACHINE_MEMORY: os.environ.get(MACHINE_MEMORY, "")}
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **machine, **env}
    return subprocess.run(
        [*COMMAND, *arguments], env=environment, capture_output=True, text=True, timeout=100, check=False
    )


def refusals(tmp_path: Path) -> list[tuple[list[str], dict[str, str], str]]:
    state = ["--state-dir", str(tmp_path / "s"), "--controller", "http://127.0.0.1:9"]
    token = {"GPU_KERNELS_TOKEN": "token"}
    return [
        ([], {}, "No GPU pool is configured"),
        (state, {}, "no usable token"),
        ([*state, "--device", "nvidia"], token, "NVML"),
        ([*state, "--listen", "udp://127.0.0.1:1"], token, "tcp://HOST:PORT or unix:///PATH"),
        ([*state, "--listen", "unix://relative"], token, "absolute path"),
        ([*state, "--software-class", "not a class"], token, "cannot be called"),
        ([*state, "--worker-user", "nobody-is-called-this"], token, "no account"),
        ([*state, "stray"], token, "not understood"),
        ([*state, "--config", "/nonexistent.py"], token, "no configuration file"),
        (state, {**token, "GPU_KERNELS_LEASE": "lease-a"}, "inside a GPU kernel"),
        ([*state, '--AgentApp.worker_rlimits={"NOFLIES": 3}'], token, "NOFLIES"),
        ([*state, "--worker-memory-mib", "1"], token, "worker_memory_mib"),
    ]


@pytest.mark.parametrize("number", range(12))
def test_an_agent_that_cannot_run_says_why(tmp_path, number):
    arguments, env, why = refusals(tmp_path)[number]
    done = run(*arguments, **env)
    assert done.returncode == 1
    assert why in done.stderr
    assert "Traceback" not in done.stderr


def test_a_token_that_other_accounts_may_read_is_told_of_at_the_start(tmp_path):
    token = tmp_path / "gpu1.token"
    token.write_text("secret-of-gpu1")
    for mode, told in ((0o644, True), (0o600, False)):
        token.chmod(mode)
        done = run(
            *("--state-dir", str(tmp_path / "s"), "--controller", "http://127.0.0.1:9"),
            *("--device", "nvidia", "--token-file", str(token)),
        )
        assert (f"Run: chmod 600 {token}" in done.stderr) is told
        assert "secret-of-gpu1" not in done.stderr


def test_a_configuration_file_is_read_and_the_command_line_goes_before_it(tmp_path):
    config = tmp_path / "agent_config.py"
    config.write_text("c.AgentApp.agent_name = 'from-file'\nc.AgentApp.software_class = 'T4'\n")
    done = run("--config", str(config), "--name", "from-command-line", "--show-config-json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)["AgentApp"]
    assert (shown["agent_name"], shown["software_class"]) == ("from-command-line", "T4")
