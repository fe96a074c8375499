"""Kernels that wait beside each other, and one that changes its mind about the size while it does."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from gpu_kernels.client import Slot
from gpu_kernels.provisioner import attachments
from tests.provisioner.pool import wait_until
from tests.provisioner.test_lazy_start import address_of, ask, full, lazy, waiting

__all__ = ["full", "lazy"]


async def test_kernels_that_wait_patiently_hold_no_thread_of_their_servers(pool, full, make_kernel, specs):
    """A server has a handful of threads for everything; here one, which waiting kernels leave alone."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=1))
    specs("patient", wait_s=600)
    kernels = [make_kernel("patient") for _ in range(3)]
    starts = [asyncio.create_task(kernel.start_kernel()) for kernel in kernels]
    with ThreadPoolExecutor(1) as own:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(own, wait_until, lambda: len(waiting(pool)) == 3)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "served"), 60) == "served"
        await loop.run_in_executor(own, full)
        await asyncio.wait_for(asyncio.gather(*starts), 60)
        assert len(pool.in_force()) == 3
    for kernel in kernels:
        await kernel.shutdown_kernel(now=True)


def behind(pool):
    """Another notebook, which waits for as much behind the kernel."""
    return pool.student.ask("0.04 V100", key="o", slot=Slot("", "o"), holder="other", wait=300)


async def test_who_waits_and_asks_for_less_keeps_the_place_in_the_line(pool, full, lazy):
    kernel = lazy("0.04 V100")
    await kernel.start_kernel()
    await asyncio.to_thread(wait_until, lambda: waiting(pool))
    (first,) = [lease for lease in pool.leases() if lease.queued]
    await asyncio.to_thread(behind, pool)
    told = await asyncio.to_thread(ask, address_of(kernel), do="attach", size="0.02 V100", seconds=0)
    attachment = attachments.get(kernel.kernel_id)
    await asyncio.to_thread(wait_until, lambda: attachment.view().place.position is not None)
    (less,) = [lease for lease in pool.leases() if lease.queued and lease.holder == kernel.kernel_id]
    assert (told["state"], told["size"]) == ("waiting", "0.02 V100")
    assert (less.size, less.position, less.created_at) == ("0.02 V100", 1, first.created_at)
    full()
    answer = await asyncio.to_thread(ask, address_of(kernel), do="wait")
    assert (answer["lease"], answer["size"]) == (less.id, "0.02 V100")
    await kernel.shutdown_kernel(now=True)


async def test_a_size_that_is_refused_to_who_waits_leaves_the_place_in_the_line(pool, full, lazy):
    kernel = lazy()
    await kernel.start_kernel()
    await asyncio.to_thread(wait_until, lambda: waiting(pool))
    (first,) = [lease for lease in pool.leases() if lease.queued]
    answer = await asyncio.to_thread(ask, address_of(kernel), do="attach", size="0.1 H100")
    assert answer["state"] == "refused"
    assert answer["text"].endswith("You still wait for 0.02 V100, and your place in the line stays.")
    assert [lease.id for lease in pool.leases() if lease.queued] == [first.id]
    full()
    answer = await asyncio.to_thread(ask, address_of(kernel), do="wait")
    assert (answer["state"], answer["lease"]) == ("attached", first.id)
    await kernel.shutdown_kernel(now=True)
    await asyncio.to_thread(wait_until, lambda: pool.leases() == [])
