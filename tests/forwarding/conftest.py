"""The native build, agents with workers, and programs that run as clients of them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .minimal_agent import MinimalAgent

ROOT = Path(__file__).resolve().parents[2]


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
    def recording_driver(self) -> Path:
        return self.folder / "recording_driver" / "libcuda.so.1"

    @property
    def generated(self) -> Path:
        return self.folder / "codegen" / "generated"


def build(folder: Path, *targets: str, options: tuple[str, ...] = ()) -> Build:
    """Configures and builds ``targets``; does nothing when all is there."""
    tools = Path(sys.executable).parent
    configure = [tools / "cmake", "-G", "Ninja", "-S", ROOT / "remoting/native", "-B", folder]
    configure += [
        f"-DPython3_EXECUTABLE={sys.executable}",
        f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}",
        *options,
    ]
    if not (folder / "build.ninja").exists():
        subprocess.run(configure, check=True, capture_output=True)
    make = [tools / "cmake", "--build", folder, "-j2", "--target", *targets]
    done = subprocess.run(make, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]
    return Build(folder)


@pytest.fixture(scope="session")
def native() -> Build:
    """What `make` builds; GPU_KERNELS_NATIVE_BUILD names another build, with sanitizers perhaps."""
    folder = Path(os.environ.get("GPU_KERNELS_NATIVE_BUILD", ROOT / "build/native"))
    return build(folder, "client_cuda", "gpu_worker", "recording_driver", "forwarding_unit_tests")


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """Where the recording driver writes what it was asked."""
    return tmp_path / "record"


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """Synchronisations after the kernel `gate` wait until this file exists."""
    return tmp_path / "gate"


@pytest.fixture
def agent(tmp_path: Path, native: Build, record: Path, gate: Path) -> Iterator[MinimalAgent]:
    """An agent whose workers use the recording driver."""
    environment = {"RECORDING_DRIVER_LOG": str(record), "RECORDING_DRIVER_GATE": str(gate)}
    driver = native.recording_driver
    with MinimalAgent(tmp_path, native.worker, driver, environment=environment) as running:
        yield running


@dataclass
class Client:
    """Runs Python programs under the forwarding runtime."""

    agent: MinimalAgent
    native: Build

    def environment(self, **extra: str) -> dict[str, str]:
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        environment = self.agent.client_environment(self.native.client) | {"PYTHONPATH": path}
        # A library with a sanitizer needs the sanitizer's own in the program that loads it.
        if preload := os.environ.get("GPU_KERNELS_TEST_PRELOAD"):
            environment["LD_PRELOAD"] = preload
        return environment | extra

    def start(self, program: str, **extra: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(program)],
            env=self.environment(**extra),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, program: str, **extra: str) -> subprocess.CompletedProcess[str]:
        with self.start(program, **extra) as process:
            out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def check(self, program: str, **extra: str) -> str:
        """Runs a program that must succeed; what it printed."""
        done = self.run(program, **extra)
        assert done.returncode == 0, done.stderr + self.agent.log.read_text()
        return done.stdout


PRELUDE = "import ctypes, os, sys, threading\nfrom tests.forwarding.driver_api import *\n"


@pytest.fixture
def client(agent: MinimalAgent, native: Build) -> Client:
    return Client(agent, native)


@pytest.fixture
def recorded(record: Path) -> Callable[[str], list[list[str]]]:
    """The recorded calls with this name, as words without the name.

    The driver writes its record out when a program synchronises: one that does not may end before that.
    """

    def read(name: str) -> list[list[str]]:
        lines = [line.split() for line in record.read_text().splitlines()]
        return [words[1:] for words in lines if words[0] == name]

    return read
