"""Programs that use memory, run straight on the software GPU and forwarded to it, in a process each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.both_ways import BothWays, both_ways, build_for_both
from tests.native_build import Build

MEMORY_MIB = 64
CASES = (
    "allocation_cases",
    "array_cases",
    "async_copy_cases",
    "cases",
    "charge_cases",
    "host_view_cases",
    "pool_cases",
    "shared_cases",
    "texture_cases",
    "virtual_cases",
)


@pytest.fixture(scope="session")
def native() -> Build:
    return build_for_both()


@pytest.fixture(scope="module")
def both(native: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothWays]:
    modules = tuple(f"tests.memory.{name}" for name in CASES)
    with both_ways(native, tmp_path_factory.mktemp("memory"), (MEMORY_MIB,), modules) as processes:
        yield processes
