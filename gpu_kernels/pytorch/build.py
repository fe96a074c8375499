"""The native part: compiled once for a release of PyTorch, by the compiler of this machine.

PyTorch's C++ interface is that of one release, and students bring many, so it cannot lie in our wheel.
It uses nothing of Python's and nothing of CUDA's headers.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from gpu_kernels.remoting.paths import native_build

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
    sources = sorted(SOURCES.glob("*.cc"))
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        objects = [f"{folder}/{source.stem}.o" for source in sources]
        _run_all(
            [
                [*compiler.split(), *FLAGS, *includes, "-c", str(source), "-o", made]
                for source, made in zip(sources, objects, strict=True)
            ]
        )
        linked = f"{folder}/linked.so"
        libraries = [f"-L{root / 'lib'}", "-ltorch_cpu", "-lc10", "-ldl"]
        _run_all([[*compiler.split(), "-shared", "-o", linked, *objects, *libraries]])
        os.replace(linked, target)


def _run_all(commands: list[list[str]]) -> None:
    """All at once. None of them is there any more afterwards, however it ends. Raises ``NotBuilt``."""
    running: list[subprocess.Popen[str]] = []
    try:
        for command in commands:
            # A group of its own: a compiler driver has children.
            running.append(
                subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
            )
        said = [each.communicate(timeout=TAKES_AT_MOST_S)[1] for each in running]
    except subprocess.TimeoutExpired:
        raise NotBuilt(f"{commands[0][0]} did not end within {TAKES_AT_MOST_S} s.") from None
    finally:
        for each in running:
            if each.poll() is None:
                os.killpg(each.pid, signal.SIGKILL)
                each.communicate()
    if any(each.returncode for each in running):
        raise NotBuilt(f"{commands[0][0]} did not make it: {_first_error(''.join(said))}")


def _first_error(text: str) -> str:
    lines = (
        [line for line in text.splitlines() if "error" in line] or text.splitlines() or ["it said nothing"]
    )
    return lines[0]


def _digest() -> str:
    """Of the sources, and of what they are compiled for: another version of ours makes another library, and
    so does another machine that shares the home folder.
    """
    digest = hashlib.blake2b(" ".join((platform.machine(), *FLAGS)).encode(), digest_size=6)
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + source.read_bytes())
    return digest.hexdigest()


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-kernels"


if __name__ == "__main__":
    print(made(Path(sys.argv[1]) / f"pytorch-{torch.__version__}-{_digest()}.so"))
