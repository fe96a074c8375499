"""Data of tests and benchmarks says where it comes from, and has the notice of what it derives from."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[2]
KNOWN = tomllib.loads((Path(__file__).parent / "provenance.toml").read_text())
WRITTEN = {".py", ".c", ".cc", ".cu", ".h", ".md"}
"""Written here, as the rest of the project's code is; what else lies there is data."""


def folders_of_data() -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", "tests", "benchmarks"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    return {str(Path(name).parent) for name in listed if name and Path(name).suffix not in WRITTEN}


def test_every_folder_of_data_says_where_it_comes_from() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("a copy without its history does not say which files are the repository's")
    assert folders_of_data() == {*KNOWN["own"], *KNOWN["derived"]}
    assert not set(KNOWN["own"]) & set(KNOWN["derived"])


@pytest.mark.parametrize("folder", sorted(KNOWN["derived"]))
def test_what_derives_from_anothers_work_has_its_notice_and_licence(folder: str) -> None:
    entry = KNOWN["derived"][folder]
    notice = (ROOT / folder / entry["notice"]).read_text()
    assert entry["work"] in notice
    assert entry["licence"] in notice
    text = (ROOT / folder / entry.get("text", entry["notice"])).read_text()
    assert "Copyright" in text or "copyright" in text
    assert "WITHOUT WARRANT" in text, "the licence's own text"
