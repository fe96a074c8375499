"""``python -m benchmarks.classroom --notebooks 50``: see the package.

Without ``--at-once`` one notebook goes first, and what it takes of the machine's memory says how many may be
alive at once. It needs TensorFlow (``make frameworks``), and prints nothing without. Exits with 1 if a
notebook failed or ended with another accuracy, or a slice is left.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import nbclient
import psutil

from benchmarks.classroom import lesson
from benchmarks.figures import Figure, add_options, emit, median
from gpu_kernels import kernelspecs
from gpu_kernels.kernel_ports import hold_ports
from gpu_kernels.remoting.environment import without_gpu
from tests.cli.lab import Lab, wait_until
from tests.frameworks import installed

SIZE, THOUSANDTHS = "0.02 V100", 20
ENVIRONMENT = "Keras"
SAME = 0.011
"""Of an accuracy: five of 500 pictures, and what rounding adds."""
ENDS_WITHIN_S = 7200
LOOKS_EACH_S = 0.5
MEMORY_KEPT = 0.15
"""Of the memory that was left before the class came: for what else the machine does meanwhile."""
WAIT_AT_ONCE = 18
"""Notebooks in the line: a user may wait for 20 slices, and this process is one user."""


@dataclass
class Watch:
    """The most slices in force at once, and the least memory that the machine had left, in MiB."""

    slices: int = 0
    left_mib: float = field(default_factory=lambda: memory_left_mib())

    async def look(self, lab: Lab) -> None:
        while True:
            held = await asyncio.to_thread(lab.leases)
            self.slices = max(self.slices, sum(lease.in_force for lease in held))
            self.left_mib = min(self.left_mib, memory_left_mib())
            await asyncio.sleep(LOOKS_EACH_S)

    @asynccontextmanager
    async def over(self, lab: Lab) -> AsyncIterator[None]:
        looking = asyncio.create_task(self.look(lab))
        try:
            yield
        finally:
            looking.cancel()


def memory_left_mib() -> float:
    return psutil.virtual_memory().available / 2**20


def python() -> str:
    """That of TensorFlow's environment, in which kernels start. Raises ``NotInstalled``."""
    found = "import ipykernel, gpu_kernels, importlib.util as u; assert u.find_spec('tensorflow')"
    return installed.python_with("tensorflow", "GPU_KERNELS_TENSORFLOW_PYTHON", found)


async def attend(pictures: int, kernel: str, *, on_a_gpu: bool) -> dict[str, float]:
    """One student's notebook, from the start of its kernel to its end."""
    notebook = lesson.notebook(pictures, on_a_gpu=on_a_gpu)
    client = nbclient.NotebookClient(
        notebook, kernel_name=kernel, timeout=ENDS_WITHIN_S, startup_timeout=ENDS_WITHIN_S
    )
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    begun = time.monotonic()
    await client.async_execute(env=env if on_a_gpu else without_gpu(env) | {"CUDA_VISIBLE_DEVICES": ""})
    return lesson.result(notebook) | {"whole": time.monotonic() - begun}


async def notebooks_in_memory(lab: Lab, pictures: int) -> int:
    """How many may be alive at once, by what the first takes with its kernel and its worker; at least one."""
    left, watch = memory_left_mib(), Watch()
    async with watch.over(lab):
        await attend(pictures, kernelspecs.spec_name(SIZE, ENVIRONMENT), on_a_gpu=True)
    taken = max(1.0, left - watch.left_mib)
    print(f"a notebook takes {taken:.0f} MiB of {left:.0f}", file=sys.stderr)
    return max(1, int(left * (1 - MEMORY_KEPT) / taken))


