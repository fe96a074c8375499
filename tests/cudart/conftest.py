"""Programs under our CUDA runtime: straight on the software GPU, and forwarded to one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpu_kernels.remoting.paths import native_build
from tests.forwarding.minimal_agent import MinimalAgent
from tests.native_build import python_path

ROOT = Path(__file__).resolve().parents[2]
NATIVE = native_build()
MEMORY_MIB = 256
MAJORS = (12, 13)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/cudart" in str(item.path):
            item.add_marker(pytest.mark.native)


@dataclass(frozen=True)
class Way:
    """One of the two ways in which a program runs: its environment, and the libraries of it."""

    name: str
    folder: Path
    environment: dict[str, str]

    def runtime(self, major: int) -> Path:
        return self.folder / f"libcudart.so.{major}"

    def run(self, *command: str | Path, **extra: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=self.environment | extra, capture_output=True, text=True, timeout=100, check=False
        )

    def python(self, program: Path | str, *arguments: str, **extra: str) -> str:
        """What a Python program prints, which must succeed."""
        source = [str(program)] if isinstance(program, Path) else ["-c", program]
        done = self.run(sys.executable, *source, *arguments, **extra)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def _environment(folder: Path) -> dict[str, str]:
    if not (folder / "libcudart.so.13").exists():
        pytest.skip(f"{folder} is not built")
    path = python_path()
    sanitizers = os.environ.get("GPU_KERNELS_TEST_PRELOAD", "").split()
    preloaded = ":".join([*sanitizers, *(str(folder / f"libcudart.so.{major}") for major in MAJORS)])
    return os.environ | {"LD_LIBRARY_PATH": str(folder), "LD_PRELOAD": preloaded, "PYTHONPATH": path}


@pytest.fixture(scope="session")
def straight() -> Way:
    environment = _environment(NATIVE.softgpu)
    environment["GPU_KERNELS_SOFTGPU_MEMORY_MIB"] = str(MEMORY_MIB)
    return Way("straight", NATIVE.softgpu, environment)


@pytest.fixture(scope="session")
def forwarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    environment = _environment(NATIVE.client)
    folder = tmp_path_factory.mktemp("agent")
    driver = NATIVE.softgpu_driver
    with MinimalAgent(folder, NATIVE.worker, driver, mib=MEMORY_MIB) as agent:
        yield Way("forwarded", NATIVE.client, agent.client_environment(NATIVE.client) | environment)


@pytest.fixture(params=["straight", "forwarded"])
def way(request: pytest.FixtureRequest) -> Way:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def nvcc() -> str:
    found = shutil.which("nvcc")
    if not found:
        pytest.skip("nvcc is not here")
    return found
