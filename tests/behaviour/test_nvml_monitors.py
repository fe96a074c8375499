"""What monitors of NVML show under a lease: their sequences of calls, by the same nvidia-ml-py."""

from __future__ import annotations

import json
from typing import Any

from .conftest import Way

# A program with memory on the first of the lease's two GPUs, until its input ends.
USER = """
c = Cuda()
c.copy_in(c.allocate(300 << 20), b"used")
say("up")
sys.stdin.read()
"""

# As gpustat, nvitop and jupyterlab-nvdashboard ask, each in its own order; what NVML does not know of a
# slice they take for unknown by these errors.
MONITORS = """
import json
import pynvml as N

def known(call, *arguments):
    try:
        return call(*arguments)
    except (N.NVMLError_NotSupported, N.NVMLError_Unknown):
        return None

def gpustat():
    N.nvmlInit()
    devices = []
    for index in range(N.nvmlDeviceGetCount()):
        handle = N.nvmlDeviceGetHandleByIndex(index)
        memory = known(N.nvmlDeviceGetMemoryInfo, handle, N.nvmlMemory_v2)
        processes = known(N.nvmlDeviceGetComputeRunningProcesses, handle)
        devices.append({
            "index": N.nvmlDeviceGetIndex(handle),
            "name": N.nvmlDeviceGetName(handle),
            "uuid": N.nvmlDeviceGetUUID(handle),
            "total": memory.total >> 20,
            "used": memory.used >> 20,
            "utilisation": known(N.nvmlDeviceGetUtilizationRates, handle).gpu,
            "processes": [[p.pid, p.usedGpuMemory and p.usedGpuMemory >> 20] for p in processes],
            "graphics": known(N.nvmlDeviceGetGraphicsRunningProcesses, handle),
            "unknown": [
                known(N.nvmlDeviceGetTemperature, handle, N.NVML_TEMPERATURE_GPU),
                known(N.nvmlDeviceGetFanSpeed, handle),
                known(N.nvmlDeviceGetEncoderUtilization, handle),
                known(N.nvmlDeviceGetDecoderUtilization, handle),
                known(N.nvmlDeviceGetPowerUsage, handle),
                known(N.nvmlDeviceGetEnforcedPowerLimit, handle),
            ],
        })
    told = {"driver": N.nvmlSystemGetDriverVersion(), "devices": devices}
    N.nvmlShutdown()
    return told

def nvitop():
    N.nvmlInitWithFlags(0)
    told = {"cuda": N.nvmlSystemGetCudaDriverVersion(), "devices": []}
    for index in range(N.nvmlDeviceGetCount()):
        handle = N.nvmlDeviceGetHandleByIndex(index)
        pci = N.nvmlDeviceGetPciInfo(handle)
        same = N.nvmlDeviceGetHandleByUUID(N.nvmlDeviceGetUUID(handle))
        asked = [
            known(N.nvmlDeviceGetBAR1MemoryInfo, handle),
            known(N.nvmlDeviceGetMaxClockInfo, handle, N.NVML_CLOCK_SM),
            known(N.nvmlDeviceGetClockInfo, handle, N.NVML_CLOCK_MEM),
            known(N.nvmlDeviceGetPcieThroughput, handle, N.NVML_PCIE_UTIL_TX_BYTES),
            known(N.nvmlDeviceGetDisplayActive, handle),
            known(N.nvmlDeviceGetDisplayMode, handle),
            known(N.nvmlDeviceGetPersistenceMode, handle),
            known(N.nvmlDeviceGetPerformanceState, handle),
            known(N.nvmlDeviceGetTotalEccErrors, handle, 1, 0),
            known(N.nvmlDeviceGetComputeMode, handle),
            known(N.nvmlDeviceGetMigMode, handle),
            known(N.nvmlDeviceGetSerial, handle),
            known(N.nvmlDeviceGetPowerManagementLimit, handle),
            known(N.nvmlDeviceGetProcessUtilization, handle, 0),
        ]
        told["devices"].append({
            "bus": pci.busId,
            "same": N.nvmlDeviceGetIndex(same),
            "capability": N.nvmlDeviceGetCudaComputeCapability(handle),
            "asked": asked,
        })
    N.nvmlShutdown()
    return told

def nvdashboard():
    N.nvmlInit()
    handles = [N.nvmlDeviceGetHandleByIndex(i) for i in range(N.nvmlDeviceGetCount())]
    told = {
        "nvlink": known(N.nvmlDeviceGetNvLinkVersion, handles[0], 0),
        "pcie": known(N.nvmlDeviceGetMaxPcieLinkGeneration, handles[0]),
        "utilisation": [N.nvmlDeviceGetUtilizationRates(handle).gpu for handle in handles],
        "memory": [N.nvmlDeviceGetMemoryInfo(handle).used >> 20 for handle in handles],
        "total": [N.nvmlDeviceGetMemoryInfo(handle).total >> 20 for handle in handles],
    }
    N.nvmlShutdown()
    return told

"""


