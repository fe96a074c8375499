"""``python -m tests.conformance.on_a_gpu``: the suites on this machine's NVIDIA GPU, straight and forwarded.

What a test does on the driver itself is the measure: forwarded, it must do the same. Networks of PyTorch,
Keras and JAX are trained too, where they are installed. Without a GPU nothing is run and nothing is claimed.
The report is written to docs/gpu/, named after the GPU and the driver.
"""

from __future__ import annotations

import datetime
import os
import platform
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from gpu_kernels.remoting.agent.gpus import Inventory, NoGpu, nvml_gpus
from tests.frameworks.installed import NotInstalled

from . import training
from .__main__ import figures
from .expectations import last_line
from .places import PLACES
from .runner import ROOT, Result, Run
from .suite import Suite, numba

REPORTS = ROOT / "docs" / "gpu"
STRAIGHT, FORWARDED = "nvidia-straight", "nvidia-forwarded"


@dataclass(frozen=True)
class Difference:
    """A test that did not do forwarded what it did straight."""

    name: str
    straight: Result | None
    forwarded: Result | None

    def row(self) -> str:
        said = last_line(self.forwarded.reason) if self.forwarded else ""
        cells = (self.name, _outcome(self.straight), _outcome(self.forwarded), said.replace("|", "\\|"))
        return f"| {' | '.join(cells)} |"


def main() -> int:
    suite = numba()
    if suite is None or suite.lacks:
        print(f"Not installed: {'numba-cuda' if suite is None else ', '.join(suite.lacks)}. Nothing was run.")
        return 1
    try:
        inventory = nvml_gpus()
    except NoGpu as error:
        print(f"Skipped: {str(error).rstrip('.')}. Nothing was run, and nothing is said about NVIDIA GPUs.")
        return 0
    results, seconds = {}, {}
    for place in (STRAIGHT, FORWARDED):
        begun = time.monotonic()
        processes = min(4, os.cpu_count() or 1)
        with PLACES[place](processes) as process:
            results[place] = Run(suite, process, processes).results()
        seconds[place] = time.monotonic() - begun
        print(f"{place}: {figures(Counter(result.outcome for result in results[place]))}", flush=True)
    different = differences(results[STRAIGHT], results[FORWARDED])
    networks, others = trainings()
    path = write(suite, inventory, results, seconds, different, networks)
    print(
        f"{len(different)} tests and {others} networks did not do forwarded what they did straight; see "
        f"{path.relative_to(ROOT)}"
    )
    return 1 if different or others else 0


def trainings() -> tuple[list[str], int]:
    """A row for each network, printed as it ends, and how many did not end forwarded as they did straight."""
    listed, different = [], 0
    for framework in training.PROGRAMS:
        try:
            more, others = training.rows(*training.train_in((STRAIGHT, FORWARDED), framework, smallest=False))
        except NotInstalled as error:
            more, others = [f"| {framework} | not run | {error} |"], 0
        print("\n".join(more), flush=True)
        listed += more
        different += others
    return listed, different


def differences(straight: list[Result], forwarded: list[Result]) -> list[Difference]:
    """The tests with another outcome, and those that only one of the runs has."""
    there = {result.name: result for result in straight}
    here = {result.name: result for result in forwarded}
    pairs = [Difference(name, there.get(name), here.get(name)) for name in sorted(there.keys() | here.keys())]
    return [pair for pair in pairs if _outcome(pair.straight) != _outcome(pair.forwarded)]


def write(
    suite: Suite,
    inventory: Inventory,
    results: dict[str, list[Result]],
    seconds: dict[str, float],
    different: list[Difference],
    networks: list[str],
) -> Path:
    """The report: what ran on what, the figures of both runs, every difference, and how networks train."""
    gpu = inventory.gpus[0]
    today = datetime.datetime.now(datetime.UTC).date()
    version = f"{inventory.cuda_version // 1000}.{inventory.cuda_version % 1000 // 10}"
    lines = [
        f"# {gpu.name}, driver {inventory.driver_version}",
        "",
        f"Made by `make gpu-conformance` on {today}, with {len(inventory.gpus)} GPU(s) of compute capability",
        f"{gpu.compute_capability} and {gpu.total_mib} MiB, CUDA {version}, {suite.distribution}",
        f"{suite.version} and Python {platform.python_version()}. Straight is NVIDIA's driver;",
        "forwarded is that driver behind the client, an agent and a worker, a lease to each file of tests.",
        "",
        "| run | tests | seconds |",
        "|---|---|---|",
    ]
    for place, name in ((STRAIGHT, "straight"), (FORWARDED, "forwarded")):
        counts = figures(Counter(result.outcome for result in results[place]))
        lines.append(f"| {name} | {counts} | {seconds[place]:.0f} |")
    lines += ["", f"## {len(different)} tests did not do forwarded what they did straight", ""]
    if different:
        lines += ["| test | straight | forwarded | what it said |", "|---|---|---|---|"]
        lines += [difference.row() for difference in different]
    lines += ["", "## Networks that were trained", "", "| network | straight | forwarded |", "|---|---|---|"]
    lines += networks
    REPORTS.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^a-z0-9.]+", "-", f"{gpu.name}-{inventory.driver_version}".lower()).strip("-")
    path = REPORTS / f"{name}.md"
    path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    return path


def _outcome(result: Result | None) -> str:
    return "not run" if result is None else result.outcome


if __name__ == "__main__":
    sys.exit(main())
