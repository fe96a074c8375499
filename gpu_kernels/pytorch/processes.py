"""The device's tensors for other processes: CUDA IPC is not there, so none of them is shared.

What a worker of a ``DataLoader`` gives is the loader's alone from then on, so it may be copied: it travels
through the processor's memory. Elsewhere a program may count on both processes seeing what either writes:
refused.
"""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing.reductions import reduce_tensor
from torch.nn import Parameter
from torch.utils.data import get_worker_info

REFUSED = (
    "tensors of a slice cannot be shared with other processes: CUDA IPC is not there. Send tensor.cpu(), and "
    "use .cuda() where it arrives"
)


def copy_batches() -> None:
    """From now on, in this process and in those that it forks. Again changes nothing."""
    for kind in (torch.Tensor, Parameter):
        ForkingPickler.register(kind, _reduce)


def _reduce(tensor: torch.Tensor) -> Any:
    if not tensor.is_cuda or (tensor.requires_grad and not tensor.is_leaf):  # the second is PyTorch's refusal
        return reduce_tensor(tensor)
    if get_worker_info() is None:
        raise RuntimeError(REFUSED)
    return _on_device, (tensor.detach().cpu(), tensor.device, type(tensor), tensor.requires_grad)


def _on_device(
    values: torch.Tensor, device: torch.device, kind: type[torch.Tensor], requires_grad: bool
) -> torch.Tensor:
    there = values.to(device)
    return Parameter(there, requires_grad) if kind is Parameter else there.requires_grad_(requires_grad)
