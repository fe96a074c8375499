"""Fixtures: clients of an agent whose driver does nothing but write down what it is asked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.native_build import Build, build_of_make, python_path

from .minimal_agent import MinimalAgent
from .programs import Programs


@pytest.fixture(scope="session")
def native() -> Build:
    return build_of_make("client_cuda", "gpu_worker", "recording_driver", "forwarding_unit_tests")


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
class Client(Programs):
    """Runs Python programs under the forwarding runtime."""

    agent: MinimalAgent
    native: Build

    def environment_of(self, **extra: str) -> dict[str, str]:
        path = python_path()
        environment = self.agent.client_environment(self.native.client) | {"PYTHONPATH": path}
        # A library with a sanitizer needs the sanitizer's own in the program that loads it.
        if preload := os.environ.get("GPU_KERNELS_TEST_PRELOAD"):
            environment["LD_PRELOAD"] = preload
        return environment | extra


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
