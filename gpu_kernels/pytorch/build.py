"""The native part: compiled once for a release of PyTorch, by the compiler of this machine.

PyTorch's C++ interface is that of one release, and students bring many, so it cannot lie in our wheel.
It uses nothing of Python's and nothing of CUDA's headers.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from remoting.paths import native_build

SOURCES = Path(__file__).parent / "native"
COMPILER = "CXX"
FLAGS = ("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-w")
TAKES_AT_MOST_S = 1800


class NotBuilt(Exception):
    """There is none, and it could not be made; the text says what to do."""


def library() -> Path:
    """The native part for the PyTorch that is imported. Raises ``NotBuilt``."""
    name = f"pytorch-{torch.__version__}-{_digest()}.so"
    made_before = native_build(os.environ).folder / "pytorch" / name
    if made_before.exists():
        return made_before
    return made(_cache() / name)


def made(target: Path) -> Path:
    """Compile it into ``target``, unless it is there. Processes that need it at once make it once."""
    if target.exists():
        return target
    compiler = os.environ.get(COMPILER) or shutil.which("c++") or shutil.which("g++")
    if not compiler:
        raise NotBuilt(
            f"it needs a C++ compiler once for PyTorch {torch.__version__} (Debian: apt install g++), "
            "or a library that was made elsewhere: python -m gpu_kernels.pytorch.build FOLDER."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.parent / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            print(
                "gpu-kernels: making PyTorch's operators for software GPUs, once for this release of "
                "PyTorch; this takes a minute or two.",
                file=sys.stderr,
                flush=True,
            )
            _compile(compiler, target)
    return target


def _compile(compiler: str, target: Path) -> None:
    root = Path(torch.__file__).parent
    includes = [f"-isystem{root / 'include'}", f"-isystem{root / 'include/torch/csrc/api/include'}"]
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        objects, compilers = [], []
        for source in sorted(SOURCES.glob("*.cc")):
            objects.append(f"{folder}/{source.stem}.o")
            command = [*compiler.split(), *FLAGS, *includes, "-c", str(source), "-o", objects[-1]]
            compilers.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        said = [each.communicate(timeout=TAKES_AT_MOST_S)[1] for each in compilers]
        if any(each.returncode for each in compilers):
            raise NotBuilt(f"{compiler} did not compile it: {_first_error(''.join(said))}")
        linked = f"{folder}/linked.so"
        libraries = [f"-L{root / 'lib'}", "-ltorch_cpu", "-lc10", "-ldl"]
        link = [*compiler.split(), "-shared", "-o", linked, *objects, *libraries]
        done = subprocess.run(link, capture_output=True, text=True, check=False, timeout=TAKES_AT_MOST_S)
        if done.returncode:
            raise NotBuilt(f"{compiler} did not link it: {_first_error(done.stderr)}")
        os.replace(linked, target)


def _first_error(text: str) -> str:
    lines = (
        [line for line in text.splitlines() if "error" in line] or text.splitlines() or ["it said nothing"]
    )
    return lines[0]


def _digest() -> str:
    """Of the sources: another version of ours makes another library."""
    digest = hashlib.blake2b(digest_size=6)
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + source.read_bytes())
    return digest.hexdigest()


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-kernels"


if __name__ == "__main__":
    print(made(Path(sys.argv[1]) / f"pytorch-{torch.__version__}-{_digest()}.so"))
