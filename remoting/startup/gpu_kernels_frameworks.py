"""Makes JAX, TensorFlow and PyTorch find a slice, when one of them is imported and not before.

Whatever the user has set stays. What is set here is noted in ``GPU_KERNELS_SET``, so that a process that
inherits it, with another framework or with another slice, can take it back.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

CUDA_ROOT = "GPU_KERNELS_CUDA_ROOT"
"""A folder with the ``bin/ptxas`` that the slice's GPU needs; unset where that is NVIDIA's own."""
LIBRARIES = "GPU_KERNELS_LIBRARIES"
"""The folder of what stands for NVIDIA's maths libraries."""
PACKAGES = "GPU_KERNELS_PACKAGES"
"""The folders of this Python's packages: the stand-ins for NVIDIA's compilers look there for NVIDIA's own."""
ATTACH = "GPU_KERNELS_ATTACH"
"""Where the slice is asked for; set where it may not be there yet."""
VISIBLE = "CUDA_VISIBLE_DEVICES"
SET = "GPU_KERNELS_SET"
"""What was set here: a JSON object of variables and values."""
TOLD = "told"
"""There beside the variables, and true: the line about a release that was not tried was said."""
FLAGS = "XLA_FLAGS"

WITH_XLA = ("jaxlib", "tensorflow")
"""The packages that bring an XLA of their own, each of which reads ``XLA_FLAGS``."""
OF_PYTORCH = {
    # Attention goes to graphs of cuDNN's first on GPUs of compute capability 9 and 10. They are refused, and
    # PyTorch then tries no other way.
    "TORCH_CUDNN_SDPA_DEPRIORITIZED": "1",
}
SETTINGS = OF_PYTORCH | {
    # A slice may be small, and several programs share it: memory is taken as it is needed.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    # JAX asks NVIDIA's libraries for their versions, which need NVIDIA's driver to answer.
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
}
ON_A_SOFTWARE_GPU = {
    # TensorFlow leaves 225 MiB of a device to libraries, and 1050 where it has 2 GiB: ours need less.
    "TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "64",
}
OWN = (
    *("libcublas.so.12", "libcublasLt.so.12", "libcublas.so.13", "libcublasLt.so.13"),
    "libcudnn.so.9",
    *("libcufft.so.11", "libcufft.so.12"),
    *("libcusolver.so.11", "libcusolverMg.so.11", "libcusolver.so.12", "libcusolverMg.so.12"),
    *("libcusparse.so.12", "libcusparseLt.so.0"),
    "libcurand.so.10",
    *("libnccl.so.2", "libnvshmem_host.so.3"),
    *("libcufile.so.0", "libcupti.so.12", "libcupti.so.13"),
)
"""What that folder has: frameworks open or need them by name."""


LOOKS_FOR_DEVICES = {
    "jax._src.xla_bridge": ("_discover_and_register_pjrt_plugins",),
    "tensorflow.python.pywrap_tfe": ("TF_ListPhysicalDevices",),
    "torch._C": ("_cuda_init", "_cuda_getDeviceCount"),
}
"""The functions that each calls before it asks CUDA for devices, by their module."""
NO_GPU = (
    "there is no GPU for this, as the line above says. Use it again to ask again; to compute on the CPU, "
    "choose the device 'cpu' in PyTorch, set os.environ['CUDA_VISIBLE_DEVICES'] = '-1' for TensorFlow, or "
    "jax.config.update('jax_platforms', 'cpu') for JAX."
)
TENSORFLOWS_CHOICE = "tensorflow.python.eager.context"
"""Where TensorFlow is told which devices to use."""
ONLY_COUNTS = ("_cuda_getDeviceCount",)
"""Those of them that never raise: without a slice there is no device."""


