"""When a kernel has a lease: through start, restart and stop, and in every failure."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from dataclasses import replace

import pytest
from jupyter_client.manager import KernelManager

from gpu_kernels.client import lease_holder
from gpu_kernels.client.keeper import KEEPER
from gpu_kernels.errors import CourseLimit, InvalidSize, NoSuchClass, PoolUnavailable
from gpu_kernels.provisioner import KernelDiedAtOnce, NoSlice, attachments
from tests.provisioner.conftest import point_at
from tests.provisioner.pool import wait_until

SESSION = {**os.environ, "JPY_SESSION_NAME": "/home/ada/first_steps.ipynb"}


def environment_of(manager: KernelManager) -> dict[str, str]:
    """The environment that the kernel's process was started with."""
    with open(f"/proc/{manager.provisioner.process.pid}/environ", "rb") as file:
        pairs = (entry.partition(b"=") for entry in file.read().split(b"\0") if entry)
        return {name.decode(): value.decode() for name, _, value in pairs}


async def test_a_kernel_takes_its_slice_when_it_starts_and_gives_it_back_when_it_stops(pool, make_kernel):
    kernel = make_kernel()
    await kernel.start_kernel()
    (lease,) = pool.in_force()
    assert (lease.size, lease.thousandths, lease.mib, lease.course) == ("0.02 V100", 20, 655, "ml101")
    assert KEEPER.keeps() == [lease.id]
    await kernel.shutdown_kernel()
    assert pool.in_force() == []
    assert KEEPER.keeps() == []
    wait_until(lambda: pool.used_mib() == 0)


async def test_the_kernels_process_is_told_of_its_lease(pool, make_kernel, specs):
    specs("small", env={"GPU_KERNELS_LEASE": "from the spec", "LD_LIBRARY_PATH": "/mine"})
    kernel = make_kernel("small")
    await kernel.start_kernel()
    (lease,) = pool.in_force()
    environ = environment_of(kernel)
    assert environ["GPU_KERNELS_LEASE"] == lease.id
    assert environ["GPU_KERNELS_EPOCH"] == str(lease.epoch)
    assert environ["GPU_KERNELS_SECRET"] == lease.secret
    assert environ["GPU_KERNELS_SIZE"] == "0.02 V100"
    client, libraries, mine = environ["LD_LIBRARY_PATH"].split(":")
    assert client.endswith("remoting/lib/client")
    assert libraries.endswith("remoting/lib/libraries")
    assert mine == "/mine"


@pytest.mark.parametrize("now", [True, False])
async def test_a_restart_keeps_the_lease(pool, make_kernel, now):
    kernel = make_kernel()
    await kernel.start_kernel()
    (before,) = pool.in_force()
    pid = kernel.provisioner.process.pid
    await kernel.restart_kernel(now=now)
    (after,) = pool.in_force()
    assert kernel.provisioner.process.pid != pid
    assert (after.id, after.epoch) == (before.id, before.epoch)
    assert environment_of(kernel)["GPU_KERNELS_LEASE"] == before.id
    await kernel.shutdown_kernel(now=True)
    assert pool.in_force() == []


async def test_a_restart_is_not_refused_while_the_course_is_over_its_limit(pool, make_kernel):
    kernel = make_kernel()
    await kernel.start_kernel()
    pool.limit(10)
    await kernel.restart_kernel(now=True)
    assert len(pool.in_force()) == 1


async def test_a_lease_taken_back_meanwhile_is_replaced_at_the_restart(pool, make_kernel):
    kernel = make_kernel()
    await kernel.start_kernel()
    (before,) = pool.in_force()
    pool.admin.revoke(before.id, "maintenance")
    await kernel.restart_kernel(now=True)
    (after,) = pool.in_force()
    assert after.id != before.id
    assert environment_of(kernel)["GPU_KERNELS_LEASE"] == after.id


