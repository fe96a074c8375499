"""Makes JAX, TensorFlow and PyTorch find a slice, when one of them is imported and not before.

Whatever the user has set stays. What is set here is noted in ``GPU_KERNELS_SET``, so that a process that
inherits it, with another framework or with another slice, can take it back.
"""

from __future__ import annotations

import ctypes
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
    "jax._src.xla_bridge": "_discover_and_register_pjrt_plugins",
    "tensorflow.python.pywrap_tfe": "TF_ListPhysicalDevices",
}
"""The function that each calls before it asks XLA for devices, by its module."""


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
        return _waiting(fullname, path) if fullname in LOOKS_FOR_DEVICES else None


def watch() -> None:
    sys.meta_path.insert(0, _Watch())


def _waiting(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """The module as it is, but that it waits for the slice before it looks for devices."""
    spec = PathFinder.find_spec(name, path)
    if spec is None or spec.loader is None:
        return None
    execute = spec.loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        wait_before(module, LOOKS_FOR_DEVICES[name])

    spec.loader.exec_module = exec_module  # type: ignore[method-assign]
    return spec


def wait_before(module: ModuleType, function: str) -> None:
    """Have ``function`` wait until there is a slice, and raise where there is none.

    XLA starts CUDA once in a process: a wait that is interrupted inside of it, or a refusal, would leave the
    framework on the CPU to the process's end without a word. So it is in a release without such a function.
    """
    look = getattr(module, function, None)
    if look is None:
        return
    there = False

    def waits(*arguments: object) -> object:
        nonlocal there
        there = there or not _wants_a_gpu(module) or _have_slice()
        return look(*arguments)

    setattr(module, function, waits)


def _wants_a_gpu(module: ModuleType) -> bool:
    """Whether the user has not told the framework to leave it alone."""
    platforms = getattr(getattr(getattr(module, "config", None), "jax_platforms", None), "value", None)
    chosen = str(platforms or "cuda").split(",")
    return os.environ.get("CUDA_VISIBLE_DEVICES") not in ("", "-1") and not {"cuda", "gpu"}.isdisjoint(chosen)


def _have_slice() -> bool:
    """Raises ``RuntimeError`` where it is refused, and ``KeyboardInterrupt`` where the wait was ended."""
    try:
        start = ctypes.CDLL("libcuda.so.1").cuInit
    except (OSError, AttributeError):
        return True  # the framework tells what it misses
    if start(0) != 0:
        raise RuntimeError(
            "there is no GPU for this, as the line above says. Use it again to ask again; to compute on the "
            "CPU, set os.environ['CUDA_VISIBLE_DEVICES'] = '-1' for TensorFlow, or "
            "jax.config.update('jax_platforms', 'cpu') for JAX."
        )
    return True


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
