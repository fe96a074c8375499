"""The software GPU's speed: the kernels of a CUDA course in operations a second, beside the CPU.

The CPU's side is the same algorithm in numba's compiler, and NumPy where it has the operation. All are held
to one core and take turns in one process, and what counts is CPU time, so that a busy machine changes little.
The two kernels with aims of their own are timed again by the clock on all cores. Figures are medians.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from typing import Any

from benchmarks.figures import Figure, main
from gpu_kernels.remoting.environment import software_environment

MEMORY_MIB = 1024
MOST_TIMES_SLOWER = 10.0
AIMS_ON_ALL_CORES = {"tiled matrix product": 2000.0, "Monte-Carlo pi": 200.0}
SCALING_PAIRS = 9


def environment(threads: int | None = None) -> dict[str, str]:
    env = software_environment(os.environ, memory_mib=MEMORY_MIB, threads=threads)
    env["NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS"] = "0"
    if threads is not None:
        env |= dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    return env


def child(module: str, *arguments: str, threads: int | None = None) -> dict[str, Any]:
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    done = subprocess.run(command, env=environment(threads), stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def on_one_core(*kernels: str) -> list[Figure]:
    """These kernels, or all."""
    figures = []
    for kernel, result in child("softgpu_kernels", "--cpu-time", *kernels, threads=1).items():
        unit = f"M {result['operation']}s/s"
        sides = {"software GPU": "device_s", "numba on the CPU": "compiled_s", "NumPy": "numpy_s"}
        for side, key in sides.items():
            if result[key] is not None:
                rate = result["operations"] / result[key] / 1e6
                figures.append(Figure(f"{kernel}, {side}", rate, unit, "higher"))
        slower = result["compiled_over_device"]
        figures.append(
            Figure(f"{kernel}, times slower than numba", slower, "ratio", "lower", MOST_TIMES_SLOWER)
        )
    return figures


def on_all_cores() -> list[Figure]:
    return [
        Figure(
            f"{kernel}, software GPU on all cores",
            result["operations"] / result["device_s"] / 1e6,
            f"M {result['operation']}s/s",
            "higher",
            AIMS_ON_ALL_CORES[kernel],
        )
        for kernel, result in child("softgpu_kernels", *AIMS_ON_ALL_CORES).items()
    ]


def machinery() -> list[Figure]:
    result = child("softgpu_kernels.machinery")
    return [
        Figure("barrier, a thread", result["barrier_ns"], "ns", "lower", 5.0),
        Figure("launch of an empty kernel", result["launch_us"], "us", "lower"),
        Figure("load of a small module", result["load_ms"], "ms", "lower", 5.0),
        Figure("load of the same text again", result["load_again_ms"], "ms", "lower"),
    ]


def scaling(turns: int = SCALING_PAIRS) -> list[Figure]:
    """Two processes, on one core and on two, take turns at the same launch.

    By the clock, which wants two free cores, and in CPU time, which says what two free cores would show if no
    thread had to wait for the other.
    """
    command = [sys.executable, "-m", "benchmarks.softgpu_kernels.machinery", "turns"]
    sides = [
        subprocess.Popen(
            command, env=environment(threads), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for threads in (1, 2)
    ]

    def turn(side: subprocess.Popen[str]) -> tuple[float, float]:
        assert side.stdin is not None
        assert side.stdout is not None
        side.stdin.write("\n")
        side.stdin.flush()
        clock, cpu = side.stdout.readline().split()
        return float(clock), float(cpu)

    try:
        pairs = [(turn(sides[0]), turn(sides[1])) for _ in range(turns)]
    finally:
        for side in sides:
            side.communicate()
    clock = statistics.median(one[0] / two[0] for one, two in pairs)
    cpu = statistics.median(2 * one[1] / two[1] for one, two in pairs)
    return [
        Figure("one core to two, by the clock", clock, "ratio", "higher", 1.8),
        Figure("one core to two, in CPU time", cpu, "ratio", "higher", 1.8),
    ]


def measure(smallest: bool) -> list[Figure]:
    if smallest:
        return on_one_core("vector add") + machinery() + scaling(1)
    return on_one_core() + on_all_cores() + machinery() + scaling()


if __name__ == "__main__":
    main(measure, __doc__)
