"""Where a suite's processes run: straight on a driver, or forwarded to a worker that has that driver.

Forwarded, each process has a lease and so a worker of its own: a fault ends the worker for all who share it,
and whether a test passes must not depend on what else ran at the time.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from gpu_kernels import __version__
from gpu_kernels.remoting.agent.gpus import Inventory, nvml_gpus, software_gpus
from gpu_kernels.remoting.environment import client_environment, software_environment, without_gpu

from .one_agent import OneAgent

MEMORY_MIB = 2048
"""What a process has on a software GPU: more than any test allocates; what is not touched costs nothing."""

GPUS = 2
"""Of a lease on software GPUs; some tests need two."""

# A place is made for so many processes at a time.
Process = Callable[[], AbstractContextManager[dict[str, str]]]
"""Gives a process its environment, and what serves it, for as long as it runs."""


@contextmanager
def straight(processes: int) -> Iterator[Process]:
    """On the software GPU's own libcuda.so.1."""

    @contextmanager
    def process() -> Iterator[dict[str, str]]:
        yield software_environment(os.environ, memory_mib=MEMORY_MIB, log="stderr")

    yield process


@contextmanager
def forwarded(processes: int) -> Iterator[Process]:
    """Under the forwarding client, through an agent and a worker, on the software GPU."""
    inventory = software_gpus("gpu-server-1", "V100", MEMORY_MIB * processes, GPUS, __version__)
    with _leased(inventory, processes) as process:
        yield process


@contextmanager
def nvidia_straight(processes: int) -> Iterator[Process]:
    """On the NVIDIA driver of this machine."""

    @contextmanager
    def process() -> Iterator[dict[str, str]]:
        yield without_gpu(os.environ)

    yield process


@contextmanager
def nvidia_forwarded(processes: int) -> Iterator[Process]:
    """Under the forwarding client, through an agent and a worker, on the NVIDIA driver of this machine."""
    with _leased(nvml_gpus(), processes) as process:
        yield process


@contextmanager
def _leased(inventory: Inventory, processes: int) -> Iterator[Process]:
    # The path of a unix socket is short: not under pytest's temporary folders.
    with (
        tempfile.TemporaryDirectory(prefix="gk-") as folder,
        OneAgent(Path(folder), inventory) as agent,
    ):

        @contextmanager
        def process() -> Iterator[dict[str, str]]:
            mib = min(gpu.allocatable_mib for gpu in inventory.gpus) // processes
            with agent.lease(mib, 1000 // processes, len(inventory.gpus)) as lease:
                yield client_environment(lease, os.environ)

        yield process


PLACES = {
    "straight": straight,
    "forwarded": forwarded,
    "nvidia-straight": nvidia_straight,
    "nvidia-forwarded": nvidia_forwarded,
}
