"""Programs that ask for too much or for nonsense, straight on the software GPU and forwarded to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.both_ways import agent_of, build_for_both, environments
from tests.forwarding.minimal_agent import MinimalAgent
from tests.forwarding.programs import PRELUDE, Programs
from tests.native_build import Build, python_path

MEMORY_MIB = 64
KERNELS = f"KERNELS = {(Path(__file__).parent / 'kernels.ptx').read_text()!r}\n"


@dataclass
class Way(Programs):
    """How a program comes to the software GPU."""

    name: str
    environment: dict[str, str]
    agent: MinimalAgent  # of the forwarded; idle where all is straight

    prelude = PRELUDE + KERNELS
    within_s = 100

    def environment_of(self, **extra: str) -> dict[str, str]:
        return self.environment | extra


@pytest.fixture(scope="session")
def native() -> Build:
    return build_for_both()


@pytest.fixture(scope="module")
def ways(native: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Way]]:
    sizes = (MEMORY_MIB,)
    with agent_of(native, tmp_path_factory.mktemp("limits"), sizes) as agent:
        path = {"PYTHONPATH": python_path()}
        straight, forwarded = (own | path for own in environments(agent, native, sizes))
        del forwarded["GPU_KERNELS_LOG"]
        yield {
            "straight": Way("straight", straight, agent),
            "forwarded": Way("forwarded", forwarded, agent),
        }


@pytest.fixture(params=["straight", "forwarded"])
def way(ways: dict[str, Way], request: pytest.FixtureRequest) -> Way:
    return ways[request.param]
