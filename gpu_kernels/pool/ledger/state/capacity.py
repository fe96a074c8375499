"""What a GPU is counted by, as far as what is in use allows."""

from __future__ import annotations

from typing import Any

from gpu_kernels.pool.ledger.state.rows import Gpu, changed


def adopted(gpu: Gpu, **fields: Any) -> Gpu:
    """The GPU with these fields, counted as closely to what is offered as what is in use allows: its memory
    is never below what is in use, and its class stays while anything is.
    """
    gpu = changed(gpu, **fields)
    gpu_class = gpu.offered_class if gpu.used_mib == 0 else gpu.gpu_class
    return changed(gpu, allocatable_mib=max(gpu.offered_mib, gpu.used_mib), gpu_class=gpu_class)


def takes_slices(gpu: Gpu) -> bool:
    """Whether the GPU takes new slices, as far as its own row says."""
    return gpu.offered and gpu.gpu_class == gpu.offered_class
