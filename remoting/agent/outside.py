"""Memory of this server's GPUs that processes outside all leases use, as NVML shows it.

It is told to the controller, for an alarm: slices are cut from all of a GPU's memory, so what others take
makes allocations fail that a lease was promised.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from remoting.agent.gpus import MIB, Inventory


def outside_memory(inventory: Inventory, ours: Collection[int]) -> list[dict[str, Any]]:
    """``[{"gpu": UUID, "mib": N}]`` for the NVIDIA GPUs on which processes other than ``ours`` (process ids)
    use memory. Blocks for as long as the driver takes. What NVML does not tell is left out: in a container
    it may show no processes, and a software GPU has none.
    """
    uuids = [gpu.uuid for gpu in inventory.gpus if gpu.device == "nvidia"]
    if not uuids:
        return []
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        found = ((uuid, _of_others(pynvml, uuid, ours)) for uuid in uuids)
        return [{"gpu": uuid, "mib": mib} for uuid, mib in found if mib > 0]
    finally:
        pynvml.nvmlShutdown()


def _of_others(pynvml: Any, uuid: str, ours: Collection[int]) -> int:
    used = 0
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        processes = {
            process.pid: process.usedGpuMemory or 0
            for process in (
                *pynvml.nvmlDeviceGetGraphicsRunningProcesses(handle),
                *pynvml.nvmlDeviceGetComputeRunningProcesses(handle),
            )
        }
        used = sum(memory for pid, memory in processes.items() if pid not in ours)
    except pynvml.NVMLError:
        return 0
    return used // MIB
