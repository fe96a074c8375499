"""What is said of PyTorch's releases and of where its operators run."""

from __future__ import annotations

TRIED = ("2.15.0",)
"""Releases that the tests ran with."""
WHAT_RUNS_WHERE = (
    "PyTorch's operators run on this machine's CPU; kernels that you write run on the software GPU."
)
