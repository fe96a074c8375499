"""Beginning anew on another slice: what holds handles of the old one lets go of them, as far as it can.

``gkNewLife`` of our libcuda ends this process's session. Variables of the program stay; what lay in the GPU's
memory is gone with the old slice.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from gpu_kernels import attach

LIBRARY = "libcuda.so.1"
NEW_LIFE = "gkNewLife"
LIVES, FAILED = 1, 2
"""What ``gkLife`` calls a life, and one in which every call fails: its slice was taken, or a kernel went
wrong.
"""
BEGINS_ANEW = (
    "Your program lost its GPU, and starts over with the next CUDA call: what lay in the GPU's memory\n"
    "is gone, your variables stay."
)
KEEP_THEIR_HANDLES = {
    "torch": "PyTorch",
    "jax": "JAX",
    "tensorflow": "TensorFlow",
    "cupy": "CuPy",
    "triton": "Triton",
}
"""Modules that cannot begin again on another slice once they have begun on one."""
HAVE_BEGUN: dict[str, tuple[str, Callable[[Any], object]]] = {
    "torch": ("torch.cuda", lambda cuda: cuda.is_initialized()),
    "jax": ("jax._src.xla_bridge", lambda bridge: bridge.backends_are_initialized()),
    "tensorflow": (
        "tensorflow.python.eager.context",
        lambda module: (context := module.context_safe()) is not None and context._initialized,
    ),
}
"""Where a module of those says that it has begun. JAX's and TensorFlow's are no public interface: a release
without them cannot say, and then the student should know.
"""
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
    getattr(library, NEW_LIFE)()
    _forget_numbas_handles()
    return remarks


def has_failed() -> bool:
    """Whether this process's CUDA calls all fail until it begins anew."""
    return _state() == FAILED


def go_on_after_failure() -> list[str]:
    """Before a cell runs: begin anew where that is of use; what the student must know of it."""
    if attach.address() is None or not has_failed():
        return []
    return [BEGINS_ANEW, *begin_anew()]


def let_finish() -> None:
    """Before the slice goes: TensorFlow ends the process if it goes while TensorFlow waits for it."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None and _state() == LIVES and _has_begun("tensorflow"):
        with contextlib.suppress(Exception):
            tensorflow.test.experimental.sync_devices()


def _state() -> int:
    """Of this process's life; 0 where none has begun, or nothing knows of lives."""
    library, state = _loaded(), ctypes.c_int()
    if library is not None and hasattr(library, NEW_LIFE):
        library.gkLife(ctypes.byref(state))
    return state.value


def _loaded() -> Any | None:
    """The driver's library if this process has loaded it; it is not loaded for this."""
    try:
        return ctypes.CDLL(LIBRARY, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return None


def _libraries_that_cannot() -> list[str]:
    """What keeps handles of the old slice for as long as the process lives; one line names them all."""
    names = [name for module, name in KEEP_THEIR_HANDLES.items() if _has_begun(module)]
    if not names:
        return []
    listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    return [f"{listed} cannot go on with another slice: {RESTART}"]


def _has_begun(module: str) -> bool:
    if module not in sys.modules:
        return False
    where, question = HAVE_BEGUN.get(module, ("", None))
    try:
        return question is None or bool(question(sys.modules[where]))
    except Exception:
        return True


def _load_again(images: dict[Any, Any]) -> None:
    """An image of cuda.core's that has been loaded names its library for ever: the same bytes name none."""
    for key, image in images.items():
        made_of = getattr(type(image), f"from_{getattr(image, 'code_type', '')}", None)
        if made_of is not None:
            images[key] = made_of(image.code, name=image.name, symbol_mapping=image.symbol_mapping)


def _forget_numbas_handles() -> None:
    """What numba keeps: its devices their contexts with all that they hold, each thread the one that it
    uses, and compiled kernels their functions. All of it is found or made again in the new life.
    """
    devices = sys.modules.get("numba.cuda.cudadrv.devices")
    driver = getattr(sys.modules.get("numba.cuda.cudadrv.driver"), "driver", None)
    runtime = getattr(devices, "_runtime", None)
    if driver is None or runtime is None:
        return
    for device in driver.devices.values():
        context, device.primary_context = device.primary_context, None
        if context is not None:
            context.deallocations._cons.clear()
            context.deallocations.add_item = _give_back
    runtime._tls = threading.local()
    vars(runtime.gpus).pop("lst", None)
    library = getattr(sys.modules.get("numba.cuda.codegen"), "CUDACodeLibrary", None)
    if library is None:
        return
    for held in gc.get_objects():
        if issubclass(type(held), library):  # a proxy may stand for what is no longer there
            vars(held).get("_cufunc_cache", {}).clear()
            _load_again(vars(held).get("_cubin_cache", {}))


def _give_back(end: Any, handle: Any, size: int = 0) -> None:
    """What numba does with an object of the life that has ended, when Python is done with it: only memory
    of this process is still there.
    """
    if getattr(end, "__name__", "") in ("cuMemFree", "cuMemFreeHost"):
        with contextlib.suppress(Exception):
            end(handle)
