from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_kernels.client import PoolClient
from gpu_kernels.exits import Exit
from tests.cli.command_line import Run, command_line
from tests.pool.controller import ThreadedController, token


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run ``jupyter gpu course`` as somebody, against a real controller; the exit status."""
    with ThreadedController(tmp_path / "state") as controller:
        yield command_line(controller, monkeypatch, "course")


def test_a_member_sees_what_the_course_holds_and_may_hold(run, capsys):
    assert run("ada", "ml101") == Exit.OK
    assert capsys.readouterr().out.splitlines()[1].split() == ["ml101", "0", "V100", "0.1", "V100"]


def test_a_member_sees_the_rules_and_the_budgets(run, capsys, monkeypatch):
    rules = {"max_leases": 2, "user_hours_per_week": 4, "idle": 1800}
    with PoolClient(os.environ["GPU_KERNELS_CONTROLLER"], token("root")) as root:
        root.set_rules("ml101", rules)
    assert run("ada", "ml101") == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "  rules: max_leases 2, user_hours_per_week 4, idle 30 min"
    assert lines[3].startswith("  budget (user_hours_per_week, yours): 0 of 4 GPU-hours spent, until 20")


def test_an_instructor_sets_one_class_and_leaves_the_others(run, capsys):
    assert run("grace", "ml101", "--limit", "2.5 A100") == Exit.OK
    rows = [line.split()[-2:] for line in capsys.readouterr().out.splitlines()[1:]]
    assert rows == [["2.5", "A100"], ["0.1", "V100"]]


def test_a_member_who_does_not_teach_may_not_set_it(run, capsys):
    assert run("ada", "ml101", "--limit", "1 V100") == Exit.NO_PERMISSION
    assert "its instructors may" in capsys.readouterr().err


@pytest.mark.parametrize("limit", ["", "V100", "-1 V100", "1.2345 V100", "1 GB", "1 V100 x", "1e9 V100"])
def test_a_limit_that_cannot_be_read_is_shown_with_what_is_allowed(run, capsys, limit):
    assert run("grace", "ml101", "--limit", limit) == Exit.USAGE
    error = capsys.readouterr().err
    assert repr(limit) in error
    assert "'0.5 V100'" in error