async def test_a_kernel_that_cannot_get_its_slice_again_restarts_without_one_and_knows_why(pool, make_kernel):
    kernel = make_kernel()
    await kernel.start_kernel()
    pool.limit(10)
    pool.admin.revoke(pool.in_force()[0].id, "maintenance")
    await kernel.restart_kernel(now=True)
    assert pool.in_force() == []
    environ = environment_of(kernel)
    assert "GPU_KERNELS_LEASE" not in environ
    assert "GPU_KERNELS_SECRET" not in environ
    assert "maintenance" in environ["GPU_KERNELS_REFUSAL"]
    assert "ml101" in environ["GPU_KERNELS_REFUSAL"]
    pool.limit(1000)
    await kernel.restart_kernel(now=True)
    assert len(pool.in_force()) == 1
    assert "GPU_KERNELS_REFUSAL" not in environment_of(kernel)


async def test_a_refusal_has_the_controllers_text_and_leaves_nothing(pool, make_kernel):
    pool.limit(30)
    first, second = make_kernel(), make_kernel()
    await first.start_kernel()
    with pytest.raises(CourseLimit) as refusal:
        await second.start_kernel()
    assert "ml101" in str(refusal.value)
    assert "\n" in str(refusal.value)
    assert "Traceback" not in str(refusal.value)
    assert len(pool.in_force()) == 1
    assert not second.has_kernel


@pytest.mark.parametrize(
    ("size", "error"),
    [("0.02 H900", NoSuchClass), ("1.5 V100", InvalidSize), ("-1 V100", InvalidSize), ("", InvalidSize)],
)
async def test_a_size_that_cannot_be_had_is_an_error_with_the_reason(pool, make_kernel, specs, size, error):
    specs("odd", size)
    with pytest.raises(error):
        await make_kernel("odd").start_kernel()
    assert pool.leases() == []


async def test_a_kernel_waits_for_a_slice_no_longer_than_it_was_told(pool, make_kernel, specs, monkeypatch):
    monkeypatch.setattr(lease_holder, "LOOK_UP_S", 0.05)
    specs("whole", "1 V100")
    specs("patient", "1 V100", wait_s=600)
    await make_kernel("whole").start_kernel()
    pool.limit(5000)
    starting = asyncio.ensure_future(make_kernel("patient").start_kernel())
    await asyncio.to_thread(wait_until, lambda: any(lease.queued for lease in pool.leases()))
    (waiting,) = [attachment for attachment in attachments.all() if attachment.asks]
    holder = waiting.asking.holder
    holder.request = replace(
        holder.request, wait=0.5
    )  # as if it had been told so: that is over now, or in a moment
    with pytest.raises(NoSlice, match=r"within 0.5 seconds\.\nYou are next in the line") as refusal:
        await starting
    assert "Python 3" in str(refusal.value)
    assert len(pool.leases()) == 1


async def test_a_kernel_that_waits_gets_the_slice_that_another_gives_back(pool, make_kernel, specs):
    pool.limit(5000)
    specs("whole", "1 V100", wait_s=100)
    first, second = make_kernel("whole"), make_kernel("whole")
    await first.start_kernel()
    waiting = asyncio.ensure_future(second.start_kernel())
    await asyncio.to_thread(wait_until, lambda: any(lease.queued for lease in pool.leases()))
    await first.shutdown_kernel(now=True)
    await waiting
    assert [lease.holder for lease in pool.in_force()] == [second.kernel_id]


async def test_a_start_that_is_cancelled_while_it_waits_leaves_nothing(pool, make_kernel, specs):
    pool.limit(5000)
    specs("whole", "1 V100", wait_s=100)
    first, second = make_kernel("whole"), make_kernel("whole")
    await first.start_kernel()
    waiting = asyncio.ensure_future(second.start_kernel())
    await asyncio.to_thread(wait_until, lambda: any(lease.queued for lease in pool.leases()))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await first.shutdown_kernel(now=True)
    await asyncio.to_thread(wait_until, lambda: pool.leases() == [])


async def test_a_controller_that_does_not_answer_is_said_within_the_wait(monkeypatch, make_kernel):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    point_at(monkeypatch, f"http://127.0.0.1:{port}")
    with pytest.raises(PoolUnavailable, match="does not answer") as refusal:
        await make_kernel().start_kernel()
    assert "Python 3" in str(refusal.value)


async def test_a_server_without_a_pool_says_so(monkeypatch, make_kernel):
    point_at(monkeypatch, "")
    with pytest.raises(PoolUnavailable, match="No GPU pool is configured"):
        await make_kernel().start_kernel()


