"""C++ programs with device code by hand, linked with our runtime of each release. No nvcc is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import MAJORS, NATIVE, ROOT, Way

HERE = Path(__file__).parent / "host"
CUDART = ROOT / "remoting" / "native" / "cudart"
PACKAGES = {12: "nvidia-cuda-runtime-cu12", 13: "nvidia-cuda-runtime"}


def headers(major: int) -> str:
    find = ROOT / "remoting" / "native" / "codegen" / "find_headers.py"
    command = [sys.executable, find, PACKAGES[major]]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory):
    """Compiles and links a program for one release, once a session: the folder is the cache."""
    folder = tmp_path_factory.mktemp("host")

    def build(name: str, major: int) -> Path:
        program = folder / f"{name}-{major}"
        if not program.exists():
            command = ["c++", "-std=c++20", "-O0", "-pthread", "-Wno-deprecated-declarations"]
            # Declares the per-thread forms too, and no macro gives programs the newest forms.
            command += [] if name == "properties" else ["-D__CUDA_API_VERSION_INTERNAL=1"]
            command += [f"-I{CUDART}", f"-I{CUDART / 'headers'}", "-isystem", headers(major)]
            command += [HERE / f"{name}.cc", "-o", program, NATIVE.softgpu / f"libcudart.so.{major}"]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        return program

    return build


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize("name", sorted(path.stem for path in HERE.glob("*.cc")))
def test_a_host_program_finds_what_the_manual_says(built, way: Way, name: str, major: int):
    done = way.run(built(name, major))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
