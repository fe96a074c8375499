from __future__ import annotations

import json

import pytest

from benchmarks.figures import Figure, main, median, table

pytestmark = pytest.mark.quick

FIGURES = [
    Figure("launch", 1.25, "µs", "lower", aim=2.0),
    Figure("bandwidth", 1.5, "GB/s", "higher", aim=2.0),
    Figure("socket ping-pong", 11.0, "µs", "lower"),
]


def test_a_figure_meets_its_aim_in_the_direction_that_is_better():
    assert [figure.meets_aim() for figure in FIGURES] == [True, False, None]


def test_the_table_shows_value_unit_aim_and_verdict():
    lines = table(FIGURES).splitlines()
    assert lines[1].split() == ["launch", "1.25", "µs", "≤", "2", "met"]
    assert lines[2].split() == ["bandwidth", "1.5", "GB/s", "≥", "2", "missed"]


def test_json_on_standard_output_is_one_list_of_the_documented_keys(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["bench", "--json", "-"])
    main(lambda smallest: FIGURES, None)
    printed = json.loads(capsys.readouterr().out)
    assert [set(row) for row in printed] == [{"name", "value", "unit", "aim", "better"}] * 3
    assert printed[2]["aim"] is None


@pytest.mark.parametrize(("samples", "expected"), [([3, 1, 2], 2), ([1, 2, 3, 10], 2.5)])
def test_median(samples, expected):
    assert median(samples) == expected
