"""The kernel specs that students choose from, and their installer. Imports only ``gpu_kernels.units``."""

from kernelspecs.installer import (
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
