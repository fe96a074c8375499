"""The command line and environment of a worker: the whole of what it is told, made from its grant."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from gpu_kernels.remoting import environment
from gpu_kernels.remoting.agent.gpus import Gpu, Inventory
from gpu_kernels.remoting.agent.grants import Grant
from gpu_kernels.remoting.agent.settings import WorkerSettings


def command(
    grant: Grant,
    inventory: Inventory,
    control_fd: int,
    mark_fd: int,
    settings: WorkerSettings,
    live_until_ms: int,
    own_mib: int,
    file_fd: int | None = None,
) -> list[str]:
    """The argument vector of docs/design.md, "Agent and worker". It holds no secret. ``own_mib`` is what
    the worker may take of this machine's memory beside its slices; ``file_fd`` is its slice file. The
    descriptors are all that the worker keeps open of what it inherits."""
    gpus = granted_gpus(grant, inventory)
    software = gpus[0].device == environment.SOFTWARE
    driver = str(settings.native.softgpu_driver) if software else settings.nvidia_driver
    return [
        str(settings.program),
        *("--control-fd", str(control_fd)),
        *("--mark-fd", str(mark_fd)),
        *("--seccomp", settings.seccomp),
        *("--driver", driver),
        *("--memory-mib", _list(part.mib for part in grant.slices)),
        *("--context-mib", _list(gpu.context_mib for gpu in gpus)),
        *("--thousandths", _list(part.thousandths for part in grant.slices)),
        *("--name", gpus[0].name),
        *("--uuid", _list(gpu.uuid for gpu in gpus)),
        *("--live-until", str(live_until_ms)),
        *("--host-memory-mib", str(own_mib)),
        *(() if file_fd is None else ("--slice-file-fd", str(file_fd))),
        *(("--libraries", ":".join(settings.libraries)) if settings.libraries else ()),
    ]


def worker_environment(
    grant: Grant,
    inventory: Inventory,
    settings: WorkerSettings,
    own: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """A clean environment: nothing of the agent's own (it holds the token) but what is named."""
    values = os.environ if own is None else own
    env = {name: values[name] for name in settings.kept_variables if name in values}
    env |= {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/"}
    gpus = granted_gpus(grant, inventory)
    if gpus[0].device == environment.SOFTWARE:
        env |= _software(grant, gpus, settings)
    else:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(gpu.uuid for gpu in gpus)
        env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        # The driver's cache of compiled kernels would be shared by leases of different users.
        env["CUDA_CACHE_DISABLE"] = "1"
    return env


def granted_gpus(grant: Grant, inventory: Inventory) -> list[Gpu]:
    """The GPUs of the grant's slices, in their order."""
    by_uuid = inventory.by_uuid()
    return [by_uuid[part.gpu] for part in grant.slices]


def _software(grant: Grant, gpus: Sequence[Gpu], settings: WorkerSettings) -> dict[str, str]:
    env = {
        environment.SOFTGPU_MEMORY: _list(part.mib for part in grant.slices),
        environment.SOFTGPU_UUID: _list(gpu.uuid for gpu in gpus),
        environment.SOFTGPU_NAME: gpus[0].name,
        environment.SOFTGPU_LOG: "stderr",
    }
    if settings.software_threads is not None:
        env[environment.SOFTGPU_THREADS] = str(settings.software_threads)
    return env


def _list(items: Iterable[object]) -> str:
    return ",".join(str(item) for item in items)
