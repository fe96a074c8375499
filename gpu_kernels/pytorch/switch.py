"""Puts the processor's kernels in the place of the device's, where the device is a software GPU."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import torch

from gpu_kernels.pytorch import build, ending, processes
from gpu_kernels.pytorch.releases import TRIED

SOFTWARE_NAMES = ("Software GPU", " (software GPU)")
"""How the driver's name of a software GPU ends, whatever it was given; no GPU's does."""
NOTHING_OF_OURS = "GPU_KERNELS_PYTORCH"
"""Set to 0, PyTorch stays as it is."""
NOTHING_MAPPED = "GPU_KERNELS_MAP"
"""Set to 0, a forwarded slice's memory is copied for each operator, as from another host."""
CALLS_OF_LIBRARIES = "gkLibraryCall"
"""What our drivers export, straight and forwarded, and NVIDIA's does not."""
COPIED, OWN, MAPPED = 0, 1, 2
"""How operators reach the slice's memory (``Way`` in native/slice_memory.h)."""
ERROR_ROOM = 4096


def is_software_gpu(name: str) -> bool:
    return name.endswith(SOFTWARE_NAMES)


def switch_on() -> list[str]:
    """Do it, if this process's devices are software GPUs; what the user has to know, in lines.

    PyTorch has started its device. Never raises.
    """
    if os.environ.get(NOTHING_OF_OURS) == "0":
        return []
    try:
        if _driver_has(CALLS_OF_LIBRARIES):
            processes.copy_batches()
            ending.wait_for_autograd()
        if not all(is_software_gpu(torch.cuda.get_device_name(i)) for i in range(torch.cuda.device_count())):
            return []
        return _load(build.library())
    except build.NotBuilt as error:
        return [f"PyTorch's operators do not run on this software GPU: {error}"]
    except Exception as error:
        return [f"PyTorch's operators do not run on this software GPU: {type(error).__name__}: {error}"]


def _load(path: Path) -> list[str]:
    try:
        switch = ctypes.CDLL(str(path)).gk_pytorch_switch_on
    except (OSError, AttributeError) as reason:
        raise build.NotBuilt(
            f"{path} cannot be loaded ({reason}). Remove it, and it is made again; where programs may not "
            "run from that folder, set XDG_CACHE_HOME to another."
        ) from None
    switch.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]
    error = ctypes.create_string_buffer(ERROR_ROOM)
    if switch(_way(), error, ERROR_ROOM) < 0:
        why = error.value.decode(errors="replace").splitlines()[0]
        return [f"PyTorch's operators do not run on this software GPU: {why}"]
    release = torch.__version__.partition("+")[0]
    if release not in TRIED:
        tried = f"{' and '.join(TRIED)} {'was' if len(TRIED) == 1 else 'were'}"
        return [f"PyTorch {release} was not tried on a software GPU, {tried}: what is wrong may be ours."]
    return []


def _way() -> int:
    """Device addresses are addresses of this process where the driver itself is the software GPU, which says
    so by a name that the forwarding client does not have.
    """
    if _driver_has("gk_softgpu_extension"):
        return OWN
    return COPIED if os.environ.get(NOTHING_MAPPED) == "0" else MAPPED


def _driver_has(name: str) -> bool:
    return hasattr(ctypes.CDLL("libcuda.so.1"), name)
