"""Which frameworks a Python's environment has, and whether those releases were tried in a slice.

The Python that is asked may be another than this one, and older; it is asked in a process of its own, and
nothing is imported there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from gpu_kernels.errors import GPUKernelsError
from gpu_kernels.pytorch import releases
from gpu_kernels.remoting.startup.gpu_kernels_frameworks import flags_by_release

ANSWERS_WITHIN_S = 60
CUPY = ("cupy-cuda13x", "cupy-cuda12x")
STATIC = (
    "its wheels contain NVIDIA's own CUDA runtime, which works with NVIDIA's driver only; built from source "
    "with the shared one it can use ours (docs/how-to/build-cupy.md)"
)
CUDF = ("libcudf-cu13", "libcudf-cu12")
QUESTION = """\
import json, sys
from importlib import metadata, util
versions = {}
for name in sys.argv[1:]:
    try:
        versions[name] = metadata.version(name).partition("+")[0]
    except metadata.PackageNotFoundError:
        pass
parts = [name for name in ("ipykernel", "gpu_kernels") if util.find_spec(name) is None]
print(json.dumps({"versions": versions, "lacks": parts}))
"""


class NoSuchPython(GPUKernelsError):
    """The named program is no Python that answers. ``str()`` says what happened."""

    code = "no_such_python"


@dataclass(frozen=True)
class Environment:
    """What a Python has: ``versions`` by distribution, and what it ``lacks`` of what a kernel needs."""

    versions: Mapping[str, str]
    lacks: tuple[str, ...]


@dataclass(frozen=True)
class Framework:
    """``tried``: whether this release was; None where it never runs in a slice. ``detail`` is a sentence."""

    name: str
    tried: bool | None
    detail: str


def environment_of(python: str) -> Environment:
    """Raises ``NoSuchPython``. ``python``: a path, or a command's name."""
    program = os.path.abspath(shutil.which(python) or python)  # not its target: a link may be an environment
    asked = [program, "-c", QUESTION, "torch", "tensorflow", "keras", "jaxlib", *CUPY, "cupy", *CUDF]
    try:
        # In a folder without modules: Python would find those of the current one.
        done = subprocess.run(
            asked, cwd="/", capture_output=True, text=True, timeout=ANSWERS_WITHIN_S, check=True
        )
        answer = json.loads(done.stdout.splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        raise NoSuchPython(f"{python} is no Python that answers: {error}") from None
    return Environment(answer["versions"], tuple(answer["lacks"]))


def frameworks_of(environment: Environment) -> list[Framework]:
    """Those that are there, with what is known of their releases."""
    versions, with_flags = environment.versions, flags_by_release()
    found = []
    if torch := versions.get("torch"):
        found.append(_framework("PyTorch", torch, releases.TRIED, releases.WHAT_RUNS_WHERE))
    for name, package in (("TensorFlow", "tensorflow"), ("JAX", "jaxlib")):
        tried = tuple(release for of, release in with_flags if of == package)
        if version := versions.get(package):
            found.append(_framework(name, version, tried, _keras(versions) if name == "TensorFlow" else ""))
    found += [Framework("CuPy", None, f"{versions[name]}: {STATIC}.") for name in CUPY if name in versions]
    if "cupy" in versions:
        found.append(Framework("CuPy", True, f"{versions['cupy']}, built from source."))
    cudf = "its library contains NVIDIA's own CUDA runtime, which works with NVIDIA's driver only."
    found += [Framework("cuDF", None, f"{versions[name]}: {cudf}") for name in CUDF if name in versions]
    return found


def _framework(name: str, version: str, tried: tuple[str, ...], remark: str) -> Framework:
    if version in tried:
        return Framework(name, True, f"{version} was tried. {remark}".rstrip())
    return Framework(name, False, f"{version} was not tried in a slice; {' and '.join(tried)} was")


def _keras(versions: Mapping[str, str]) -> str:
    return f"Keras is {versions['keras']}." if "keras" in versions else ""
