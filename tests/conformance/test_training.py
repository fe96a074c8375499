"""The trainings of ``make gpu-conformance``, at their smallest, on the software GPU."""

from __future__ import annotations

import pytest

from tests.frameworks.installed import NotInstalled

from .training import PROGRAMS, Training, rows, train_in

NETWORKS = {"pytorch": 2, "tensorflow": 1, "jax": 2}


@pytest.mark.native
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("framework", PROGRAMS)
def test_each_network_trains_straight_and_forwarded_alike(framework: str) -> None:
    try:
        straight, forwarded = train_in(("straight", "forwarded"), framework, smallest=True)
    except NotInstalled as error:
        pytest.skip(str(error))
    listed, different = rows(straight, forwarded)
    assert [each.failure for each in straight] == [""] * NETWORKS[framework], listed
    assert len(listed) == NETWORKS[framework]
    assert different == 0, listed
    for each in [*straight, *forwarded]:
        assert each.losses[-1] < each.losses[0]
        assert each.a_second > 0


def test_a_network_that_fails_or_learns_otherwise_is_a_difference() -> None:
    straight = [Training("a", (2.0, 1.0), 10.0), Training("b", (2.0, 1.0), 10.0), Training("c", failure="no")]
    forwarded = [Training("a", (2.0, 1.1), 8.0), Training("b", (2.001, 1.0), 8.0), Training("d", (1.0,), 1.0)]
    listed, different = rows(straight, forwarded)
    assert listed == [
        "| a | 10 a second, loss 2.0000 to 1.0000 | 8 a second, loss 2.0000 to 1.1000 |",
        "| b | 10 a second, loss 2.0000 to 1.0000 | 8 a second, loss 2.0010 to 1.0000 |",
        "| c | no | not run |",
        "| d | not run | 1 a second, loss 1.0000 to 1.0000 |",
    ]
    assert different == 2  # a and d


def test_a_program_that_ends_early_is_told_with_its_last_line() -> None:
    assert "a \\| b" in rows([Training("a", failure="a | b")], [])[0][0]
