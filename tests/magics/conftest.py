"""Fixtures: a kernel's slice, looked after by a real attach point over a real pool, and an IPython."""

from __future__ import annotations

import threading

import pytest
from IPython.core.interactiveshell import InteractiveShell

from gpu_kernels.client import Slot
from gpu_kernels.client.lease_request import LeaseRequest
from gpu_kernels.magics import load_ipython_extension
from gpu_kernels.provisioner.attach_point import AttachPoint
from gpu_kernels.provisioner.attachment import Attachment
from gpu_kernels.remoting.environment import LEASE_VARIABLES
from tests.provisioner.conftest import pool, running_pool  # noqa: F401 - fixtures
from tests.provisioner.pool import settled


@pytest.fixture
def attachment(pool, monkeypatch, tmp_path):  # noqa: F811
    """This process's attachment, of 0.02 V100 as a kernel spec names it; it has asked for nothing."""
    # Tests that run beside this one have a kernel of the same name: each its own folder for the socket.
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    made = Attachment("kernel-1", lambda: True)
    made.be_for(LeaseRequest("0.02 V100", Slot("", "a"), "key-1", "kernel-1"))
    point = AttachPoint(made)
    monkeypatch.setenv("GPU_KERNELS_ATTACH", point.address)
    for name in LEASE_VARIABLES:
        monkeypatch.setenv(name, "")  # so that what the magics set is taken away after the test
        monkeypatch.delenv(name)
    yield made
    point.close()
    made.end()


@pytest.fixture
def attached(attachment):
    """The same with its slice."""
    attachment.want()
    assert settled(attachment).state == "attached"
    return attachment


@pytest.fixture
def full(pool):  # noqa: F811
    """The pool's GPU is taken; calling it gives it back."""
    pool.limit(5000)
    blocker = pool.student.ask("1 V100", key="b", slot=Slot("", "b"), holder="blocker")
    return lambda: pool.student.release(blocker.id, "blocker")


@pytest.fixture
def shell():
    """An IPython with the magics, and no others."""
    made = InteractiveShell.instance()
    load_ipython_extension(made)
    yield made
    InteractiveShell.clear_instance()


@pytest.fixture
def later():
    """Runs something in another thread, and waits for its end after the test."""
    threads = []

    def start(action, *arguments) -> None:
        threads.append(thread := threading.Thread(target=action, args=arguments))
        thread.start()

    yield start
    for thread in threads:
        thread.join(60)
