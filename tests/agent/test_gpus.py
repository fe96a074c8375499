from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gpu_kernels.remoting.agent.gpus import NoGpu, gpu_class_of, nvml_gpus, software_gpus
from gpu_kernels.remoting.agent.outside import gpu_memory, outside_memory
from gpu_kernels.resources.agents import OfferedGpu, OutsideMemory
from gpu_kernels.units import parse_size, slice_of, valid_class

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("name", "gpu_class"),
    [
        ("Tesla V100-SXM2-32GB", "V100"),
        ("Tesla V100-PCIE-16GB", "V100"),
        ("Tesla T4", "T4"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A100 80GB PCIe", "A100"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA B200", "B200"),
        ("Tesla P100-PCIE-16GB", "P100"),
        ("NVIDIA GeForce RTX 3090 Ti", "RTX3090Ti"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("NVIDIA RTX A6000", "RTX6000"),
        ("NVIDIA GeForce GTX 1080 Ti", "GTX1080Ti"),
        ("NVIDIA Something New", "Something-New"),
        ("???", "unknown"),
    ],
)
def test_a_devices_name_tells_its_class(name, gpu_class):
    assert gpu_class_of(name) == gpu_class
    assert valid_class(gpu_class)


def test_configured_patterns_come_first_and_must_give_a_usable_name():
    assert gpu_class_of("Tesla V100-SXM2-32GB", [(r"V100.*-(\d+)GB", r"V100-\1G")]) == "V100-32G"
    assert gpu_class_of("Tesla V100", [("V100", "no class name")]) == "Tesla-V100"


def test_software_gpus_say_what_they_are_and_keep_their_uuids():
    inventory = software_gpus("server-1", "V100", 32768, 2, "0.1.0")
    assert {gpu.device for gpu in inventory.gpus} == {"software"}
    assert {gpu.name for gpu in inventory.gpus} == {"V100 (software GPU)"}
    assert inventory == software_gpus("server-1", "V100", 32768, 2, "0.1.0")
    others = software_gpus("server-2", "V100", 32768, 2, "0.1.0")
    assert len({gpu.uuid for gpu in (*inventory.gpus, *others.gpus)}) == 4


def test_a_fiftieth_of_the_default_software_gpu_is_655_mib():
    (gpu,) = software_gpus("server-1", "V100", 32768, 1, "0.1.0").gpus
    assert slice_of(parse_size("0.02 V100"), gpu.allocatable_mib).mib == 655


class NvmlError(Exception):
    pass


def nvml_with_one_gpu(**changed):
    """NVML as nvidia-ml-py gives it, on a server with one V100."""
    return SimpleNamespace(
        NVMLError=NvmlError,
        nvmlMemory_v2=2,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: 1,
        nvmlSystemGetDriverVersion=lambda: "580.10",
        nvmlSystemGetCudaDriverVersion_v2=lambda: 13000,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda handle: "Tesla V100-SXM2-32GB",
        nvmlDeviceGetUUID=lambda handle: "GPU-abc",
        nvmlDeviceGetPciInfo=lambda handle: SimpleNamespace(busId="00000000:3B:00.0"),
        nvmlDeviceGetCudaComputeCapability=lambda handle: (7, 0),
        nvmlDeviceGetMemoryInfo=lambda handle, version: SimpleNamespace(
            total=32768 << 20, reserved=270 << 20, used=500 << 20
        ),
        **changed,
    )


def test_what_the_driver_reserves_is_not_allocatable(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", nvml_with_one_gpu())
    inventory = nvml_gpus()
    (gpu,) = inventory.gpus
    assert (gpu.total_mib, gpu.allocatable_mib) == (32768, 32498)
    assert (gpu.device, gpu.gpu_class, gpu.uuid) == ("nvidia", "V100", "GPU-abc")
    assert (gpu.compute_capability, gpu.pci_bus_id) == ("7.0", "00000000:3B:00.0")
    assert (inventory.driver_version, inventory.cuda_version) == ("580.10", 13000)
    assert gpu.offered() == OfferedGpu("GPU-abc", 0, "V100", "nvidia", gpu.name, 32768, 32498)
    with pytest.raises(ValueError, match="is more than 'total_mib'"):
        replace(gpu, allocatable_mib=40000).offered()


@pytest.mark.parametrize("lack", ["driver", "gpu"])
def test_a_server_without_gpus_says_so(monkeypatch, lack):
    def no_driver():
        raise NvmlError("Driver Not Loaded")

    changed = {"nvmlInit": no_driver} if lack == "driver" else {"nvmlDeviceGetCount": lambda: 0}
    nvml = nvml_with_one_gpu()
    vars(nvml).update(changed)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    with pytest.raises(NoGpu, match=r"NVML"):
        nvml_gpus()


def processes(**by_pid):
    return [SimpleNamespace(pid=int(pid[1:]), usedGpuMemory=mib << 20) for pid, mib in by_pid.items()]


def test_memory_that_no_worker_uses_is_told(monkeypatch):
    nvml = nvml_with_one_gpu(
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetComputeRunningProcesses=lambda handle: processes(p10=500, p11=900, p12=70),
        nvmlDeviceGetGraphicsRunningProcesses=lambda handle: processes(p12=70, p13=4),
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    held = gpu_memory(nvml_gpus())
    assert outside_memory(held, {10, 11}) == (OutsideMemory("GPU-abc", 74),)
    assert outside_memory(held, {10, 11, 12, 13}) == ()


def test_a_driver_that_does_not_tell_of_processes_raises_no_alarm(monkeypatch):
    def not_supported(handle):
        raise NvmlError("Not Supported")

    nvml = nvml_with_one_gpu(
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetComputeRunningProcesses=not_supported,
        nvmlDeviceGetGraphicsRunningProcesses=not_supported,
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert gpu_memory(nvml_gpus()).held == {}
