"""A user of NVML as nvidia-ml-py gives it: prints what it learns as JSON. Run under the runtime by tests."""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from typing import Any

import pynvml


def told(call: Any, *arguments: Any) -> Any:
    """What the call says, or the name of the error that it raises."""
    try:
        return call(*arguments)
    except pynvml.NVMLError as error:
        return type(error).__name__


def device() -> dict[str, Any]:
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    memory, memory2 = (
        pynvml.nvmlDeviceGetMemoryInfo(handle),
        pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2),
    )
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    pci = pynvml.nvmlDeviceGetPciInfo(handle)
    rates = pynvml.nvmlDeviceGetUtilizationRates(handle)
    facts = {
        "count": pynvml.nvmlDeviceGetCount(),
        "name": pynvml.nvmlDeviceGetName(handle),
        "uuid": uuid,
        "index": pynvml.nvmlDeviceGetIndex(handle),
        "memory": [memory.total, memory.used, memory.free],
        "memory2": [memory2.total, memory2.used, memory2.free, memory2.reserved],
        "utilisation": [rates.gpu, rates.memory],
        "capability": pynvml.nvmlDeviceGetCudaComputeCapability(handle),
        "pci": [pci.busId, pci.busIdLegacy, pci.bus],
        "driver": pynvml.nvmlSystemGetDriverVersion(),
        "cuda": pynvml.nvmlSystemGetCudaDriverVersion(),
        "nvml": pynvml.nvmlSystemGetNVMLVersion(),
        "own_name": pynvml.nvmlSystemGetProcessName(os.getpid()),
        "compute": [[p.pid, p.usedGpuMemory] for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)],
        "graphics": pynvml.nvmlDeviceGetGraphicsRunningProcesses(handle),
        "by_uuid": pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByUUID(uuid)),
        "by_uuidv": pynvml.nvmlDeviceGetIndex(
            pynvml.nvmlDeviceGetHandleByUUIDV(uuid.encode(), pynvml.NVML_UUID_TYPE_ASCII)
        ),
        "by_bus": pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByPciBusId(pci.busId)),
        "absent_index": told(pynvml.nvmlDeviceGetHandleByIndex, 64),
        "absent_uuid": told(pynvml.nvmlDeviceGetHandleByUUID, "GPU-elsewhere"),
        "temperature": told(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
        "power": told(pynvml.nvmlDeviceGetPowerUsage, handle),
        "fan": told(pynvml.nvmlDeviceGetFanSpeed, handle),
        "clock": told(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
        "error": pynvml.nvmlErrorString(pynvml.NVML_ERROR_GPU_IS_LOST),
        "pid": os.getpid(),
    }
    pynvml.nvmlShutdown()
    facts["after_shutdown"] = told(pynvml.nvmlDeviceGetCount)
    return facts


def every_name() -> dict[str, int]:
    """Resolves every function that pynvml knows; how many are answered, unsupported and missing."""
    pynvml.nvmlInit()
    names = set(re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', inspect.getsource(pynvml)))
    missing = [
        name for name in names if told(pynvml._nvmlGetFunctionPointer, name) == "NVMLError_FunctionNotFound"
    ]
    return {"names": len(names), "missing": len(missing)}


def after_fork() -> dict[str, Any]:
    pynvml.nvmlInit()
    child = os.fork()
    if child == 0:
        os._exit(pynvml.nvmlDeviceGetCount())
    return {"child_counts": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}


def first_call() -> dict[str, Any]:
    return {"init": told(pynvml.nvmlInit), "count": told(pynvml.nvmlDeviceGetCount)}


def one_call_a_line() -> None:
    """Asks the device's name each time that a line comes in, and prints what it is told."""
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    for _ in sys.stdin:
        print(told(pynvml.nvmlDeviceGetName, handle), flush=True)


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
