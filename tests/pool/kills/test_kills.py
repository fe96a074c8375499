"""Real processes under load, killed and stopped at random moments: 200 times by ``python -m
benchmarks.kills``, a few times here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.kills.run import run

KILLS = 8


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_whatever_is_killed_nothing_is_sold_twice_and_nothing_leaks(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    if store == "postgresql":
        url = request.getfixturevalue("postgresql_url")
    kept = tmp_path / "run"
    kept.mkdir()
    outcome = run(KILLS, url, seed=7, clients=3, keep=kept)
    assert outcome.violations == []
    assert outcome.mismatch == 0
    assert sum(outcome.kills.values()) == KILLS
    assert outcome.grants
    assert outcome.workers