class _Watch(MetaPathFinder):
    """Sees the first import of a framework, and finds nothing itself but what looks for devices."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in ("jax", "torch", *WITH_XLA) and fullname not in self._seen:
            self._seen.update(("jax", "jaxlib") if fullname in ("jax", "jaxlib") else (fullname,))
            make_ready(fullname)
        if fullname not in LOOKS_FOR_DEVICES and fullname != TENSORFLOWS_CHOICE:
            return None
        return _waiting(fullname, path)


def watch() -> None:
    if os.environ.get(CUDA_ROOT):
        os.environ[PACKAGES] = ":".join(path for path in sys.path if path.endswith("-packages"))
    sys.meta_path.insert(0, _Watch())


def _waiting(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """The module as it is, but that it waits for the slice before it looks for devices."""
    spec = PathFinder.find_spec(name, path)
    if spec is None or spec.loader is None:
        return None
    execute = spec.loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        for function in LOOKS_FOR_DEVICES.get(name, ()):
            wait_before(module, function)
        if name == TENSORFLOWS_CHOICE:
            look_for_none_where_none_is_chosen(module)

    spec.loader.exec_module = exec_module  # type: ignore[method-assign]
    return spec


def wait_before(module: ModuleType, function: str) -> None:
    """Have ``function`` wait until there is a slice, and raise (or count none) where there is none.

    Here other threads of the program run while it waits: PyTorch waits inside of CUDA with Python's lock, and
    a kernel would answer nothing. XLA starts CUDA once in a process, and PyTorch counts devices once: a
    wait that is interrupted inside of them, or a refusal, would leave them on the CPU to the process's end
    without a word. So it is in a release without such a function.
    """
    look = getattr(module, function, None)
    if look is None:
        return
    there = False

    @functools.wraps(look)
    def waits(*arguments: Any, **keywords: Any) -> Any:
        nonlocal there
        begun = there or getattr(module, "_backends", None)  # JAX, on the CPU: it would use no slice now
        if not begun and wants_a_gpu(module):
            there = _have_slice()
            if not there and function in ONLY_COUNTS:
                return 0
            if not there:
                raise RuntimeError(NO_GPU)
        return look(*arguments, **keywords)

    setattr(module, function, waits)


def wants_a_gpu(module: ModuleType) -> bool:
    """Whether the user has not told the framework, of which ``module`` is, to leave it alone."""
    platforms = getattr(getattr(getattr(module, "config", None), "jax_platforms", None), "value", None)
    # The older setting names the default alone: JAX would begin all others too (jax_plugins/gpu_kernels.py).
    platforms = platforms or getattr(getattr(module, "_PLATFORM_NAME", None), "value", None)
    chosen = str(platforms or "cuda").lower().split(",")
    return os.environ.get(VISIBLE) not in ("", "-1") and not {"cuda", "gpu"}.isdisjoint(chosen)


def look_for_none_where_none_is_chosen(module: ModuleType) -> None:
    """Have ``set_visible_devices([], "GPU")``, which looks for devices first, wait for no slice, nor raise.

    It is so where a slice is asked for at its first use; elsewhere it is there, and TensorFlow lists it.
    """
    context = getattr(module, "Context", None)
    choose = getattr(context, "set_visible_devices", None)
    if choose is None:
        return

    @functools.wraps(choose)
    def chooses(self: object, devices: object, device_type: str | None = None) -> Any:
        none = devices == [] and device_type == "GPU"
        if not none or VISIBLE in os.environ or not os.environ.get(ATTACH):
            return choose(self, devices, device_type)
        os.environ[VISIBLE] = "-1"
        try:
            return choose(self, devices, device_type)
        finally:
            os.environ.pop(VISIBLE, None)

    setattr(context, "set_visible_devices", chooses)  # noqa: B010


def _have_slice() -> bool:
    """Whether CUDA begins, which waits. Python raises ``KeyboardInterrupt`` where the wait was ended."""
    try:
        start = ctypes.CDLL("libcuda.so.1").cuInit
    except (OSError, AttributeError):
        return True  # the framework tells what it misses
    return bool(start(0) == 0)


def make_ready(framework: str) -> None:
    """Set what ``framework`` reads at its import. It never fails: a framework may be used without a GPU."""
    try:
        if framework == "torch":
            add(os.environ, OF_PYTORCH)
        else:
            put(os.environ, _installed())
        _load_own(os.environ.get(LIBRARIES))
        if framework == "tensorflow":
            _load_triton()
    except (OSError, ValueError) as error:
        _tell(f"{framework} is imported without the runtime's settings: {error}")


def put(environ: MutableMapping[str, str], installed: Mapping[str, str]) -> None:
    """Set what the frameworks read. ``installed``: the packages of ``WITH_XLA`` that are, with versions."""
    told = TOLD in _noted(environ)
    take_back(environ)
    values = dict(SETTINGS)
    if environ.get(CUDA_ROOT):
        values["CUDA_ROOT"] = environ[CUDA_ROOT]
        values |= ON_A_SOFTWARE_GPU
    ours = {name: value for name, value in values.items() if name not in environ}
    flags, untried = chosen_flags(flags_by_release(), installed, environ.get(CUDA_ROOT))
    if flags:
        ours[FLAGS] = " ".join(flags)
    for name, value in ours.items():
        environ[name] = " ".join(filter(None, (value, environ.get(name))))
    environ[SET] = json.dumps(ours | ({TOLD: True} if told or untried else {}))
    if untried and not told:
        _tell(untried)


def add(environ: MutableMapping[str, str], values: Mapping[str, str]) -> None:
    """Set these, and leave what is set for XLA: it may be there, and have read it or not."""
    ours = {name: value for name, value in values.items() if name not in environ}
    environ.update(ours)
    environ[SET] = json.dumps(_noted(environ) | ours)


def take_back(environ: MutableMapping[str, str]) -> None:
    """Take out what was set here, and leave what the user has added or changed since."""
    ours = _noted(environ)
    environ.pop(SET, None)
    for name, value in ours.items():
        now = environ.get(name)
        if now == value:
            del environ[name]
        elif now is not None and name == FLAGS and value in now:  # the user's may stand on either side
            before, _, after = now.partition(value)
            environ[name] = before + after.removeprefix(" ") if after else before.removesuffix(" ")


def _noted(environ: Mapping[str, str]) -> dict[str, Any]:
    try:
        noted = json.loads(environ.get(SET, "{}"))
    except ValueError:
        return {}
    return noted if isinstance(noted, dict) else {}


def chosen_flags(
    table: Mapping[tuple[str, str], Sequence[str]], installed: Mapping[str, str], cuda_root: str | None
) -> tuple[list[str], str]:
    """The flags that each installed XLA knows; where one was not tried none, and the line that says so."""
    known = [table.get(release) for release in installed.items()]
    if not all(row is not None for row in known):
        names = ", ".join(
            f"{name} {version or '(of no known version)'}" for name, version in installed.items()
        )
        tried = ", ".join(f"{name} {version}" for name, version in table)
        return [], (
            f"{names}: not all of this was tried with slices, so XLA gets no flags, and what needs cuBLAS or "
            f"cuDNN fails. Tried: {tried}."
        )
    flags = [flag for row in known[:1] for flag in row or () if all(flag in (other or ()) for other in known)]
    if cuda_root is None:
        return [flag for flag in flags if "{cuda_root}" not in flag], ""
    return [flag.replace("{cuda_root}", cuda_root) for flag in flags], ""


def flags_by_release() -> dict[tuple[str, str], list[str]]:
    """The flags of each package and version that was tried."""
    text = Path(__file__).with_name("xla_flags.txt").read_text(encoding="utf-8")
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {(name, version): flags for name, version, *flags in rows}


def _installed() -> dict[str, str]:
    """Asked of the folders alone: the finders of ``sys.meta_path`` are in the middle of an import."""
    from importlib import metadata

    found = {}
    for name in WITH_XLA:
        if PathFinder.find_spec(name) is None:
            continue
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = ""
    return found


def _load_own(folder: str | None) -> None:
    """Frameworks open libraries by name, and what is loaded already is found by its name. One that is not
    there does not keep the others away. Raises ``OSError``, which names those that are not."""
    missing = []
    for library in OWN if folder else ():
        try:
            ctypes.CDLL(os.path.join(str(folder), library))
        except OSError as error:
            missing.append(str(error))
    if missing:
        raise OSError("; ".join(missing))


def _load_triton() -> None:
    """Triton's library before TensorFlow's, where both are installed. Each has an LLVM, and what is loaded
    later sees TensorFlow's: Triton would register its options there again, which ends the process.
    """
    package = PathFinder.find_spec("triton")
    for folder in (package and package.submodule_search_locations) or ():
        library = os.path.join(folder, "_C", "libtriton.so")
        if os.path.exists(library):
            ctypes.CDLL(library)


def _tell(text: str) -> None:
    print("gpu-kernels:", text, file=sys.stderr, flush=True)