def monitor(way: Way, name: str) -> Any:
    ended = way.check(MONITORS + f"say(json.dumps({name}()))")
    assert ended.err == ""
    return json.loads(ended.out)


def gpustat_when(way: Way, used: int) -> Any:
    """What gpustat shows once the agent, which is told of the use twice a second, knows of so much."""
    while (told := monitor(way, "gpustat"))["devices"][0]["used"] < used:
        pass
    return told


def test_gpustat_shows_the_slice_and_the_processes_of_this_lease_alone(
    forwarded: Way, another_lease: Way
) -> None:
    with forwarded.start(USER) as first, another_lease.start(USER) as stranger:
        for process in (first, stranger):
            assert process.stdout
            assert process.stdout.readline() == "up\n"
        used, idle = gpustat_when(forwarded, 300)["devices"]
        assert (used["index"], idle["index"]) == (0, 1)
        assert used["name"] == idle["name"] == "V100 (software GPU)"
        assert used["uuid"] != idle["uuid"]
        assert used["total"] == idle["total"] == 2048
        assert 300 <= used["used"] < 310
        assert idle["used"] == 0
        assert used["processes"] == [[first.pid, used["used"]]]
        assert idle["processes"] == used["graphics"] == []
        assert 0 <= used["utilisation"] <= 100
        assert used["unknown"] == [None] * 6
        with forwarded.start(USER) as second:
            assert second.stdout
            assert second.stdout.readline() == "up\n"
            both = gpustat_when(forwarded, 600)["devices"][0]
            assert both["processes"] == [[pid, 300] for pid in sorted([first.pid, second.pid])]
            second.communicate("")
        first.communicate("")
        stranger.communicate("")


def test_a_process_that_has_gone_or_was_forked_is_not_listed(forwarded: Way) -> None:
    program = """
        c = Cuda()
        c.copy_in(c.allocate(100 << 20), b"used")
        if (child := os.fork()) == 0:
            sys.stdin.read()
            os._exit(0)
        say(os.getpid())
        sys.stdin.read()
    """
    with forwarded.start(program) as process:
        assert process.stdout
        pid = int(process.stdout.readline())
        told = gpustat_when(forwarded, 100)
        assert [entry[0] for entry in told["devices"][0]["processes"]] == [pid]
        process.kill()
        process.communicate("")
    assert monitor(forwarded, "gpustat")["devices"][0]["processes"] == []


def test_nvitop_finds_what_a_slice_is_and_takes_the_rest_for_unknown(forwarded: Way) -> None:
    told = monitor(forwarded, "nvitop")
    assert told["cuda"] >= 12000
    for index, device in enumerate(told["devices"]):
        assert device["bus"] == "00000000:00:00.0"
        assert device["same"] == index
        assert device["capability"][0] >= 7
        assert set(map(str, device["asked"])) == {"None"}


def test_nvdashboard_can_draw_the_slice(forwarded: Way) -> None:
    told = monitor(forwarded, "nvdashboard")
    assert told == {
        "nvlink": None,
        "pcie": None,
        "utilisation": [0, 0],
        "memory": [0, 0],
        "total": [2048, 2048],
    }
