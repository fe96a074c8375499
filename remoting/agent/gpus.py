"""The GPUs of this server: found with NVML, or software GPUs where there is none."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from msgspec import convert

from gpu_kernels.resources.agents import OfferedGpu
from gpu_kernels.units import valid_class

MIB = 1024 * 1024
SOFTWARE_CAPABILITY = "7.5"
_SOFTWARE_GPUS = uuid.UUID("6f1b7c0a-5d0e-4f0b-9a55-0c1d2f3e4a5b")

CLASS_PATTERNS: tuple[tuple[str, str], ...] = (
    (r"\bH(100|200|800)\b", r"H\1"),
    (r"\bGH200\b", "GH200"),
    (r"\b(B200|GB200|B300)\b", r"\1"),
    (r"\bA(2|10|16|30|40|100|800)\b", r"A\1"),
    (r"\bL(4|40|40S)\b", r"L\1"),
    (r"\bV100\b", "V100"),
    (r"\bP(4|40|100)\b", r"P\1"),
    (r"\bT(4|1000)\b", r"T\1"),
    (r"\bRTX (?:PRO )?A?(\d{4})(?: (Ti|SUPER|Ada))?\b", r"RTX\1\2"),
    (r"\bGTX (\d{3,4})(?: (Ti|SUPER))?\b", r"GTX\1\2"),
)
"""A regular expression over NVML's device name, and the GPU class it stands for; the first match counts."""

# Where distributions, containers and WSL put the driver's library, in the order of the loader's own search.
DRIVER_PATHS = (
    "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    "/usr/lib/aarch64-linux-gnu/libcuda.so.1",
    "/usr/lib64/libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1",
    "/usr/local/nvidia/lib64/libcuda.so.1",
    "/run/opengl-driver/lib/libcuda.so.1",
)


class NoGpu(Exception):
    """This server has no GPU of the kind that was asked for; the text is for who runs it."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU; memory in MiB. Slices are cut from ``allocatable_mib``. The last three are no business of the
    pool's: two are for its users' NVML (``pci_bus_id`` is empty for a software GPU), and ``context_mib`` is
    what a worker's context takes of each slice (``contexts``); 0 on a software GPU.
    """

    uuid: str
    index: int
    gpu_class: str
    device: Literal["software", "nvidia"]
    name: str
    total_mib: int
    allocatable_mib: int
    compute_capability: str
    pci_bus_id: str
    context_mib: int = 0

    def offered(self) -> OfferedGpu:
        """As it is registered with the controller. Raises ``ValueError`` where that is no GPU."""
        return convert(self, OfferedGpu, from_attributes=True)


@dataclass(frozen=True, slots=True)
class Inventory:
    """``cuda_version`` is the driver's, as NVML has it (13000 for 13.0); 0 stands for that of the headers."""

    gpus: tuple[Gpu, ...]
    driver_version: str
    cuda_version: int

    @property
    def software_mib(self) -> int:
        """What is offered of this machine's own memory."""
        return sum(gpu.allocatable_mib for gpu in self.gpus if gpu.device == "software")

    def by_uuid(self) -> dict[str, Gpu]:
        return {gpu.uuid: gpu for gpu in self.gpus}


def gpu_class_of(name: str, patterns: Sequence[tuple[str, str]] = CLASS_PATTERNS) -> str:
    """The class of a device that NVML calls ``name``; without a match, the name made into one word."""
    for pattern, template in patterns:
        match = re.search(pattern, name)
        if match is not None:
            found = match.expand(template)
            if valid_class(found):
                return found
    word = re.sub(r"[^A-Za-z0-9._-]+", "-", name.removeprefix("NVIDIA ")).strip("-._")[:32]
    return word if valid_class(word) else "unknown"


def software_gpus(
    agent_name: str,
    gpu_class: str,
    memory_mib: int,
    count: int,
    version: str,
    offered_mib: int | None = None,
) -> Inventory:
    """``count`` software GPUs that stand for ``gpu_class``; their UUIDs stay the same for an agent's name.
    ``memory_mib`` is what is configured, of which the machine may have less to offer."""
    gpus = tuple(
        Gpu(
            uuid=f"GPU-{uuid.uuid5(_SOFTWARE_GPUS, f'{agent_name}/{index}')}",
            index=index,
            gpu_class=gpu_class,
            device="software",
            name=f"{gpu_class} (software GPU)",
            total_mib=memory_mib,
            allocatable_mib=memory_mib if offered_mib is None else offered_mib,
            compute_capability=SOFTWARE_CAPABILITY,
            pci_bus_id="",
        )
        for index in range(count)
    )
    return Inventory(gpus, version, 0)


def nvml_gpus(patterns: Sequence[tuple[str, str]] = CLASS_PATTERNS) -> Inventory:
    """The GPUs that NVML shows. Raises ``NoGpu`` where it has none, or is not there."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise NoGpu(f"NVML finds no NVIDIA driver: {error}") from error
    try:
        count = pynvml.nvmlDeviceGetCount()
        gpus = tuple(_nvml_gpu(pynvml, index, patterns) for index in range(count))
        version = str(pynvml.nvmlSystemGetDriverVersion())
        cuda_version = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
    except pynvml.NVMLError as error:
        raise NoGpu(f"NVML cannot tell about this server's GPUs: {error}") from error
    finally:
        pynvml.nvmlShutdown()
    if not gpus:
        raise NoGpu("NVML shows no GPU on this server.")
    return Inventory(gpus, version, cuda_version)


def _nvml_gpu(pynvml: Any, index: int, patterns: Sequence[tuple[str, str]]) -> Gpu:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    name = str(pynvml.nvmlDeviceGetName(handle))
    # Version 1 counts what the driver reserves as used; only version 2 tells it apart.
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    return Gpu(
        uuid=str(pynvml.nvmlDeviceGetUUID(handle)),
        index=index,
        gpu_class=gpu_class_of(name, patterns),
        device="nvidia",
        name=name,
        total_mib=int(memory.total) // MIB,
        allocatable_mib=(int(memory.total) - int(memory.reserved)) // MIB,
        compute_capability=f"{major}.{minor}",
        pci_bus_id=str(pynvml.nvmlDeviceGetPciInfo(handle).busId),
    )


def nvidia_driver() -> str:
    """The genuine libcuda.so.1: an absolute path, or its name where the loader has to find it."""
    return next((path for path in DRIVER_PATHS if Path(path).exists()), "libcuda.so.1")
