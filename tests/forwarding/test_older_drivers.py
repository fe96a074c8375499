"""A server whose driver is older than the headers that the client was built from."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.both_ways import Process
from tests.native_build import ROOT, Build, build

from .conftest import codegen
from .minimal_agent import MinimalAgent
from .older_driver import make_older_driver
from .programs import PRELUDE

WORKER = ROOT / "remoting/native/worker"
MEMORY_MIB = 64
OLDEST = 12040  # kOldestDriver of worker/driver.h
# What the worker calls although it is newer, and why that is right.
NEWER = {
    "cuEventElapsedTime_v2": "an older driver has it under its older name (worker/driver.cc)",
    "cuCtxRecordEvent": "the client refuses it (client/front_platform.cc)",
    "cuCtxWaitEvent": "the client refuses it (client/front_platform.cc)",
}


@pytest.fixture(scope="session")
def since(header: object) -> dict[str, int]:
    """The version that each symbol of the driver came with."""
    return {function.symbol: entry.version for entry, function in codegen("generate").match(header)}


@pytest.fixture(scope="session")
def software(native: Build) -> Path:
    build(native.folder, "softgpu")
    return native.folder / "softgpu" / "libcuda.so.1"


@dataclass
class OlderServer:
    """A program's cases on a server with the older driver, and straight on the software GPU behind it."""

    agent: MinimalAgent
    native: Build
    straight: dict[str, str]

    @property
    def forwarded(self) -> dict[str, str]:
        return self.agent.client_environment(self.native.client) | {"GPU_KERNELS_LOG": "stderr"}

    def both(self, log: Path, cases: str, name: str, *arguments: object) -> list[Any]:
        results = []
        for environment in (self.straight, self.forwarded):
            process = Process(environment, log, cases)
            results.append(process.run(name, *arguments))
            process.end()
        return results

    def run(self, program: str) -> subprocess.CompletedProcess[str]:
        environment = self.forwarded | {"PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
        return subprocess.run(
            [sys.executable, "-c", PRELUDE + program],
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
        )


@pytest.fixture(scope="module")
def older(
    native: Build, software: Path, since: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OlderServer]:
    folder = tmp_path_factory.mktemp("older")
    driver = make_older_driver(folder, software, OLDEST, since)
    settings = {"GPU_KERNELS_SOFTGPU_MEMORY_MIB": str(MEMORY_MIB), "GPU_KERNELS_SOFTGPU_LOG": "stderr"}
    straight = os.environ | settings | {"LD_LIBRARY_PATH": str(software.parent)}
    with MinimalAgent(folder, native.worker, driver, mib=MEMORY_MIB, environment=settings) as agent:
        yield OlderServer(agent, native, straight)


def test_the_worker_calls_nothing_newer_than_the_oldest_driver(native: Build, since: dict[str, int]) -> None:
    generated = native.generated / "worker_calls.cc"
    text = "".join(path.read_text() for path in [*sorted(WORKER.glob("*.cc")), generated])
    called = set(re.findall(r"\bdriver(?:\(\))?\.(cu\w+)", text))
    assert called >= {"cuLaunchKernel", "cuEventElapsedTime_v2", "cuKernelGetParamInfo"}
    assert {name for name in called if since[name] > OLDEST} == set(NEWER)
    assert f"kOldestDriver = {OLDEST};" in (WORKER / "driver.h").read_text()


@pytest.mark.parametrize(
    ("cases", "name", "arguments"),
    [
        ("tests.execution.cases_launches", "launch_attributes", ()),
        ("tests.execution.cases_host_calls", "called_in_the_streams_order", ()),
        ("tests.execution.cases_contexts", "a_context_gives_back_what_it_owns", ()),
        ("tests.graphs.cases", "replays", (5,)),
        ("tests.graphs.cases", "outputs_become_inputs", ()),
        ("tests.memory.pool_cases", "pool_account", (0,)),
    ],
)
def test_programs_run_on_the_oldest_driver_that_is_served(
    cases: str, name: str, arguments: tuple[object, ...], older: OlderServer, tmp_path: Path
) -> None:
    straight, forwarded = older.both(tmp_path / "log", cases, name, *arguments)
    assert forwarded == straight


def test_a_program_sees_the_servers_version_and_is_told_what_its_driver_lacks(older: OlderServer) -> None:
    done = older.run("""
c = Cuda()
version = INT()
c.call("cuDriverGetVersion", ctypes.byref(version))
start, end = (c.out("cuEventCreate", UINT(0)) for _ in range(2))
took = ctypes.c_float(-1)
for event in start, end:
    c.call("cuEventRecord", U64(event), U64(0))
c.call("cuEventSynchronize", U64(end))
for form in "cuEventElapsedTime", "cuEventElapsedTime_v2":
    c.call(form, ctypes.byref(took), U64(start), U64(end))
    assert took.value >= 0
names = ("cuCtxRecordEvent", "cuCtxWaitEvent") * 2
lacking = [c.status(name, None, U64(start)) for name in names]
c.synchronize()
print(version.value, lacking)
""")
    assert done.stdout == f"{OLDEST} {[801] * 4}\n", done.stderr
    assert done.stderr.count("driver is older than CUDA 12.5") == 1


def test_a_driver_too_old_to_describe_kernels_is_refused_with_what_to_install(
    native: Build, software: Path, since: dict[str, int], tmp_path: Path
) -> None:
    driver = make_older_driver(tmp_path, software, 12020, since)
    with MinimalAgent(tmp_path, native.worker, driver) as refused:
        assert refused.worker is not None
        assert refused.worker.wait(timeout=60) == 1
        fault = str(refused.packets()[0]["fault"])
    assert "for CUDA 12.2" in fault
    assert "install one for CUDA 12.4 or newer" in fault


RUNTIME = """
runtime = ctypes.CDLL({library!r})
version, count = INT(), INT()
answers = [runtime.cudaGetDeviceCount(ctypes.byref(count)) for _ in range(2)]
print(answers, runtime.cudaDriverGetVersion(ctypes.byref(version)), version.value)
"""


@pytest.mark.parametrize(("major", "answer", "lines"), [(12, 0, 0), (13, 35, 1)])
def test_a_runtime_of_a_later_major_version_says_that_the_driver_is_too_old(
    major: int, answer: int, lines: int, older: OlderServer
) -> None:
    build(older.native.folder, f"cudart{major}")
    library = older.native.folder / "cudart" / str(major) / f"libcudart.so.{major}"
    done = older.run(RUNTIME.format(library=str(library)))
    assert done.stdout == f"{[answer] * 2} 0 {OLDEST}\n", done.stderr
    assert done.stderr.count("the driver of its GPU is for CUDA 12.4") == lines
