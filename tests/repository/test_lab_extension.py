"""What must hold of the sources of JupyterLab's extension."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jupyterlab
import pytest

pytestmark = pytest.mark.quick

LAB = Path(__file__).parents[2] / "gpu_kernels" / "labextension"
SOURCES = sorted((LAB / "src").glob("*.ts*"))
WRITTEN = re.compile(r'>\s*[A-Za-z][^<>{}=;]*</|(?:aria-label|title|placeholder|alt)="[^"]*[A-Za-z]')
"""Text between tags, or in an attribute that people read or hear, that went past the translator."""
IMPORTED = re.compile(r"^import (?!type\b).*?from '([^.'][^']*)';", re.M | re.S)


@pytest.mark.parametrize(
    "source", [path for path in SOURCES if path.suffix == ".tsx"], ids=lambda path: path.name
)
def test_every_text_can_be_translated(source):
    assert WRITTEN.findall(source.read_text()) == []


def test_text_that_went_past_the_translator_would_be_found():
    assert WRITTEN.search("<p>Your slice</p>")
    assert WRITTEN.search('<button title="Release">{label}</button>')
    assert not WRITTEN.search("<p>{trans.__('Your slice')}</p>")


def test_what_it_imports_is_what_jupyterlab_shares_with_everyone():
    staging = Path(jupyterlab.__file__).parent / "staging" / "package.json"
    shared = json.loads(staging.read_text())["jupyterlab"]["singletonPackages"]
    imported = {name for path in SOURCES for name in IMPORTED.findall(path.read_text())}
    assert "@jupyterlab/statusbar" in imported
    assert imported <= set(shared)
