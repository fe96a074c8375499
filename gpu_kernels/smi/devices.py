"""What NVML says of the slices of this process: the same numbers as gpustat and nvitop show."""

from __future__ import annotations

import os
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeVar

import pynvml as nvml

from gpu_kernels import attach
from gpu_kernels.remoting.environment import ATTACH, DEVICE, LEASE, SIZE, SOFTWARE

T = TypeVar("T")
MIB = 1 << 20


class NoDevices(Exception):
    """There is nothing to show; the text says why."""


@dataclass(frozen=True)
class Process:
    pid: int
    name: str
    used_mib: int | None


@dataclass(frozen=True)
class Device:
    """A slice of a GPU; None where a slice has no such thing."""

    index: int
    name: str
    uuid: str
    bus: str
    total_mib: int
    used_mib: int
    utilisation: int | None
    temperature: int | None
    power_w: float | None
    power_limit_w: float | None
    capability: str | None
    processes: tuple[Process, ...]

    @property
    def free_mib(self) -> int:
        return self.total_mib - self.used_mib


@dataclass(frozen=True)
class Seen:
    """``size`` is what was asked for, such as '0.02 V100'; empty for a software GPU without a lease."""

    driver: str
    cuda: str
    size: str
    course: str
    devices: tuple[Device, ...]


def look(environ: MutableMapping[str, str] | None = None) -> Seen:
    """All slices of the kernel that this process belongs to, or its own software GPU. Raises ``NoDevices``.

    It changes the process's environment: the libraries read the lease there.
    """
    environ = os.environ if environ is None else environ
    env, stands = attach.present(environ)
    if stands is not None and stands["state"] != "attached":
        raise NoDevices(str(stands["text"]))
    if LEASE not in env and (env.get(DEVICE) != SOFTWARE or ATTACH in env):
        raise NoDevices(
            environ.get("GPU_KERNELS_REFUSAL") or "This process has no slice of a GPU; %gpu says more."
        )
    env.pop(ATTACH, None)  # asked already: nothing here is to wait
    environ.clear()
    environ.update(env)
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise NoDevices(f"The slice's GPU server does not answer: {error}.") from error
    try:
        version = nvml.nvmlSystemGetCudaDriverVersion_v2()
        return Seen(
            driver=str(nvml.nvmlSystemGetDriverVersion()),
            cuda=f"{version // 1000}.{version % 1000 // 10}",
            size=env.get(SIZE, ""),
            course=env.get("GPU_KERNELS_COURSE", ""),
            devices=tuple(_device(index) for index in range(nvml.nvmlDeviceGetCount())),
        )
    except nvml.NVMLError as error:
        raise NoDevices(f"The slice's GPU server does not answer: {error}.") from error
    finally:
        nvml.nvmlShutdown()


def _device(index: int) -> Device:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    rates = _known(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
    capability = _known(lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle))
    power = _known(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
    limit = _known(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle))
    return Device(
        index=index,
        name=str(nvml.nvmlDeviceGetName(handle)),
        uuid=str(nvml.nvmlDeviceGetUUID(handle)),
        bus=_text(_known(lambda: nvml.nvmlDeviceGetPciInfo(handle).busId)),
        total_mib=memory.total // MIB,
        used_mib=memory.used // MIB,
        utilisation=None if rates is None else int(rates.gpu),
        temperature=_known(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        power_w=None if power is None else power / 1000,
        power_limit_w=None if limit is None else limit / 1000,
        capability=None if capability is None else f"{capability[0]}.{capability[1]}",
        processes=tuple(
            _process(each) for each in _known(lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle)) or ()
        ),
    )


def _process(each: Any) -> Process:
    used = None if each.usedGpuMemory is None else each.usedGpuMemory // MIB
    return Process(each.pid, _text(_known(lambda: nvml.nvmlSystemGetProcessName(each.pid))) or "-", used)


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else "" if value is None else str(value)


def _known(call: Callable[[], T]) -> T | None:
    """None for what a slice does not have."""
    try:
        return call()
    except nvml.NVMLError:
        return None
