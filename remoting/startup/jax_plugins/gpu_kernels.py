"""JAX calls ``initialize`` of each module in ``jax_plugins`` before it looks for devices."""

from __future__ import annotations

import os


class DeviceFile:
    """JAX uses CUDA where one of NVIDIA's device files exists. A slice has none: this file stands for it.

    Where a slice is asked for at its first use, who wants the CPU has none: by ``JAX_PLATFORM_NAME=cpu``
    JAX would begin CUDA too, which waits.
    """

    def __fspath__(self) -> str:
        from gpu_kernels_frameworks import ATTACH, wants_a_gpu
        from jax._src import xla_bridge

        stands = wants_a_gpu(xla_bridge) or not os.environ.get(ATTACH)
        return __file__ if stands else f"{__file__}/none"


def initialize() -> None:
    from jax._src import hardware_utils

    files = getattr(hardware_utils, "_NVIDIA_GPU_DEVICES", None)
    if isinstance(files, list) and not any(isinstance(file, DeviceFile) for file in files):
        files.append(DeviceFile())
