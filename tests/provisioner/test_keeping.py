"""Leases over time: kept while a kernel lives, whoever restarts, and ended when its server is no more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from gpu_kernels.client.keeper import KEEPER
from gpu_kernels.spawner.ports import free_port
from tests.provisioner.conftest import forget_all, point_at
from tests.provisioner.pool import Pool, wait_until

LEASE_TTL_S = 6.0
"""Renewed every two seconds: who renews may stand still for nearly four."""

SERVER = """
    import asyncio, sys
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    async def main():
        specs = KernelSpecManager(kernel_dirs=[sys.argv[1]])
        kernel = AsyncKernelManager(kernel_name="small", kernel_spec_manager=specs)
        await kernel.start_kernel()
        print(kernel.provisioner.process.pid, flush=True)
        await asyncio.sleep(600)

    asyncio.run(main())
"""


@pytest.fixture
def short_pool(tmp_path, monkeypatch):
    """A pool whose leases live for a moment."""
    # Connections are given none of these ports while the controller is away.
    pool = Pool(tmp_path, lease_ttl=LEASE_TTL_S, port=free_port())
    point_at(monkeypatch, pool.url)
    yield pool
    forget_all(KEEPER)
    pool.close()


def renewals(pool: Pool) -> float:
    """How much longer the one lease in force lives."""
    (lease,) = pool.in_force()
    return lease.expires_in


async def test_a_lease_outlives_its_time_to_live_while_its_kernel_lives(short_pool, make_kernel):
    kernel = make_kernel()
    await kernel.start_kernel()
    (lease,) = short_pool.in_force()
    for _ in range(2):
        left = renewals(short_pool)
        wait_until(lambda left=left: renewals(short_pool) > left)
    assert [kept.id for kept in short_pool.in_force()] == [lease.id]
    await kernel.shutdown_kernel(now=True)


async def test_a_controller_that_is_restarted_loses_no_lease(short_pool, make_kernel):
    kernel = make_kernel()
    await kernel.start_kernel()
    (before,) = short_pool.in_force()
    port = int(short_pool.url.rsplit(":", 1)[1])
    short_pool.stop_controller()
    KEEPER.round()
    short_pool.start_controller(port)
    KEEPER.round()
    (after,) = short_pool.in_force()
    assert (after.id, after.epoch, after.secret) == (before.id, before.epoch, before.secret)
    await kernel.shutdown_kernel(now=True)
    wait_until(lambda: short_pool.used_mib() == 0)


async def test_a_stop_while_the_controller_is_away_lets_the_lease_expire(short_pool, make_kernel, caplog):
    kernel = make_kernel()
    await kernel.start_kernel()
    port = int(short_pool.url.rsplit(":", 1)[1])
    short_pool.stop_controller()
    await kernel.shutdown_kernel(now=True)
    assert not kernel.has_kernel
    assert "was not released and will expire" in caplog.text
    short_pool.start_controller(port)
    wait_until(lambda: short_pool.leases() == [])


def test_a_server_that_is_killed_gives_its_slice_back_by_expiry(short_pool, specs, tmp_path):
    specs("small")
    code = textwrap.dedent(SERVER)
    server = subprocess.Popen(
        [sys.executable, "-c", code, str(specs.folder)], stdout=subprocess.PIPE, text=True
    )
    kernel_pid = int(server.stdout.readline())
    left = renewals(short_pool)
    wait_until(lambda: renewals(short_pool) > left)
    server.kill()
    server.wait()
    os.kill(kernel_pid, signal.SIGKILL)
    wait_until(lambda: short_pool.leases() == [] and short_pool.used_mib() == 0)
    ended = short_pool.student.list()
    assert all(lease.state in ("expired", "freed") for lease in ended)
