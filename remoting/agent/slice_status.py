"""The answer to a status query: how a lease's slices stand, one entry each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from remoting.agent.gpus import Inventory
from remoting.agent.grants import Grant
from remoting.agent.hello import MAX_ANSWER_TEXT
from remoting.agent.worker import Worker
from remoting.agent.worker_command import granted_gpus


def status_json(grant: Grant, inventory: Inventory, worker: Worker | None, now: float) -> str:
    """The slices as their user sees them: a slice is the whole device to him. Memory in MiB, utilisation in
    percent. A lease whose worker has not started has nothing in use.
    """
    entries = []
    used = worker.usage.used_mib if worker is not None else 0
    busy = worker.usage.utilisation_now(now) if worker is not None else 0
    for index, (part, gpu) in enumerate(zip(grant.slices, granted_gpus(grant, inventory), strict=True)):
        taken = min(used, part.mib)
        used -= taken
        entries.append(_entry(index, gpu.name, gpu.uuid, gpu.device, part.mib, taken, busy, inventory))
    text = json.dumps(entries)
    # A lease of a great many GPUs: as many entries as fit, rather than a text that is cut.
    while len(text) > MAX_ANSWER_TEXT:
        entries.pop()
        text = json.dumps(entries)
    return text


def _entry(
    index: int, name: str, uuid: str, device: str, total: int, used: int, busy: int, inventory: Inventory
) -> Mapping[str, Any]:
    return {
        "name": name,
        "uuid": uuid,
        "index": index,
        "device": device,
        "total_mib": total,
        "used_mib": used,
        "utilisation": busy,
        "driver_version": inventory.driver_version,
    }
