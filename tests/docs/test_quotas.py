"""The page about quotas names every property, rule and preset that there is, and nothing else."""

from __future__ import annotations

import re

import pytest

from gpu_kernels.vocabulary.properties import PROPERTIES, read
from gpu_kernels.vocabulary.roles import INSTRUCTOR, PRESETS, STUDENT, Patterns
from gpu_kernels.vocabulary.rules import LONGEST_WINDOW, RULES
from tests.docs.documents import ROOT

pytestmark = pytest.mark.quick

PAGE = (ROOT / "docs" / "reference" / "quotas.md").read_text()
GUIDE = (ROOT / "docs" / "how-to" / "set-quotas.md").read_text()


def rows(page: str, heading: str) -> dict[str, list[str]]:
    """A section's first table: the cells of each row by the name in its first cell."""
    section = page.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    found = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return {cells[0].strip("`"): cells[1:] for cells in found}


def test_every_property_is_described() -> None:
    assert rows(PAGE, "Properties of groups").keys() == PROPERTIES.keys()


@pytest.mark.parametrize(("name", "cells"), rows(PAGE, "Properties of groups").items())
def test_every_value_that_is_shown_can_be_read(name: str, cells: list[str]) -> None:
    assert read(name, cells[-1].strip("`"), {"V100"})


@pytest.mark.parametrize(("name", "cells"), rows(GUIDE, "In the hub's admin panel").items())
def test_every_value_of_the_guide_can_be_read(name: str, cells: list[str]) -> None:
    assert read(name, cells[0].strip("`"), {"V100"})


def test_every_rule_is_described() -> None:
    assert rows(PAGE, "Rules").keys() == RULES.keys()
    assert f"{LONGEST_WINDOW} at most" in PAGE


def test_every_preset_is_described_by_groups_that_it_reads() -> None:
    described = rows(PAGE, "Group names")
    assert described.keys() == PRESETS.keys()
    for preset, (students, instructors, _) in described.items():
        patterns = Patterns.of(preset)
        for cell, role in ((students, STUDENT), (instructors, INSTRUCTOR)):
            for group in re.findall(r"`([^`]*ml101[^`]*)`", cell):
                assert patterns.course_of(group) == ("ml101", role)
