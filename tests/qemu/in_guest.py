"""What runs inside the guest, under systemd with ``Delegate=``: a controller, and attacks on the agent.

Prints a line of JSON for each thing that was looked at, after ``RESULT``, and ends the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
from argparse import Namespace
from pathlib import Path

from gpu_kernels.cli.check import run_checks
from tests.agent.fake_controller import FakeController
from tests.agent.lanes import lane

STATE = Path("/var/lib/gpu-agent")
UNIT_CGROUP = Path("/sys/fs/cgroup/system.slice/gpu-agent.service")


def tell(name: str, value: object) -> None:
    print("RESULT", json.dumps({"name": name, "value": value}), flush=True)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def check() -> dict[str, object]:
    """What ``jupyter gpu check --agent`` says, whose other parts want more than the guest has."""
    checks = run_checks(Namespace(agent=STATE), os.environ)
    return {each.name: [each.ok, each.detail] for each in checks}


def systemctl(*words: str) -> str:
    return subprocess.run(["systemctl", *words], capture_output=True, text=True, check=True).stdout.strip()


def the_workers_cgroup() -> Path:
    (its,) = UNIT_CGROUP.glob("worker-*")
    return its


async def run() -> None:
    controller = FakeController()
    controller.port = 8250
    async with controller:
        tell("systemd started the agent", systemctl("start", "gpu-agent") == "")
        await controller.until(lambda: bool(controller.registrations), within=300)
        address = controller.registrations[0]["address"]
        lease = await controller.grant("lease-a", ttl=600, mib=64)
        await controller.carried_out()
        async with lane(address, lease) as taken:
            its = the_workers_cgroup()
            stray = int(await taken.ask("escape"))
            inside = (its / "cgroup.procs").read_text().split()
            tell("what it started is in its cgroup", {str(stray), str(taken.facts["pid"])} <= set(inside))
            tell("memory.max", int((its / "memory.max").read_text()) >> 20)
            tell("pids.max", int((its / "pids.max").read_text()))
            tell("check", await asyncio.to_thread(check))
            seq = await controller.end("lease-a")
            await controller.report_where(
                lambda report: report["target_seq"] >= seq and report["leases"] == [], within=300
            )
            tell("what it started lives when its end is told", lives(stray))
            tell("its cgroup is gone", not its.exists())
        second = await controller.grant("lease-b", ttl=600, mib=64)
        await controller.carried_out()
        async with lane(address, second) as taken:
            await taken.say("eat")
            await taken.ended()
        pid = int(systemctl("show", "-P", "MainPID", "gpu-agent"))
        tell(
            "one that takes more than memory.max is killed, the agent lives",
            not lives(taken.facts["pid"]) and lives(pid),
        )
        third = await controller.grant("lease-c", ttl=600, mib=64)
        await controller.carried_out()
        async with lane(address, third) as taken:
            stray = int(await taken.ask("escape"))
            os.kill(pid, signal.SIGKILL)
            await controller.until(lambda: len(controller.registrations) == 2, within=300)
            tell("what it started lives when the next agent registers", lives(stray))


def main() -> None:
    try:
        asyncio.run(run())
    except BaseException as error:
        tell("error", repr(error))
        log = subprocess.run(["journalctl", "-u", "gpu-agent", "-n", "40", "--no-pager"], capture_output=True)
        print(log.stdout.decode(), flush=True)
    with contextlib.suppress(OSError):
        subprocess.run(["systemctl", "poweroff", "-f", "-f"], check=False)


if __name__ == "__main__":
    main()