async def hold_class(
    lab: Lab, notebooks: int, at_once: int, pictures: int, watch: Watch
) -> list[dict[str, float] | str]:
    """All open the notebook at once; of each what it ended with, or why it failed."""
    kernel = kernelspecs.spec_name(SIZE, ENVIRONMENT)
    lab.admin.set_limit("ml101", {"V100": THOUSANDTHS * at_once})
    seats = asyncio.Semaphore(at_once + WAIT_AT_ONCE)

    async def student() -> dict[str, float]:
        async with seats:
            return await attend(pictures, kernel, on_a_gpu=True)

    async with watch.over(lab):
        ended = await asyncio.gather(*(student() for _ in range(notebooks)), return_exceptions=True)
    return [str(each)[-2000:] if isinstance(each, BaseException) else each for each in ended]


@contextmanager
def room() -> Iterator[Lab]:
    """A pool whose course may hold one slice, with this process as its Jupyter server."""
    with tempfile.TemporaryDirectory(prefix="gk-class-") as folder:
        kernelspecs.install(prefix=folder, sizes=[SIZE], python=python(), environment=ENVIRONMENT)
        lab = Lab(Path(folder) / "lab", 300.0, worker="gpu-worker")
        lab.admin.set_limit("ml101", {"V100": THOUSANDTHS})
        os.environ |= {
            "JUPYTER_PATH": str(Path(folder) / "share" / "jupyter"),
            "GPU_KERNELS_CONTROLLER": lab.url,
            "GPU_KERNELS_TOKEN": "ada-token",
            "OMP_NUM_THREADS": "1",
        }
        hold_ports()
        try:
            yield lab
        finally:
            lab.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.classroom", description=__doc__)
    parser.add_argument("--notebooks", type=int, default=50)
    parser.add_argument(
        "--at-once", type=int, metavar="N", help="slices that the course has (what memory holds)"
    )
    parser.add_argument("--pictures", type=int, default=2000, help="that each network learns from")
    add_options(parser)
    options = parser.parse_args()
    if options.smallest:
        options.notebooks, options.at_once, options.pictures = 3, 2, 320
    try:
        python()
    except installed.NotInstalled as error:
        print(error, file=sys.stderr)
        emit([], options.json)
        return 0
    begun = time.monotonic()
    with room() as lab:
        cpu = asyncio.run(attend(options.pictures, kernelspecs.plain_name(ENVIRONMENT), on_a_gpu=False))
        at_once = options.at_once or asyncio.run(notebooks_in_memory(lab, options.pictures))
        at_once = min(at_once, options.notebooks)
        watch = Watch()
        ended = asyncio.run(hold_class(lab, options.notebooks, at_once, options.pictures, watch))
        wait_until(lab.nothing_in_use)
    return report(cpu, ended, watch, time.monotonic() - begun, options.json)


def report(
    cpu: dict[str, float],
    ended: list[dict[str, float] | str],
    watch: Watch,
    seconds: float,
    target: str | None,
) -> int:
    done = [each for each in ended if isinstance(each, dict)]
    right = [each for each in done if abs(each["accuracy"] - cpu["accuracy"]) <= SAME and each["gpus"] == 1]
    for each in ended:
        if each not in right:
            print(f"FAILED, the CPU ends with {cpu['accuracy']:.4f}: {each}", file=sys.stderr)
    apart = max((abs(each["accuracy"] - cpu["accuracy"]) for each in done), default=float(len(ended)))
    figures = [
        Figure("notebooks that end with the CPU's accuracy", len(right), "notebooks", "higher", len(ended)),
        Figure("the CPU's accuracy", 100 * cpu["accuracy"], "%", "higher"),
        Figure("farthest from it", 100 * apart, "points", "lower", 100 * SAME),
        Figure("slices in use at once, at most", watch.slices, "slices", "higher"),
        Figure("machine's memory left, at least", watch.left_mib, "MiB", "higher"),
        Figure("a lesson on the CPU alone", cpu["seconds"], "s", "lower"),
        Figure(
            "a lesson with its slice, median", median(each["seconds"] for each in done or [cpu]), "s", "lower"
        ),
        Figure("the last one ends after", max((each["whole"] for each in done), default=0.0), "s", "lower"),
        Figure("all of it", seconds, "s", "lower"),
    ]
    emit(figures, target)
    return 0 if len(right) == len(ended) else 1


if __name__ == "__main__":
    sys.exit(main())
