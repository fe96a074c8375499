"""Memory of this server's GPUs by process, as NVML shows it.

What processes outside all leases use is told to the controller, for an alarm: slices are cut from all of a
GPU's memory, so what others take makes allocations fail that a lease was promised. What workers hold is
compared with their slices (``overdraft``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_kernels.remoting.agent.gpus import MIB, Inventory
from gpu_kernels.remoting.agent.grants import Grant
from gpu_kernels.resources.agents import OutsideMemory

EMPTY: Mapping[str, int] = {}

Held = Mapping[str, Mapping[int, int]]
"""By GPU and process id: bytes. A GPU of which NVML tells no processes is not there."""


@dataclass(frozen=True)
class Memory:
    """What NVML shows. ``used``: by GPU, bytes in use on the device, whoever uses them."""

    held: Held = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)


def gpu_memory(inventory: Inventory) -> Memory:
    """What NVML shows of the NVIDIA GPUs. Blocks for as long as the driver takes. In a container NVML may
    show no processes, and a software GPU has none."""
    uuids = [gpu.uuid for gpu in inventory.gpus if gpu.device == "nvidia"]
    if not uuids:
        return Memory()
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return Memory()
    try:
        processes = {uuid: _by_process(pynvml, uuid) for uuid in uuids}
        used = {uuid: _used(pynvml, uuid) for uuid in uuids}
    finally:
        pynvml.nvmlShutdown()
    return Memory(
        {uuid: found for uuid, found in processes.items() if found is not None},
        {uuid: found for uuid, found in used.items() if found is not None},
    )


def unseen(held: Held, workers: Iterable[tuple[int, Grant]], gpus: Collection[str]) -> set[str]:
    """Those of ``gpus`` on which there are workers (process id and grant), and NVML shows none of them."""
    on: dict[str, set[int]] = {}
    for pid, grant in workers:
        for part in grant.slices:
            on.setdefault(part.gpu, set()).add(pid)
    return {gpu for gpu, pids in on.items() if gpu in gpus and not pids & held.get(gpu, {}).keys()}


def outside_memory(
    memory: Memory,
    ours: Collection[int],
    unseen_on: Collection[str] = (),
    promised: Mapping[str, int] = EMPTY,
) -> tuple[OutsideMemory, ...]:
    """What processes other than ``ours`` (process ids) use of the GPUs, where they use any. On the GPUs
    ``unseen_on`` that is what the device has in use beyond what is ``promised`` there (MiB) to leases that
    have workers: NVML does not say whose it is."""
    sums = {
        gpu: sum(held for pid, held in processes.items() if pid not in ours) // MIB
        for gpu, processes in memory.held.items()
    }
    sums |= {gpu: memory.used.get(gpu, 0) // MIB - promised.get(gpu, 0) for gpu in unseen_on}
    return tuple(OutsideMemory(gpu, mib) for gpu, mib in sums.items() if mib > 0)


def _by_process(pynvml: Any, uuid: str) -> dict[int, int] | None:
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        return {
            process.pid: process.usedGpuMemory or 0
            for process in (
                *pynvml.nvmlDeviceGetGraphicsRunningProcesses(handle),
                *pynvml.nvmlDeviceGetComputeRunningProcesses(handle),
            )
        }
    except pynvml.NVMLError:
        return None


def _used(pynvml: Any, uuid: str) -> int | None:
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        return int(pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used)
    except pynvml.NVMLError:
        return None
