"""Host and two streams use one memory in any order that CUDA allows: forwarded, on one host and across hosts,
they see what they see straight."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.both_ways import BothWays, both_ways
from tests.native_build import Build

from .conftest import MEMORY_MIB
from .test_together import KINDS, MODULES

OPERATIONS = ("launch", "copy", "wait", "wait_for_all", "write", "read", "fill", "fetch")
WORDS = 64
Step = tuple[str, int, int, int, int]


@st.composite
def steps(draw: st.DrawFn) -> Step:
    first = draw(st.integers(0, WORDS - 1))
    count = draw(st.integers(1, min(16, WORDS - first)))
    last = draw(st.integers(0, WORDS - 16))
    return draw(st.sampled_from(OPERATIONS)), draw(st.integers(0, 1)), first, count, last


@pytest.fixture(scope="module", params=[True, False], ids=["one host", "across hosts"])
def both(
    request: pytest.FixtureRequest, native: Build, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BothWays]:
    folder = tmp_path_factory.mktemp("model")
    with both_ways(native, folder, (MEMORY_MIB,), MODULES, shares=request.param) as processes:
        yield processes


@pytest.mark.parametrize("kind", KINDS)
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(program=st.lists(steps(), max_size=25))
def test_what_host_and_streams_see_is_what_they_see_straight(
    both: BothWays, kind: str, program: list[Step]
) -> None:
    beside = kind != "managed" or both.agent.shares
    both.run("runs", kind, beside, program)
