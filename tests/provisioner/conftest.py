"""Fixtures: a real pool, and kernel managers whose kernels get their slices from it."""

from __future__ import annotations

import json
import sys

import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager, KernelManager
from traitlets.config import Config

from gpu_kernels.client.keeper import KEEPER, Keeper
from gpu_kernels.provisioner import attachments, leasing
from tests.provisioner.pool import COURSE, Pool

PROCESS = [sys.executable, "-c", "import time; time.sleep(600)", "{connection_file}"]
"""A process that answers nothing: most tests need none that does, and Python alone starts quickly."""


@pytest.fixture(scope="session")
def running_pool(tmp_path_factory):
    pool = Pool(tmp_path_factory.mktemp("pool"))
    yield pool
    pool.close()


@pytest.fixture
def pool(running_pool, monkeypatch):
    """The pool, empty, and this process's environment pointing at it as a student's."""
    point_at(monkeypatch, running_pool.url)
    yield running_pool
    forget_all(KEEPER)
    running_pool.empty()


def forget_all(keeper: Keeper) -> None:
    """Let go of every lease and request, as if all kernels had ended."""
    for attachment in attachments.all():
        attachments.remove(attachment)
        attachment.end()
    for holder in keeper.holders():
        keeper.forget(holder)


def point_at(monkeypatch, url: str) -> None:
    monkeypatch.setenv("GPU_KERNELS_CONTROLLER", url)
    monkeypatch.setenv("GPU_KERNELS_TOKEN", "student-token")
    monkeypatch.setenv("GPU_KERNELS_COURSE", COURSE)
    for name in ("JUPYTERHUB_API_TOKEN", "JUPYTERHUB_SERVER_NAME", "JPY_SESSION_NAME", "GPU_KERNELS_LEASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(leasing, "_clients", {})


@pytest.fixture
def specs(tmp_path):
    """Writes kernel specs: ``specs("small", "0.02 V100", argv=..., env=..., **config)``."""
    folder = tmp_path / "kernels"

    def write(name: str, size: str = "0.02 V100", argv=PROCESS, env=None, **config) -> str:
        (folder / name).mkdir(parents=True, exist_ok=True)
        spec = {
            "argv": argv,
            "display_name": f"Test ({size})",
            "language": "python",
            "env": env or {},
            "metadata": {
                "kernel_provisioner": {
                    "provisioner_name": "gpu-slice",
                    "config": {"size": size, "start": "patient", "wait_s": 0, "watch_s": 0, **config},
                }
            },
        }
        (folder / name / "kernel.json").write_text(json.dumps(spec))
        return name

    write.folder = folder
    return write


@pytest.fixture
def make_kernel(specs, tmp_path):
    """Makes a kernel manager for a spec; what it started is killed after the test."""
    made = []

    def make(name: str = "small", cls: type[KernelManager] = AsyncKernelManager, **config) -> KernelManager:
        if not (specs.folder / name).exists():
            specs(name)
        manager = cls(
            kernel_name=name,
            kernel_spec_manager=KernelSpecManager(kernel_dirs=[str(specs.folder)]),
            connection_file=str(tmp_path / f"connection-{len(made)}.json"),
            shutdown_wait_time=0.2,
            config=Config(config),
        )
        made.append(manager)
        return manager

    yield make
    for manager in made:
        if manager.provisioner is not None and manager.provisioner.process is not None:
            manager.provisioner.process.kill()
            manager.provisioner.process.wait()
