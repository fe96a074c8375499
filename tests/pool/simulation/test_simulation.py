"""A few seeds of the simulated pool; ``python -m benchmarks.simulate --hours N`` runs as many as one
likes.
"""

from __future__ import annotations

import pytest

from benchmarks.simulation.run import simulate
from benchmarks.simulation.world import Chances


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_nothing_is_sold_twice_or_leaks_under_the_faults_of_a_seed(seed: int) -> None:
    result = simulate(seed, seconds=900.0)
    assert result.violations == []
    assert result.workers > 50
    assert sum(result.faults.values()) > 200


def test_a_seed_replays_exactly() -> None:
    once, again = (simulate(11, seconds=400.0) for _ in range(2))
    assert (once.trace, once.steps, once.faults) == (again.trace, again.steps, again.faults)
    assert simulate(12, seconds=400.0).trace != once.trace


def test_without_faults_nobody_loses_anything() -> None:
    calm = Chances(*([0.0] * 10))
    result = simulate(5, seconds=600.0, chances=calm)
    assert result.violations == []
    assert sum(result.faults.values()) == 0
    assert result.terms == 1
