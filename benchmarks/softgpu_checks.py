"""What the software GPU's teaching mode costs, and that who does not ask for it pays nothing.

The same small kernels in processes that are checked for different things, in turns, in CPU time on one core.
``--before FOLDER`` adds a process on another build's ``libcuda.so.1``, to compare what is not checked.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict

from benchmarks.figures import Figure, add_options, emit, median
from gpu_kernels.remoting.environment import software_environment

ROUNDS = 9
CHECKS = ("races", "init", "divergence", "all")
UNCHECKED_REPEATS, CHECKED_REPEATS = 50, 2


def side(checks: str, folder: str | None = None, *, repeats: int | None = None) -> subprocess.Popen[str]:
    environment = software_environment(os.environ, memory_mib=1024, threads=1)
    environment |= {"GPU_KERNELS_SOFTGPU_CHECK": checks, "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0"}
    if folder is not None:
        environment["LD_LIBRARY_PATH"] = f"{folder}:{environment['LD_LIBRARY_PATH']}"
    if repeats is None:
        repeats = CHECKED_REPEATS if checks else UNCHECKED_REPEATS
    command = [sys.executable, "-m", "benchmarks.softgpu_kernels.checked", str(repeats)]
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def turn(process: subprocess.Popen[str]) -> dict[str, float]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def measure(smallest: bool, before: str | None = None) -> list[Figure]:
    wanted, rounds, repeats = (CHECKS[:1], 1, 1) if smallest else (CHECKS, ROUNDS, None)
    sides = {checks: side(checks, repeats=repeats) for checks in ("", *wanted)}
    if before is not None:
        sides["before"] = side("", before)
    ratios = defaultdict(list)
    try:
        for _ in range(rounds):
            turns = {name: turn(process) for name, process in sides.items()}
            for name, seconds in turns.items():
                for kernel, unchecked in turns[""].items():
                    over = unchecked / seconds[kernel] if name == "before" else seconds[kernel] / unchecked
                    ratios[kernel, name].append(over)
    finally:
        for process in sides.values():
            process.communicate()
    figures = []
    for (kernel, name), values in ratios.items():
        if name == "before":
            figures.append(Figure(f"{kernel}, unchecked, now over before", median(values), "ratio", "lower"))
        elif name:
            figures.append(Figure(f"{kernel}, times slower with {name}", median(values), "ratio", "lower"))
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--before", metavar="FOLDER", help="of another build's libcuda.so.1")
    arguments = parser.parse_args()
    emit(measure(arguments.smallest, arguments.before), arguments.json)
