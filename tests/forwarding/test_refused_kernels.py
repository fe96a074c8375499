"""A module of which some kernels cannot run on a software GPU loads, and those alone are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.both_ways import BothWays, both_ways, build_for_both

INVALID_PTX, NOT_FOUND, ILLEGAL_INSTRUCTION = 218, 500, 715


@pytest.fixture
def both(tmp_path: Path) -> Iterator[BothWays]:
    with both_ways(build_for_both(), tmp_path, (64,), ("tests.forwarding.refused_cases",)) as processes:
        yield processes


def told(both: BothWays) -> list[set[str]]:
    return [
        {line for line in process.log.read_text().splitlines() if "cannot run" in line}
        for process in (both.straight, both.forwarded)
    ]


def test_only_the_kernels_that_cannot_run_are_refused_and_each_by_name(both: BothWays) -> None:
    assert both.run("lookups") == {
        "good": [0, 0],
        "_Z3badPf": [INVALID_PTX, INVALID_PTX],
        "indirect": [INVALID_PTX, INVALID_PTX],
        "large": [INVALID_PTX, INVALID_PTX],
        "through": [0, 0],
        "nobody": [NOT_FOUND, NOT_FOUND],
        "counts": [2, 2],
    }
    straight, forwarded = told(both)
    assert straight == forwarded
    bad, indirect, large = sorted(straight)
    assert bad.startswith("gpu-kernels: cannot run kernel bad: ptxas PTX, line ")
    assert "unsupported instruction multimem.ld_reduce.weak.global.add.f32" in bad
    assert "no multicast objects" in bad
    assert "cannot run kernel indirect" in indirect
    assert "unknown instruction wgmma.fence.sync.aligned" in indirect
    assert indirect.endswith("in helper")
    assert "cannot run kernel large" in large
    assert "uses more than 65536 bytes of shared memory" in large


def test_the_others_are_enumerated_and_run(both: BothWays) -> None:
    assert both.run("names") == ["good", "through"]
    assert both.run("the_good_one") == 77
    assert told(both) == [set(), set()]


def test_a_module_of_which_no_kernel_is_left_is_refused_whole(both: BothWays) -> None:
    assert both.run("none_left") == INVALID_PTX
    for process in (both.straight, both.forwarded):
        assert "cannot load PTX" in process.log.read_text()


def test_what_nobody_defines_refuses_the_module(both: BothWays) -> None:
    assert both.run("undefined") == INVALID_PTX


def test_a_call_of_such_a_function_through_a_pointer_is_a_fault_that_names_it(both: BothWays) -> None:
    assert both.run("through_a_pointer") == ILLEGAL_INSTRUCTION
    for process in (both.straight, both.forwarded):
        log = process.log.read_text()
        assert "call of a function that cannot run" in log
        assert "wgmma.fence.sync.aligned" in log
