"""The threat model keeps its word: each row says what shows it, and each test that it names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs.documents import ROOT

pytestmark = pytest.mark.quick

PAGE = ROOT / "docs" / "explanation" / "security.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def defined_in(path: Path) -> set[str]:
    """Names of the test functions of a file, those of its classes included."""
    tree = ast.parse(path.read_text())
    functions = (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return {node.name for node in functions if node.name.startswith("test_")}


def rows_with_a_proof() -> list[list[str]]:
    """The cells of each row of the tables whose last column is 'shown by'."""
    rows: list[list[str]] = []
    inside = False
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if cells and cells[-1] == "shown by":
            inside = True
        elif not cells:
            inside = False
        elif inside and set(cells[0]) != {"-"}:
            rows.append(cells)
    return rows


def test_each_test_that_the_threat_model_names_exists():
    named = NAMED.findall(PAGE.read_text())
    assert named
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (ROOT / file).exists() or name not in defined_in(ROOT / file)
    ]
    assert missing == []


def test_each_row_names_a_test_or_says_that_it_is_open():
    rows = rows_with_a_proof()
    assert len(rows) > 20
    without = [cells[0] for cells in rows if not NAMED.search(cells[-1]) and not cells[-1].startswith("open")]
    assert without == []


def test_who_reports_a_vulnerability_finds_the_threat_model():
    assert "docs/explanation/security.md" in (ROOT / "SECURITY.md").read_text()
    assert "SECURITY.md" in PAGE.read_text()
