"""A kernel spec manager that shows only the kernels whose size the course offers.

Opt in with ``c.ServerApp.kernel_spec_manager_class = "gpu_kernels.specs.GPUKernelSpecManager"``. It hides,
and changes nothing: a notebook that names a hidden kernel still finds it, and the controller says what is on
offer instead. Until the controller has said that for the first time all are shown.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpecManager

from gpu_kernels import offer

PROVISIONER = "gpu-slice"


class GPUKernelSpecManager(KernelSpecManager):
    """``KernelSpecManager`` without the kernels that the course does not offer."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        offer.OFFERS.now()  # so that the answer is there before the first launcher is

    def find_kernel_specs(self) -> dict[str, str]:
        """Kernel names and their folders. Never asks the network: the server's event loop calls it."""
        now = offer.OFFERS.now()
        found = super().find_kernel_specs()
        if now.sizes is None:
            return found
        return {
            name: folder
            for name, folder in found.items()
            if (size := _size(folder)) is None or now.offers(size)
        }


def _size(folder: str) -> str | None:
    """The size that the spec in ``folder`` asks for; None if it is none of ours, or cannot be read."""
    try:
        spec = json.loads((Path(folder) / "kernel.json").read_text())
        provisioner = spec["metadata"]["kernel_provisioner"]
        size = provisioner["config"]["size"] if provisioner["provisioner_name"] == PROVISIONER else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return size if isinstance(size, str) else None
