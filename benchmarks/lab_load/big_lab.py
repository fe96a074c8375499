"""A lab with room for exactly the students of a plan."""

from __future__ import annotations

import contextlib
import math
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil

from benchmarks.lab_load.plan import Plan
from benchmarks.lab_load.visits import Visit
from gpu_kernels.errors import PoolError
from gpu_kernels.hub_config.lab.processes import LabError, marked, marked_commands
from gpu_kernels.hub_config.lab.settings import Settings
from gpu_kernels.hub_config.lab.supervisor import Lab
from gpu_kernels.remoting.machine_memory import VARIABLE as MACHINE_MEMORY

HUB = Path(__file__).parent / "config" / "hub.py"
THOUSANDTHS = 20
A_GPU_HAS_ROOM_FOR = 1000 // THOUSANDTHS


def settings_for(students: int, state: Path) -> Settings:
    """Two GPUs have room for a hundred, and their course may have all of it."""
    return Settings.on_free_ports(
        state,
        gpus=math.ceil(students / A_GPU_HAS_ROOM_FOR),
        course_thousandths=students * THOUSANDTHS,
        servers_yield=True,
    )


@contextlib.contextmanager
def running(plan: Plan, state: Path) -> Iterator[Lab]:
    settings = settings_for(len(plan.arrivals), state)
    settings.make_folders()
    plan.save(settings)
    # Slices of the usual size, whatever machine this is: what its students do takes little of them.
    os.environ.setdefault(MACHINE_MEMORY, str(2 * settings.gpus * settings.gpu_memory_mib))
    with Lab(settings, hub_configuration=HUB) as lab:
        yield lab


def abort_kernels(lab: Lab, visit: Visit) -> None:
    """Ends the kernels of a student who was lost; they write to the hub's log where they were."""
    for process in marked(lab.settings.marker):
        with contextlib.suppress(psutil.Error):
            if "ipykernel_launcher" in process.cmdline() and process.environ().get("USER") == visit.name:
                process.send_signal(signal.SIGABRT)


def leftovers(lab: Lab) -> list[str]:
    """What should be gone when all kernels are, and is not."""
    found = []
    try:
        lab.wait_for_leases()
    except (LabError, PoolError) as error:
        found.append(str(error))
    found += [f"{lease.id} of {lease.user} is {lease.state}" for lease in lab.leases()]
    found += [f"{gpu.uuid} has {gpu.used_mib} MiB in use" for gpu in lab.gpus() if gpu.used_mib]
    found += [f"a worker lives: {text}" for text in marked_commands(lab.settings.marker, "gpu-worker")]
    headers = {"Authorization": f"token {lab.runner_token}"}
    answer = httpx.get(f"{lab.settings.controller_url}/metrics", headers=headers, trust_env=False)
    metrics = answer.raise_for_status().text
    if "\npool_ledger_mismatch 0.0\n" not in metrics:
        found.append("the ledger's accounts do not agree: pool_ledger_mismatch is not 0")
    return found
