"""What a process needs in its environment to run under the runtime. Nothing else sets these variables.

Functions over dictionaries, which look at nothing else but whether PATH has an nvcc. Each first takes away
what an outer lease put there, so that applying one again, or one after the other, gives what applying the
last alone gives; the user's own entries in ``LD_LIBRARY_PATH`` and ``LD_PRELOAD`` stay, in their order,
behind ours.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from gpu_kernels.client import Lease
from gpu_kernels.errors import GPUKernelsError
from gpu_kernels.remoting.paths import NativeBuild, native_build
from gpu_kernels.remoting.startup.gpu_kernels_frameworks import CUDA_ROOT, LIBRARIES, PACKAGES, take_back

AGENT = "GPU_KERNELS_AGENT"
LEASE = "GPU_KERNELS_LEASE"
EPOCH = "GPU_KERNELS_EPOCH"
SECRET = "GPU_KERNELS_SECRET"  # noqa: S105 - the variable's name
SIZE = "GPU_KERNELS_SIZE"
COURSE = "GPU_KERNELS_COURSE"
DEVICE = "GPU_KERNELS_DEVICE"
LEASE_VARIABLES = (AGENT, LEASE, EPOCH, SECRET, SIZE, DEVICE)
"""What belongs to one lease. The course stays when a lease goes: a server has it of its own."""

ATTACH = "GPU_KERNELS_ATTACH"
"""Where the kernel's slice is asked for, as ``unix:///PATH``: what is told there goes before the lease's
variables, which are those of the kernel's start."""

SOFTGPU_MEMORY = "GPU_KERNELS_SOFTGPU_MEMORY_MIB"
SOFTGPU_UUID = "GPU_KERNELS_SOFTGPU_UUID"
SOFTGPU_NAME = "GPU_KERNELS_SOFTGPU_NAME"
SOFTGPU_THREADS = "GPU_KERNELS_SOFTGPU_THREADS"
SOFTGPU_LOG = "GPU_KERNELS_SOFTGPU_LOG"

PYTHON = "GPU_KERNELS_PYTHON"
"""The Python that has this package, for the commands below: the kernel's own may be another."""
COMMANDS = Path(__file__).resolve().parent / "commands"
"""What is typed in a notebook's cell after a `!`: an `nvidia-smi` that shows the slice."""

STARTUP = Path(__file__).resolve().parent / "startup"
"""On PYTHONPATH: makes frameworks find the slice when they are imported (docs/design/frameworks.md)."""

TRITON_PTXAS = ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH")
"""Where Triton looks for the assembler, the second for compute capability 9.0 and later. A software GPU runs
PTX, and no other assembler's output: ours goes before the user's own."""

CUDA_HOME = "CUDA_HOME"
OUR_CUDA_HOME = "GPU_KERNELS_CUDA_HOME"
"""What CUDA_HOME was set to here, to be taken back."""

VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
"""What a process inherits of it numbers the GPUs of the machine that it was started on, and a lease has
numbers of its own: it goes. A program that sets it under the lease chooses among the lease's GPUs."""

SOFTWARE = "software"
"""A lease's ``device`` when its GPU is a software GPU."""


class NoEnvironment(GPUKernelsError):
    """No environment can be made for this process; the text says why."""

    code = "no_environment"


def client_environment(lease: Lease, base_env: Mapping[str, str]) -> dict[str, str]:
    """``base_env`` for a process that uses ``lease`` through the forwarding client.

    Raises ``NoEnvironment`` for a lease that is not in force (it has no agent or no secret).
    """
    env = _without_lease(base_env)
    env |= lease_variables(lease)
    _put_runtime(env, base_env, software=lease.device == SOFTWARE)
    return env


def attachable_environment(
    attach_point: str, lease: Lease | None, base_env: Mapping[str, str], *, software: bool = False
) -> dict[str, str]:
    """``base_env`` for a process that asks ``attach_point`` for its slice, and has that of ``lease`` already
    if there is one. ``software``: the slice that it will get is one of a software GPU.
    """
    if lease is not None:
        env = client_environment(lease, base_env)
    else:
        env = without_gpu(base_env)
        _put_runtime(env, base_env, software=software)
    env[ATTACH] = attach_point
    return env


def lease_variables(lease: Lease) -> dict[str, str]:
    """What belongs to one lease, and its course; all that differs between two leases of a process.

    Raises ``NoEnvironment`` for a lease that is not in force.
    """
    if lease.address is None or lease.secret is None:
        raise NoEnvironment(f"The lease {lease.id} is {lease.state}: it has no GPU to use.")
    return {
        AGENT: lease.address,
        LEASE: lease.id,
        EPOCH: str(lease.epoch),
        SECRET: lease.secret,
        SIZE: lease.size,
        COURSE: lease.course,
        DEVICE: lease.device or "",
    }


def _put_runtime(env: dict[str, str], base_env: Mapping[str, str], *, software: bool) -> None:
    native = native_build(base_env)
    env.pop(VISIBLE_DEVICES, None)
    env[PYTHON] = sys.executable
    if env.get("PATH"):
        _put_first(env, "PATH", [COMMANDS])
    _put_frameworks(env, native)
    _put_first(env, "LD_LIBRARY_PATH", [native.client, native.libraries])
    _put_first(env, "LD_PRELOAD", [*native.client_runtimes, *(native.compiler_stand_ins if software else ())])
    if software:
        _put_compilers(env, native)


