"""The answer to a status query: how a lease's slices stand, one entry each."""

from __future__ import annotations

import json
from typing import Any

from gpu_kernels.remoting.agent.gpus import Inventory
from gpu_kernels.remoting.agent.grants import Grant
from gpu_kernels.remoting.agent.worker import Worker
from gpu_kernels.remoting.agent.worker_command import granted_gpus
from gpu_kernels.remoting.hello import MAX_ANSWER_TEXT


def status_json(grant: Grant, inventory: Inventory, worker: Worker | None, now: float) -> str:
    """The slices as their user sees them: a slice is the whole device to him. Memory in MiB, utilisation in
    percent. A lease whose worker has not started has nothing in use.
    """
    used = worker.usage.used_mib if worker is not None else 0
    busy = worker.usage.utilisation_now(now) if worker is not None else 0
    entries: list[dict[str, Any]] = []
    for index, (part, gpu) in enumerate(zip(grant.slices, granted_gpus(grant, inventory), strict=True)):
        # A worker tells the sum over its slices; they are filled in order.
        taken = min(used, part.mib)
        used -= taken
        entries.append(
            {
                "name": gpu.name,
                "uuid": gpu.uuid,
                "index": index,
                "device": gpu.device,
                "total_mib": part.mib,
                "used_mib": taken,
                "utilisation": busy,
                "driver_version": inventory.driver_version,
                "cuda_version": inventory.cuda_version,
                "compute_capability": gpu.compute_capability,
                "pci_bus_id": gpu.pci_bus_id,
            }
        )
    text = _compact(entries)
    # A lease of a great many GPUs: as many entries as fit, rather than a text that is cut.
    while len(text) > MAX_ANSWER_TEXT:
        entries.pop()
        text = _compact(entries)
    return text


def _compact(entries: list[dict[str, Any]]) -> str:
    return json.dumps(entries, separators=(",", ":"))
