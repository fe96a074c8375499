"""The kernel manager for servers, against failures of provisioners that have nothing to do with GPUs."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from traitlets.config import Config

from gpu_kernels.kernels import GPUMappingKernelManager

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)", "{connection_file}"]


class Recording(LocalProvisioner):
    """Starts a process that only sleeps, and notes how it is cleaned up after."""

    cleanups: list[bool]
    instances: list[Recording] = []  # noqa: RUF012

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.cleanups = []
        self.starts = 0
        type(self).instances.append(self)

    async def pre_launch(self, **kwargs):
        self.starts += 1
        return await super().pre_launch(**kwargs)

    async def cleanup(self, restart=False):
        self.cleanups.append(restart)
        await super().cleanup(restart=restart)

    def get_shutdown_wait_time(self, recommended=5.0):
        return 0.2


class RefusesToStart(Recording):
    async def pre_launch(self, **kwargs):
        raise RuntimeError("no slice is free")


class RefusesToRestart(Recording):
    async def pre_launch(self, **kwargs):
        if self.starts:
            raise RuntimeError("no slice is free")
        return await super().pre_launch(**kwargs)


class FailsAfterLaunch(Recording):
    async def post_launch(self, **kwargs):
        raise RuntimeError("too late to refuse")


PROVISIONERS = {
    c.__name__.lower(): c for c in (Recording, RefusesToStart, RefusesToRestart, FailsAfterLaunch)
}


@pytest.fixture
def make_manager(tmp_path, monkeypatch):
    """Makes a manager of a class, with one kernel spec for each provisioner above, named like it."""
    for name in PROVISIONERS:
        folder = tmp_path / "kernels" / name
        folder.mkdir(parents=True)
        spec = {
            "argv": SLEEPER,
            "display_name": name,
            "language": "none",
            "metadata": {"kernel_provisioner": {"provisioner_name": name}},
        }
        (folder / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setattr(KernelProvisionerFactory, "is_provisioner_available", lambda *_: True)
    monkeypatch.setattr(
        KernelProvisionerFactory,
        "create_provisioner_instance",
        lambda self, kernel_id, spec, parent: PROVISIONERS[spec.display_name](
            kernel_id=kernel_id, kernel_spec=spec, parent=parent
        ),
    )
    Recording.instances = instances = []
    for other in PROVISIONERS.values():
        monkeypatch.setattr(other, "instances", instances)

    def make(cls: type[AsyncMappingKernelManager], **config):
        settings = Config({"KernelRestarter": {"time_to_dead": 0.05}, cls.__name__: config})
        return cls(
            config=settings,
            kernel_spec_manager=KernelSpecManager(kernel_dirs=[str(tmp_path / "kernels")]),
            connection_dir=str(tmp_path),
            root_dir=str(tmp_path),
        )

    yield make
    for instance in instances:
        # What a failing manager leaves open would keep its context from closing when it is collected.
        instance.parent._close_control_socket()
        if instance.process is not None:
            instance.process.kill()
            instance.process.wait()


async def test_the_stock_manager_cannot_stop_all_kernels_after_a_refusal(make_manager):
    # Why our manager exists. When this fails, upstream has repaired it, and the repair here can go.
    manager = make_manager(AsyncMappingKernelManager)
    await manager.start_kernel(kernel_name="recording")
    with pytest.raises(RuntimeError):
        await manager.start_kernel(kernel_name="refusestostart")
    with pytest.raises(Exception, match="Kernel does not exist"):
        await manager.shutdown_all(now=True)


async def test_all_kernels_are_stopped_after_a_refusal(make_manager):
    manager = make_manager(GPUMappingKernelManager)
    await manager.start_kernel(kernel_name="recording")
    with pytest.raises(RuntimeError, match="no slice is free"):
        await manager.start_kernel(kernel_name="refusestostart")
    await manager.shutdown_all(now=True)
    assert manager.list_kernel_ids() == []
    assert [instance.has_process for instance in Recording.instances] == [False, False]


async def test_a_refused_start_is_cleaned_up_after_and_leaves_no_connection_file(make_manager, tmp_path):
    manager = make_manager(GPUMappingKernelManager)
    with pytest.raises(RuntimeError):
        await manager.start_kernel(kernel_name="refusestostart")
    assert Recording.instances[0].cleanups == [False]
    assert [name for name in os.listdir(tmp_path) if name.startswith("kernel-")] == []


async def test_a_start_that_fails_after_the_launch_leaves_no_process(make_manager):
    manager = make_manager(GPUMappingKernelManager)
    with pytest.raises(RuntimeError, match="too late"):
        await manager.start_kernel(kernel_name="failsafterlaunch")
    assert not Recording.instances[0].has_process
    assert Recording.instances[0].cleanups == [False]


async def test_a_pending_kernel_that_was_refused_stays_listed_with_its_reason_until_it_is_deleted(
    make_manager,
):
    manager = make_manager(GPUMappingKernelManager, use_pending_kernels=True)
    kernel_id = await manager.start_kernel(kernel_name="refusestostart")
    with pytest.raises(RuntimeError, match="no slice is free"):
        await manager.get_kernel(kernel_id).ready
    assert kernel_id in manager
    await manager.shutdown_kernel(kernel_id)
    assert kernel_id not in manager


async def test_a_kernel_whose_restart_failed_is_cleaned_up_after_when_it_is_deleted(make_manager):
    manager = make_manager(GPUMappingKernelManager)
    kernel_id = await manager.start_kernel(kernel_name="refusestorestart")
    provisioner = Recording.instances[0]
    with pytest.raises(RuntimeError, match="no slice is free"):
        await manager.get_kernel(kernel_id).restart_kernel(now=True)
    assert provisioner.cleanups == [True]
    await manager.shutdown_kernel(kernel_id)
    assert provisioner.cleanups == [True, False]
    assert kernel_id not in manager


async def test_a_kernel_that_dies_again_and_again_is_cleaned_up_after_when_the_restarter_gives_up(
    make_manager,
):
    manager = make_manager(GPUMappingKernelManager)
    kernel_id = await manager.start_kernel(kernel_name="recording")
    provisioner = Recording.instances[0]
    while kernel_id in manager:
        if provisioner.process is not None:
            provisioner.process.kill()
        await asyncio.sleep(0.01)
    while manager._endings:
        await asyncio.gather(*manager._endings)
    assert provisioner.cleanups == [True] * 5 + [False]
