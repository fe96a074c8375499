"""Beginning anew on another slice: what holds handles of the old one lets go of them, as far as it can.

``gkNewLife`` of our libcuda ends this process's session. Variables of the program stay; what lay in the GPU's
memory is gone with the old slice.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from typing import Any

LIBRARY = "libcuda.so.1"
NEW_LIFE = "gkNewLife"
RESTART = "restart the kernel before you use it again (menu Kernel, Restart Kernel)."
ONE_LIFE = (
    "This program still has its old connection, and this runtime cannot begin another: restart the kernel "
    "before you use the GPU again (menu Kernel, Restart Kernel)."
)


def can_begin_anew() -> bool:
    """Whether this process may have another slice: CUDA is not in use in it, or can be ended and begun."""
    library = _loaded()
    return library is None or hasattr(library, NEW_LIFE)


def begin_anew() -> list[str]:
    """End this process's life on its old slice; what the student must know of it, a line each."""
    library = _loaded()
    if library is None:
        return []
    remarks = _libraries_that_cannot()
    if not hasattr(library, NEW_LIFE):
        return [*remarks, ONE_LIFE]
    _close_numba()
    getattr(library, NEW_LIFE)()
    _forget_numbas_handles()
    return remarks


def _loaded() -> Any | None:
    """The driver's library if this process has loaded it; it is not loaded for this."""
    try:
        return ctypes.CDLL(LIBRARY, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return None


def _libraries_that_cannot() -> list[str]:
    names = []
    torch = sys.modules.get("torch")
    if torch is not None and _holds(lambda: torch.cuda.is_initialized()):
        names.append("PyTorch")
    if "cupy" in sys.modules:
        names.append("CuPy")
    return [f"{name} cannot go on with another slice: {RESTART}" for name in names]


def _holds(question: Any) -> bool:
    try:
        return bool(question())
    except Exception:
        return True  # it cannot say: then the student should know


def _close_numba() -> None:
    """Its contexts, with all that they hold; what the old slice answers no longer is gone anyway."""
    if "numba.cuda.cudadrv.devices" not in sys.modules:
        return
    from numba import cuda

    try:
        cuda.close()  # type: ignore[no-untyped-call]
    except Exception:
        return


def _forget_numbas_handles() -> None:
    """What numba keeps over ``close``: compiled kernels remember their functions by a device's number, and
    the devices what they were asked. All of it is found again in the new life.
    """
    devices = sys.modules.get("numba.cuda.cudadrv.devices")
    if devices is None:
        return
    codegen = sys.modules.get("numba.cuda.codegen")
    library = getattr(codegen, "CUDACodeLibrary", None)
    if library is not None:
        for held in gc.get_objects():
            if isinstance(held, library):
                vars(held).get("_cufunc_cache", {}).clear()
    runtime = getattr(devices, "_runtime", None)
    for device in vars(getattr(runtime, "gpus", None) or object).get("lst", ()):
        device.primary_context = None
    if runtime is not None:
        vars(runtime.gpus).pop("lst", None)
        runtime._tls.__dict__.clear()
