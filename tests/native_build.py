"""The native code as tests use it: built where it is not yet."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Build:
    """A build folder of remoting/native."""

    folder: Path

    @property
    def client(self) -> Path:
        return self.folder / "client"

    @property
    def worker(self) -> Path:
        return self.folder / "bin" / "gpu-worker"

    @property
    def software(self) -> Path:
        return self.folder / "softgpu" / "libcuda.so.1"

    @property
    def recording_driver(self) -> Path:
        return self.folder / "recording_driver" / "libcuda.so.1"

    @property
    def hostile_driver(self) -> Path:
        return self.folder / "hostile_driver" / "libcuda.so.1"

    @property
    def generated(self) -> Path:
        return self.folder / "codegen" / "generated"


def build(folder: Path, *targets: str, options: tuple[str, ...] = ()) -> Build:
    """Configures and builds ``targets``; does nothing when all is there. Other processes that want something
    of the same folder wait: two builds at once would each write what the other one reads.
    """
    tools = Path(sys.executable).parent
    configure = [tools / "cmake", "-G", "Ninja", "-S", ROOT / "remoting/native", "-B", folder]
    configure += [
        f"-DPython3_EXECUTABLE={sys.executable}",
        f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}",
        *options,
    ]
    make = [tools / "cmake", "--build", folder, "-j2", "--target", *targets]
    with alone(folder):
        if not (folder / "build.ninja").exists():
            subprocess.run(configure, check=True, capture_output=True)
        done = subprocess.run(make, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]
    return Build(folder)


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """No other process builds there meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build_of_make(*targets: str) -> Build:
    """What `make` builds; GPU_KERNELS_NATIVE_BUILD names another build, with sanitizers perhaps."""
    folder = Path(os.environ.get("GPU_KERNELS_NATIVE_BUILD", ROOT / "build/native"))
    return build(folder, *targets)


@functools.cache
def built(target: str) -> Path:
    """The folder of what ``make`` builds, with this target in it up to date. Asks once a process."""
    return build_of_make(target).folder


def python_path(environment: Mapping[str, str] = os.environ) -> str:
    """PYTHONPATH of a program that imports ``tests``. An empty entry would be the folder it runs in."""
    return os.pathsep.join(filter(None, [str(ROOT), environment.get("PYTHONPATH", "")]))
