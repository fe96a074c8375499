"""Programs and what they do around their CUDA calls: straight on the software GPU, and forwarded to one."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pytest

from gpu_kernels.remoting.paths import native_build
from tests.conformance.places import PLACES
from tests.native_build import python_path

PRELUDE = """
import ctypes, os, signal, sys, threading
from tests.behaviour.device_text import TEXT
from tests.forwarding.driver_api import *

def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\\n")  # one write: others may write there too
    sys.stdout.flush()
"""
TOLD = ("gpu-kernels:", "software GPU:")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/behaviour" in str(item.path):
            item.add_marker(pytest.mark.native)
            item.add_marker(pytest.mark.timeout(300))


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    status: int
    out: str
    err: str

    @property
    def told(self) -> list[str]:
        """What it was told by the runtime, a line each."""
        return [line for line in self.err.splitlines() if line.startswith(TOLD)]


@dataclass(frozen=True)
class Way:
    """A device of its own, for one program or several at a time."""

    name: str
    environment: dict[str, str]

    def start(self, program: str, **extra: str) -> subprocess.Popen[str]:
        return self.start_command(sys.executable, "-c", PRELUDE + textwrap.dedent(program), **extra)

    def start_command(self, *command: str, **extra: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            env=self.environment | extra,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, program: str, **extra: str) -> Ended:
        with self.start(program, **extra) as process:
            out, err = process.communicate(timeout=200)
        return Ended(process.returncode, out, err)

    def check(self, program: str, **extra: str) -> Ended:
        """Runs a program that must succeed."""
        ended = self.run(program, **extra)
        assert ended.status == 0, ended.out + ended.err
        return ended


Place = Callable[[], AbstractContextManager[dict[str, str]]]


@pytest.fixture(scope="session")
def places() -> Iterator[dict[str, Place]]:
    if not native_build().client.joinpath("libcuda.so.1").exists():
        pytest.skip("the native build is not there")
    with PLACES["straight"](1) as straight, PLACES["forwarded"](4) as forwarded:
        yield {"straight": straight, "forwarded": forwarded}


def way_of(place: Place, name: str) -> Iterator[Way]:
    with place() as environment:
        path = python_path()
        # Some tests count lines of the runtime; the log's would be among them.
        extra = {"PYTHONPATH": path, "GPU_KERNELS_LOG": ""}
        yield Way(name, environment | extra)


@pytest.fixture(params=["straight", "forwarded"])
def way(request: pytest.FixtureRequest, places: dict[str, Place]) -> Iterator[Way]:
    yield from way_of(places[request.param], request.param)


@pytest.fixture
def forwarded(places: dict[str, Place]) -> Iterator[Way]:
    yield from way_of(places["forwarded"], "forwarded")


@pytest.fixture
def another_lease(places: dict[str, Place]) -> Iterator[Way]:
    yield from way_of(places["forwarded"], "forwarded")
