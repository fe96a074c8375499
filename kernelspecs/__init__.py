"""The kernel specs that students choose from, and their installer. Imports only ``gpu_kernels.units``."""

if __name__ != "gpu_kernels.kernelspecs":
    raise ImportError("This package is imported as gpu_kernels.kernelspecs.")

from gpu_kernels.kernelspecs.installer import (
    DEFAULT_SIZES,
    PLAIN,
    SpecOnDisk,
    install,
    installed,
    plain_name,
    remove,
    spec_name,
)

__all__ = [
    "DEFAULT_SIZES",
    "PLAIN",
    "SpecOnDisk",
    "install",
    "installed",
    "plain_name",
    "remove",
    "spec_name",
]
