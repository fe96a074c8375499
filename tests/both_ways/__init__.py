"""Programs that run straight on the software GPU and forwarded to it, in a process each, and see the same.

A program is a function of a module of cases, given the driver under test.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.forwarding.minimal_agent import MinimalAgent, uuid_of
from tests.native_build import Build, build_of_make, python_path


class Process:
    """A process that runs the functions of ``modules``; its standard error is ``log``."""

    def __init__(self, environment: dict[str, str], log: Path, *modules: str) -> None:
        path = python_path(environment)
        self.log = log
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.both_ways.run_cases", *modules],
            env=environment | {"PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.open("wb"),
        )

    def run(self, name: str, *arguments: object) -> Any:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin
        assert stdout
        pickle.dump((name, arguments), stdin)
        stdin.flush()
        try:
            ok, result = pickle.load(stdout)
        except EOFError:
            raise AssertionError(f"{name} ended its process: {self.log.read_text()}") from None
        assert ok, f"{name}: {result}\n{self.log.read_text()[-4000:]}"
        return result

    def end(self) -> int:
        assert self.process.stdin
        self.process.stdin.close()
        return self.process.wait(60)


@dataclass
class BothWays:
    straight: Process
    forwarded: Process
    agent: MinimalAgent

    def run(self, name: str, *arguments: object) -> Any:
        """What the case returns, which must be the same both ways."""
        straight = self.straight.run(name, *arguments)
        forwarded = self.forwarded.run(name, *arguments)
        assert forwarded == straight
        return straight

    def end(self) -> list[int]:
        return [self.straight.end(), self.forwarded.end()]


def build_for_both() -> Build:
    return build_of_make("client_cuda", "gpu_worker", "softgpu")


def settings(memory_mib: tuple[int, ...]) -> dict[str, str]:
    """Software GPUs with this memory, named as the agent's slices are."""
    return {
        "GPU_KERNELS_SOFTGPU_MEMORY_MIB": ",".join(str(mib) for mib in memory_mib),
        "GPU_KERNELS_SOFTGPU_UUID": ",".join(uuid_of(i) for i in range(len(memory_mib))),
        "GPU_KERNELS_SOFTGPU_NAME": "Test GPU",
        "GPU_KERNELS_SOFTGPU_LOG": "stderr",
    }


def agent_of(
    native: Build,
    folder: Path,
    memory_mib: tuple[int, ...],
    gpu_mib: tuple[int, ...] | None = None,
    options: tuple[str, ...] = (),
    shares: bool = False,
) -> MinimalAgent:
    """An agent with slices of software GPUs that have no more memory than them, or ``gpu_mib``; ``options``
    are more of the worker's command line. It ``shares`` memory with its clients, or works as across hosts."""
    first, *further = memory_mib
    environment = settings(gpu_mib or memory_mib)
    return MinimalAgent(
        folder,
        native.worker,
        native.software,
        mib=first,
        further_mib=tuple(further),
        environment=environment,
        options=options,
        shares=shares,
    )


def environments(
    agent: MinimalAgent, native: Build, memory_mib: tuple[int, ...]
) -> tuple[dict[str, str], dict[str, str]]:
    """Of a process that runs straight, and of one that is forwarded."""
    preload = os.environ.get("GPU_KERNELS_TEST_PRELOAD")
    more = {"LD_PRELOAD": preload} if preload else {}
    straight = os.environ | settings(memory_mib) | more | {"LD_LIBRARY_PATH": str(native.software.parent)}
    forwarded = agent.client_environment(native.client) | more | {"GPU_KERNELS_LOG": "stderr"}
    return straight, forwarded


def each_way(
    agent: MinimalAgent, native: Build, folder: Path, memory_mib: tuple[int, ...], modules: tuple[str, ...]
) -> Iterator[Process]:
    """A process that runs straight, then a forwarded one; for cases that end their process or its context."""
    for name, environment in zip(
        ("straight", "forwarded"), environments(agent, native, memory_mib), strict=True
    ):
        yield Process(environment, folder / name, *modules)


@contextmanager
def both_ways(
    native: Build,
    folder: Path,
    memory_mib: tuple[int, ...],
    modules: tuple[str, ...],
    shares: bool = False,
) -> Iterator[BothWays]:
    with agent_of(native, folder, memory_mib, shares=shares) as agent:
        straight, forwarded = environments(agent, native, memory_mib)
        processes = BothWays(
            Process(straight, folder / "straight.log", *modules),
            Process(forwarded, folder / "forwarded.log", *modules),
            agent,
        )
        yield processes
        processes.end()
