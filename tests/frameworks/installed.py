"""Where a framework is that the project's own environment does not have."""

from __future__ import annotations

import os
import subprocess

from tests.native_build import ROOT


class NotInstalled(LookupError):
    """Says what is missing, and what to do."""


def python_with(framework: str, variable: str, proof: str) -> str:
    """The Python that ``variable`` names, or that of ``make frameworks``, in which ``proof`` runs; else
    NotInstalled.
    """
    python = os.environ.get(variable) or str(ROOT / "build" / f"frameworks-{framework}" / "bin" / "python")
    remedy = f"make frameworks, or {variable} names a Python that has it"
    try:
        done = subprocess.run([python, "-c", proof], capture_output=True, text=True)
    except OSError as error:
        raise NotInstalled(f"{framework} is not here ({error}): {remedy}") from None
    if done.returncode != 0:
        raise NotInstalled(f"{framework} is not in {python}: {remedy} ({done.stderr.strip()[-200:]})")
    return python


def pytorch() -> str:
    """The Python that has PyTorch's CUDA build and this package; else NotInstalled."""
    proof = "import torch, gpu_kernels.pytorch; assert torch.version.cuda"
    return python_with("pytorch", "GPU_KERNELS_TORCH_PYTHON", proof)
