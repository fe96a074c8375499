"""The software GPU's speed: the notebook's kernels in operations a second, beside NumPy or numba on the CPU.

An operation is an element added, a floating-point operation of the matrix product, an element summed or
counted, or a point drawn. The CPU's side is NumPy, except Monte-Carlo pi, which is numba on one core.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from benchmarks.figures import Figure, main
from remoting.environment import software_environment

MEMORY_MIB = 1024


def measure() -> list[Figure]:
    environment = software_environment(os.environ, memory_mib=MEMORY_MIB)
    environment["NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS"] = "0"
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.softgpu_kernels"],
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
    )
    figures = []
    for kernel, result in json.loads(child.stdout).items():
        device = result["operations"] / result["device_s"] / 1e6
        cpu = result["operations"] / result["cpu_s"] / 1e6
        figures.append(Figure(f"{kernel}, software GPU", device, "M operations/s", "higher"))
        figures.append(Figure(f"{kernel}, CPU", cpu, "M operations/s", "higher"))
        figures.append(Figure(f"{kernel}, CPU over software GPU", cpu / device, "ratio", "lower"))
    return figures


if __name__ == "__main__":
    main(measure, __doc__)
