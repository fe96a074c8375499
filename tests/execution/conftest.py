"""Programs about contexts, streams and launches on two GPUs of one lease, run straight and forwarded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import both_ways
from tests.both_ways import BothWays
from tests.forwarding.minimal_agent import MinimalAgent
from tests.native_build import Build

MEMORY_MIB = (64, 32)
CASES = tuple(
    f"tests.execution.cases_{name}"
    for name in ("contexts", "host_calls", "kernels", "launches", "libraries", "stream_memory", "streams")
)


@pytest.fixture(scope="session")
def native() -> Build:
    return both_ways.build_for_both()


@pytest.fixture(scope="session")
def agent(native: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MinimalAgent]:
    with both_ways.agent_of(native, tmp_path_factory.mktemp("execution"), MEMORY_MIB) as running:
        yield running


@pytest.fixture(scope="module")
def both(agent: MinimalAgent, native: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothWays]:
    folder = tmp_path_factory.mktemp("processes")
    straight, forwarded = both_ways.environments(agent, native, MEMORY_MIB)
    processes = BothWays(
        both_ways.Process(straight, folder / "straight.log", *CASES),
        both_ways.Process(forwarded, folder / "forwarded.log", *CASES),
        agent,
    )
    yield processes
    processes.end()
