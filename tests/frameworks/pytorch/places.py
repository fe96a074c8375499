"""Runs programs of a framework's own Python in a place of the conformance suites."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conformance.places import GPUS, MEMORY_MIB, PLACES
from tests.native_build import ROOT

PYTORCH = ROOT / "build" / "frameworks-pytorch" / "bin" / "python"
"""What ``make frameworks`` makes."""
VARIABLE = "GPU_KERNELS_TORCH_PYTHON"
PROGRAMS = Path(__file__).parent / "programs"
ENDS_WITHIN_S = 1500


def pytorch() -> str:
    """The Python that has PyTorch's CUDA build and this package; skips where there is none."""
    python = os.environ.get(VARIABLE, str(PYTORCH))
    asked = "import torch, gpu_kernels.pytorch; assert torch.version.cuda"
    try:
        done = subprocess.run([python, "-c", asked], capture_output=True, text=True)
    except OSError as error:
        pytest.skip(
            f"PyTorch is not here ({error}): make frameworks, or {VARIABLE} names a Python that has it"
        )
    if done.returncode != 0:
        pytest.skip(f"PyTorch is not in {python}: make frameworks ({done.stderr.strip()[-200:]})")
    return python


def run(python: str, place: str, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program of ``PROGRAMS`` (or ``-c``) there: two GPUs, and one core (sums depend on how many)."""
    with PLACES[place](1) as process, process() as environment:
        environment |= {"OMP_NUM_THREADS": "1"}
        if place == "straight":
            environment["GPU_KERNELS_SOFTGPU_MEMORY_MIB"] = ",".join([str(MEMORY_MIB)] * GPUS)
        return subprocess.run(
            [python, str(PROGRAMS / program) if program.endswith(".py") else program, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=ENDS_WITHIN_S,
        )