async def test_a_kernel_that_dies_at_once_is_said_with_its_last_words_and_gives_its_slice_back(
    pool, make_kernel, specs
):
    specs("broken", argv=[sys.executable, "-m", "no_such_kernel"], watch_s=30)
    kernel = make_kernel("broken")
    with pytest.raises(KernelDiedAtOnce) as death:
        await kernel.start_kernel()
    assert "exit status 1" in str(death.value)
    assert "No module named no_such_kernel" in str(death.value)
    assert not kernel.has_kernel
    assert pool.in_force() == []


async def test_a_command_that_does_not_exist_gives_the_slice_back(pool, make_kernel, specs):
    specs("absent", argv=["/no/such/program"], watch_s=1)
    with pytest.raises(FileNotFoundError):
        await make_kernel("absent").start_kernel()
    assert pool.in_force() == []


async def test_a_launch_that_cannot_be_prepared_gives_the_slice_back(pool, make_kernel):
    kernel = make_kernel()
    kernel.ip = "192.0.2.1"
    with pytest.raises(RuntimeError, match="local interface"):
        await kernel.start_kernel()
    assert pool.in_force() == []


async def test_a_reload_while_the_first_start_runs_shares_one_lease_and_the_last_one_gives_it_back(
    pool, make_kernel
):
    first, second = make_kernel(), make_kernel()
    await asyncio.gather(first.start_kernel(env=SESSION), second.start_kernel(env=SESSION))
    (lease,) = pool.in_force()
    managers = {manager.kernel_id: manager for manager in (first, second)}
    holder = managers.pop(lease.holder)
    (other,) = managers.values()
    await other.shutdown_kernel(now=True)
    assert [left.id for left in pool.in_force()] == KEEPER.keeps() == [lease.id]
    await holder.shutdown_kernel(now=True)
    assert pool.in_force() == []


async def test_change_kernel_swaps_the_slices_although_the_course_has_room_for_one_only(
    pool, make_kernel, specs
):
    pool.limit(100)
    specs("large", "0.1 V100")
    small, large = make_kernel("small"), make_kernel("large")
    await small.start_kernel(env=SESSION)
    await large.start_kernel(env=SESSION)
    await small.shutdown_kernel(now=True)
    assert [(lease.size, lease.holder) for lease in pool.in_force()] == [("0.1 V100", large.kernel_id)]


async def test_what_is_written_down_about_a_kernel_names_the_lease_and_not_the_secret(pool, make_kernel):
    kernel = make_kernel()
    await kernel.start_kernel()
    (lease,) = pool.in_force()
    info = await kernel.provisioner.get_provisioner_info()
    assert info["lease"]["id"] == lease.id
    assert lease.secret not in repr(info)
    later = make_kernel()
    await later.pre_start_kernel()
    await later.provisioner._release()
    await later.provisioner.load_provisioner_info(info)
    view = later.provisioner._attachment.view()
    assert (view.state, view.lease.id) == ("attached", lease.id)
    assert KEEPER.keeps() == [lease.id]


async def test_two_kernels_do_not_share_their_connection_info(pool, make_kernel):
    first, second = make_kernel(), make_kernel()
    await first.start_kernel()
    await second.start_kernel()
    assert first.provisioner.connection_info["key"] != second.provisioner.connection_info["key"]


async def test_a_kernel_that_is_to_get_no_token_gets_it_under_no_name(pool, make_kernel, specs, monkeypatch):
    monkeypatch.setenv("JPY_API_TOKEN", "student-token")
    monkeypatch.setenv("JUPYTERHUB_API_URL", "http://hub.example")
    specs("ours", gives_token=True)
    specs("theirs", gives_token=False)
    ours, theirs = make_kernel("ours"), make_kernel("theirs")
    for kernel in (ours, theirs):
        await kernel.start_kernel()
    with_token, without = environment_of(ours), environment_of(theirs)
    assert with_token["GPU_KERNELS_TOKEN"] == with_token["JPY_API_TOKEN"] == "student-token"
    gone = {"GPU_KERNELS_TOKEN", "JPY_API_TOKEN", "JUPYTERHUB_API_URL"}
    assert gone.isdisjoint(without)
    assert "GPU_KERNELS_LEASE" in without
    for kernel in (ours, theirs):
        await kernel.shutdown_kernel(now=True)
