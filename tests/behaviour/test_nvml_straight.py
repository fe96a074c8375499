"""NVML and ``nvidia-smi`` on a software GPU without a lease: what this process has of it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gpu_kernels import __version__
from gpu_kernels.remoting.environment import software_environment
from tests.native_build import python_path

from .conftest import PRELUDE

ASKS = """
import pynvml as nvml
nvml.nvmlInit()
gpu = nvml.nvmlDeviceGetHandleByIndex({index})
def shown():
    used = nvml.nvmlDeviceGetMemoryInfo(gpu).used >> 20
    pids = [each.pid for each in nvml.nvmlDeviceGetComputeRunningProcesses(gpu)]
    return used, pids == [os.getpid()]
"""


def run(program: str, index: int = 0, **extra: str) -> str:
    env = software_environment(os.environ | {"PYTHONPATH": python_path()} | extra)
    command = [sys.executable, "-c", PRELUDE + ASKS.format(index=index) + program]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(autouse=True)
def nameless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process may have named the software GPU."""
    monkeypatch.delenv("GPU_KERNELS_SOFTGPU_NAME", raising=False)


def test_the_software_gpu_is_shown_with_what_this_process_uses_of_it() -> None:
    program = """
import time
say(nvml.nvmlSystemGetDriverVersion(), nvml.nvmlDeviceGetMemoryInfo(gpu).total >> 20, *shown())
say(nvml.nvmlDeviceGetCudaComputeCapability(gpu), nvml.nvmlDeviceGetName(gpu))
from cuda.bindings import driver
driver.cuInit(0)
_, device = driver.cuDeviceGet(0)
_, context = driver.cuDevicePrimaryCtxRetain(device)
driver.cuCtxPushCurrent(context)
driver.cuMemAlloc(50 << 20)
while shown()[0] == 0: pass
_, uuid = driver.cuDeviceGetUuid(device)
say(*shown(), uuid.bytes.hex() == nvml.nvmlDeviceGetUUID(gpu).removeprefix("GPU-").replace("-", ""))
"""
    assert run(program, GPU_KERNELS_SOFTGPU_MEMORY_MIB="600") == (
        f"{__version__} 600 0 False\n(7, 5) Software GPU\n50 True True\n"
    )


def test_devices_that_cuda_does_not_show_are_shown() -> None:
    env = {"GPU_KERNELS_SOFTGPU_MEMORY_MIB": "64,128"}
    program = "say(nvml.nvmlDeviceGetCount(), nvml.nvmlDeviceGetMemoryInfo(gpu).total >> 20)"
    assert run("os.environ['CUDA_VISIBLE_DEVICES'] = '0'\n" + program, 1, **env) == "2 128\n"


def test_asking_leaves_cuda_to_a_child_of_fork() -> None:
    program = """
shown()
from cuda.bindings import driver
child = os.fork()
if child == 0:
    result, = driver.cuInit(0)
    os._exit(int(result))
say(os.waitpid(child, 0)[1])
"""
    assert run(program) == "0\n"


@pytest.mark.parametrize("arguments", [["-L"], []])
def test_nvidia_smi_shows_it(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "gpu_kernels.cli", "run", "--software", "--memory", "64", "--"]
    done = subprocess.run([*command, "nvidia-smi", *arguments], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "Software GPU" in done.stdout
    if not arguments:
        assert "0MiB / 64MiB" in done.stdout
