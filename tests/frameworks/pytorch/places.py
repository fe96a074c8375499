"""Runs programs of a framework's own Python in a place of the conformance suites."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.conformance.places import GPUS, MEMORY_MIB, PLACES

NOTHING_MAPPED = "GPU_KERNELS_MAP"

PROGRAMS = Path(__file__).parent / "programs"
ENDS_WITHIN_S = 1500
COMPILED_HERE = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
"""torch.compile starts no processes, each of which would import PyTorch."""
ALL = ("straight", "forwarded", "copied")
"""Copied: forwarded on one host as from another, with nothing mapped."""


def run(
    python: str, place: str, program: str, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a program of ``PROGRAMS`` (or ``-c``) there: two GPUs, and one core (sums depend on how many)."""
    with PLACES["forwarded" if place == "copied" else place](1) as process, process() as environment:
        environment |= {"OMP_NUM_THREADS": "1", NOTHING_MAPPED: "0" if place == "copied" else "1"}
        environment |= COMPILED_HERE
        if place == "straight":
            environment["GPU_KERNELS_SOFTGPU_MEMORY_MIB"] = ",".join([str(MEMORY_MIB)] * GPUS)
        return subprocess.run(
            [python, str(PROGRAMS / program) if program.endswith(".py") else program, *arguments],
            env=environment | variables,
            capture_output=True,
            text=True,
            timeout=ENDS_WITHIN_S,
        )
