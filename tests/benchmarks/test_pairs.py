"""The interval of pairs: it says what the sign test says, and nothing where there are too few."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.figures import Figure
from benchmarks.pairs import FEWEST, interval, over, run_in_pairs


@pytest.mark.quick
@pytest.mark.parametrize(("count", "rank"), [(6, 1), (8, 1), (9, 2), (20, 6), (100, 40)])
def test_the_interval_lies_where_tables_of_the_sign_test_have_it(count: int, rank: int):
    assert interval(range(1, count + 1)) == (rank, count + 1 - rank)


@pytest.mark.quick
@pytest.mark.parametrize("count", range(FEWEST))
def test_too_few_pairs_are_refused(count: int):
    with pytest.raises(ValueError, match=f"{count} pairs give no interval"):
        interval(range(count))


@pytest.mark.quick
def test_the_interval_holds_the_median_as_often_as_it_says():
    draw = random.Random(1)
    held = 0
    for _ in range(4000):
        low, high = interval(draw.lognormvariate(0.0, 1.0) for _ in range(20))
        held += low <= 1.0 <= high
    assert 0.95 <= held / 4000 <= 0.97


@pytest.mark.quick
@given(st.lists(st.floats(0.1, 10.0), min_size=FEWEST, max_size=40))
def test_a_ratio_lies_in_its_interval(values: list[float]):
    pairs = [
        ({"a": Figure("a", value, "us", "lower")}, {"a": Figure("a", 2.0, "us", "lower")}) for value in values
    ]
    middle, low, high = (figure.value for figure in over(pairs))
    assert min(values) / 2 <= low <= middle <= high <= max(values) / 2


@pytest.mark.quick
def test_what_one_side_lacks_or_has_no_ratio_is_left_out():
    here = {name: Figure(name, value, "us", "lower") for name, value in (("a", 2.0), ("b", 1.0), ("c", -1.0))}
    before = {name: Figure(name, 4.0, "us", "lower") for name in ("a", "c", "d")}
    figures = over([(here, before)] * FEWEST)
    assert [(figure.name, figure.value) for figure in figures] == [
        ("a, here over before", 0.5),
        ("a, here over before, 95 % from", 0.5),
        ("a, here over before, 95 % to", 0.5),
    ]


PROGRAM = """
import json
print(json.dumps([{"name": "time", "value": VALUE, "unit": "s", "aim": None, "better": "lower"}]))
"""


def test_the_same_program_is_run_in_both_checkouts(tmp_path: Path):
    for name, value in (("here", "3.0"), ("before", "2.0")):
        (tmp_path / name / ".venv/bin").mkdir(parents=True)
        (tmp_path / name / ".venv/bin/python").symlink_to(sys.executable)
        (tmp_path / name / "clock.py").write_text(PROGRAM.replace("VALUE", value))
    figures = run_in_pairs("clock", tmp_path / "here", tmp_path / "before", FEWEST)
    assert [figure.value for figure in figures] == [1.5, 1.5, 1.5]
