"""JAX calls ``initialize`` of each module in ``jax_plugins`` before it looks for devices."""

from __future__ import annotations


def initialize() -> None:
    """JAX uses CUDA where one of NVIDIA's device files exists. A slice has none: this file stands for it."""
    from jax._src import hardware_utils

    files = getattr(hardware_utils, "_NVIDIA_GPU_DEVICES", None)
    if isinstance(files, list) and __file__ not in files:
        files.append(__file__)