def _put_frameworks(env: dict[str, str], native: NativeBuild) -> None:
    _put_first(env, "PYTHONPATH", [STARTUP])
    env[LIBRARIES] = str(native.libraries)


def _put_compilers(env: dict[str, str], native: NativeBuild) -> None:
    """What gives PTX for machine code. Ours goes before an nvcc that is there: programs look for one."""
    env |= dict.fromkeys(TRITON_PTXAS, str(native.ptxas))
    env[CUDA_ROOT] = str(native.cuda_root)
    nvcc = shutil.which("nvcc", path=env["PATH"]) if env.get("PATH") else None
    if nvcc is None:
        return
    _put_first(env, "PATH", [native.nvcc.parent])
    # Many take the folder above nvcc's for the toolkit, where nothing names that.
    toolkit = Path(nvcc).resolve().parent.parent
    if not {CUDA_HOME, "CUDA_PATH"} & set(env) and (toolkit / "include" / "cuda.h").exists():
        env[CUDA_HOME] = env[OUR_CUDA_HOME] = str(toolkit)


def software_environment(
    base_env: Mapping[str, str],
    *,
    memory_mib: int | None = None,
    name: str | None = None,
    threads: int | None = None,
    log: str | None = None,
) -> dict[str, str]:
    """``base_env`` for a process that runs straight on a software GPU, without any pool.

    What is None is left as ``base_env`` has it, else to the software GPU. ``memory_mib``: the device's
    memory; ``name``: the device's name; ``threads``: cores it uses; ``log``: ``stderr`` or a path.
    """
    native = native_build(base_env)
    env = _without_lease(base_env)
    env.pop(VISIBLE_DEVICES, None)
    given = {SOFTGPU_MEMORY: memory_mib, SOFTGPU_NAME: name, SOFTGPU_THREADS: threads, SOFTGPU_LOG: log}
    env |= {variable: str(value) for variable, value in given.items() if value is not None}
    env[DEVICE] = SOFTWARE
    env[PYTHON] = sys.executable
    if env.get("PATH"):
        _put_first(env, "PATH", [COMMANDS])
    _put_frameworks(env, native)
    _put_first(env, "LD_LIBRARY_PATH", [native.softgpu, native.libraries])
    _put_first(env, "LD_PRELOAD", [*native.softgpu_runtimes, *native.compiler_stand_ins])
    _put_compilers(env, native)
    return env


def without_gpu(base_env: Mapping[str, str]) -> dict[str, str]:
    """``base_env`` with nothing of the runtime in it; where the pool is stays known."""
    env = _without_lease(base_env)
    for variable in (SOFTGPU_MEMORY, SOFTGPU_UUID, SOFTGPU_NAME, SOFTGPU_THREADS, SOFTGPU_LOG):
        env.pop(variable, None)
    return env


def _without_lease(base_env: Mapping[str, str]) -> dict[str, str]:
    native = native_build(base_env)
    env = {name: value for name, value in base_env.items() if name not in (*LEASE_VARIABLES, ATTACH, PYTHON)}
    take_back(env)
    for variable in (CUDA_ROOT, LIBRARIES, PACKAGES):
        env.pop(variable, None)
    toolkit = env.pop(OUR_CUDA_HOME, None)
    if toolkit is not None and env.get(CUDA_HOME) == toolkit:
        del env[CUDA_HOME]
    _take_out(env, "PATH", (COMMANDS, native.nvcc.parent))
    _take_out(env, "PYTHONPATH", (STARTUP,))
    _take_out(env, "LD_LIBRARY_PATH", (native.client, native.softgpu, native.libraries))
    ours = (*native.client_runtimes, *native.softgpu_runtimes, *native.compiler_stand_ins)
    _take_out(env, "LD_PRELOAD", ours)
    for variable in TRITON_PTXAS:
        if env.get(variable) == str(native.ptxas):
            del env[variable]
    return env


def _put_first(env: dict[str, str], variable: str, paths: Iterable[Path]) -> None:
    ours = [_loadable(path) for path in paths]
    # An empty value must not become an empty entry: the loader reads that as the current folder.
    theirs = [env[variable]] if env.get(variable) else []
    env[variable] = ":".join(ours + theirs)


def _take_out(env: dict[str, str], variable: str, paths: Iterable[Path]) -> None:
    value = env.get(variable)
    if not value:
        return
    ours = {str(path) for path in paths}
    # The loader splits LD_PRELOAD at spaces too. Separators are kept: what is not ours stays as it was.
    words = re.split(r"([ :])" if variable == "LD_PRELOAD" else r"(:)", value)
    entries, separators = words[::2], [*words[1::2], ""]
    kept = [(entry, after) for entry, after in zip(entries, separators, strict=True) if entry not in ours]
    if len(kept) == len(entries):
        return
    if not kept:
        del env[variable]
        return
    env[variable] = "".join(entry + after for entry, after in kept[:-1]) + kept[-1][0]


def _loadable(path: Path) -> str:
    text = str(path)
    if set(text) & set(": ;"):
        raise NoEnvironment(
            f"The runtime is installed in {str(path.parent)!r}; the loader reads no folder with a space, a "
            "colon or a semicolon in its name. Install it elsewhere."
        )
    return text
