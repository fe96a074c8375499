"""A list names every test that does not pass, and a test that changes sides is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import expectations
from .expectations import Expectations, Expected
from .runner import Result
from .suite import Suite, numba

pytestmark = pytest.mark.quick

KNOWN = Expectations("1", {"a": Expected("failed", "why"), "b": Expected("skipped", "needs two")})


def result(name: str, outcome: str) -> Result:
    return Result(name, outcome, "said so", 0.1)


def test_a_run_like_the_list_differs_nowhere() -> None:
    run = [result("a", "failed"), result("b", "skipped"), result("c", "passed")]
    assert KNOWN.differences(run, whole=True) == []


@pytest.mark.parametrize(
    ("name", "outcome"), [("a", "passed"), ("a", "died"), ("a", "skipped"), ("b", "passed"), ("c", "failed")]
)
def test_a_test_that_changes_sides_is_named(name: str, outcome: str) -> None:
    run = {"a": "failed", "b": "skipped", "c": "passed"} | {name: outcome}
    (line,) = KNOWN.differences([result(*each) for each in run.items()], whole=True)
    assert line.startswith(f"{name}: {outcome}, and the list says ")


def test_a_listed_test_that_is_gone_is_named_unless_only_a_part_was_run() -> None:
    run = [result("a", "failed")]
    assert KNOWN.differences(run, whole=True) == ["b: on the list, and the suite has no such test"]
    assert KNOWN.differences(run, whole=False) == []


def test_a_list_is_read_as_it_was_written_and_keeps_the_reasons_it_had(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    run = [result("a", "failed"), result("b", "failed"), result("c", "passed"), result('d["x"]', "hung")]
    expectations.write(path, "2", run, KNOWN, whole=True)
    read = expectations.read(path)
    assert read.version == "2"
    assert read.tests == {
        "a": Expected("failed", "why"),
        "b": Expected("failed", "said so"),
        'd["x"]': Expected("hung", "said so"),
    }
    assert read.differences(run, whole=True) == []


def test_a_part_of_a_run_leaves_the_rest_of_the_list_alone(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    expectations.write(path, "1", [result("a", "passed")], KNOWN, whole=False)
    assert expectations.read(path).tests == {"b": KNOWN.tests["b"]}


@pytest.mark.parametrize(
    "entries",
    [
        '[[entry]]\noutcome = "failed"\nreason = " "\ntests = ["a"]',
        '[[entry]]\noutcome = "passed"\nreason = "r"\ntests = ["a"]',
        '[[entry]]\noutcome = "failed"\nreason = "r"\ntests = ["a", "a"]',
    ],
)
def test_a_list_with_a_careless_entry_is_refused(tmp_path: Path, entries: str) -> None:
    path = tmp_path / "list.toml"
    path.write_text(f'version = "1"\n{entries}\n')
    with pytest.raises(ValueError, match=r"list\.toml"):
        expectations.read(path)


@pytest.mark.parametrize("suite", [numba()])
def test_the_committed_list_is_for_the_installed_version(suite: Suite | None) -> None:
    if suite is None:
        pytest.skip("numba-cuda is not installed")
    assert expectations.read(suite.expectations).version == suite.version
