"""What it costs to hold a worker: its start and its end, with all that holds it beside with nothing of it.

A start is from before the agent makes the worker's process until the worker says that it can serve; an end
from the kill until nothing of it lives. The real worker with a software GPU, by the agent's own code, in
pairs that take turns in being first. As root a held worker has an account of its own; where the cgroup v2
tree may be written to, a cgroup of its own; and always its filter.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.figures import Figure, main, median
from gpu_kernels.client import LeaseSlice
from gpu_kernels.remoting.agent.accounts import UNUSED_UIDS
from gpu_kernels.remoting.agent.cgroups import OFF, mounts
from gpu_kernels.remoting.agent.clock import clock
from gpu_kernels.remoting.agent.gpus import Inventory, software_gpus
from gpu_kernels.remoting.agent.grants import Grant
from gpu_kernels.remoting.agent.marks import Marks
from gpu_kernels.remoting.agent.settings import WorkerSettings
from gpu_kernels.remoting.agent.workers import Workers
from gpu_kernels.remoting.paths import native_build

PAIRS = 20
SLICE_MIB = 64


def measure(smallest: bool) -> list[Figure]:
    pairs = 1 if smallest else PAIRS
    with tempfile.TemporaryDirectory(prefix="gpu-kernels-bench-") as folder, _cgroup() as cgroup:
        return asyncio.run(_measure(Path(folder), cgroup, pairs))


async def _measure(folder: Path, cgroup: str, pairs: int) -> list[Figure]:
    native = native_build()
    inventory = software_gpus("bench", "V100", SLICE_MIB, 1, "0")
    loose = WorkerSettings(native, native.worker, "libcuda.so.1", seccomp="off")
    held = replace(loose, seccomp="required", uids=UNUSED_UIDS if os.geteuid() == 0 else None, cgroups=cgroup)
    kinds = [_workers(inventory, settings, folder) for settings in (loose, held)]
    samples: list[list[tuple[float, float]]] = [[], []]
    for pair in range(-1, pairs):  # the first is for what is loaded once
        for kind in (0, 1) if pair % 2 else (1, 0):
            taken = await _start_and_end(kinds[kind], inventory)
            if pair >= 0:
                samples[kind].append(taken)
    starts = [[start for start, _ in each] for each in samples]
    ends = [[end for _, end in each] for each in samples]
    more = [
        median(1e3 * (with_all - without) for without, with_all in zip(*each, strict=True))
        for each in (starts, ends)
    ]
    return [
        Figure("worker start, more than without confinement", more[0], "ms", "lower", aim=50.0),
        Figure("worker start, without confinement", 1e3 * median(starts[0]), "ms", "lower"),
        Figure("worker start, with confinement", 1e3 * median(starts[1]), "ms", "lower"),
        Figure("worker end, more than without confinement", more[1], "ms", "lower"),
    ]


async def _start_and_end(workers: Workers, inventory: Inventory) -> tuple[float, float]:
    part = LeaseSlice(inventory.gpus[0].uuid, 0, 20, SLICE_MIB)
    grant = Grant("bench", 1, bytes(32), (part,), clock() + 600.0)
    await workers.room_for(grant)  # one lease's workers are half a second apart
    began = time.perf_counter()
    worker = workers.ensure(grant)
    await workers.ready(worker)
    started = time.perf_counter()
    worker.kill()
    await worker.ended.wait()
    return started - began, time.perf_counter() - started


def _workers(inventory: Inventory, settings: WorkerSettings, folder: Path) -> Workers:
    log = logging.getLogger("benchmarks.worker_start")
    return Workers(inventory, settings, log, lambda: None, lambda key: clock() + 600.0, Marks(folder))


@contextlib.contextmanager
def _cgroup() -> Iterator[str]:
    """A folder of the cgroup v2 tree that is ours alone, or the setting for none."""
    tree = next((mount for mount in mounts() if os.access(mount, os.W_OK)), None)
    if tree is None:
        yield OFF
        return
    folder = tree / f"gpu-kernels-bench-{os.getpid()}"
    folder.mkdir()
    try:
        yield str(folder)
    finally:
        folder.rmdir()


if __name__ == "__main__":
    main(measure, __doc__)
