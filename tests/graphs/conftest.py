"""Programs that make graphs, run straight on the software GPU and forwarded to it, in a process each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.both_ways import BothWays, both_ways, build_for_both
from tests.native_build import Build

MEMORY_MIB = 64


@pytest.fixture(scope="session")
def native() -> Build:
    return build_for_both()


@pytest.fixture(scope="module")
def both(native: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothWays]:
    folder = tmp_path_factory.mktemp("graphs")
    with both_ways(native, folder, (MEMORY_MIB,), ("tests.graphs.cases",)) as processes:
        yield processes
