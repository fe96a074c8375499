"""What must hold of the repository itself."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def requirement_lines(name: str) -> list[str]:
    lines = (line.split(" #")[0].strip() for line in (ROOT / "requirements" / name).read_text().splitlines())
    return [line for line in lines if line and not line.startswith(("#", "-r"))]


def ours(line: str) -> bool:
    """An extra that is made of others."""
    return line.startswith(f"{PYPROJECT['project']['name']}[")


def test_what_pyproject_asks_for_is_what_is_locked():
    project = PYPROJECT["project"]
    wanted = [
        *PYPROJECT["build-system"]["requires"],
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra if not ours(line)),
    ]
    assert set(wanted) <= {*requirement_lines("all.in"), *requirement_lines("build.in")}


def test_every_locked_requirement_has_a_hash_and_no_address():
    text = (ROOT / "requirements" / "all.txt").read_text()
    pinned = re.findall(r"^[a-z0-9][\w.-]*==.*$", text, re.M)
    assert len(pinned) > 100
    assert all(line.endswith("\\") for line in pinned)
    assert "://" not in text


def tracked_files() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listing.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def test_no_tracked_file_is_larger_than_a_megabyte():
    large = [str(path.relative_to(ROOT)) for path in tracked_files() if path.stat().st_size > 1_000_000]
    assert large == []


MERGE_MARKER = re.compile(rb"^(?:<{7}|>{7}) ", re.MULTILINE)


def test_no_tracked_file_has_both_sides_of_a_merge():
    both = [str(path.relative_to(ROOT)) for path in tracked_files() if MERGE_MARKER.search(path.read_bytes())]
    assert both == []


def test_only_the_documented_targets_are_public_in_the_makefile():
    text = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY:(.*)$", text, re.M)
    assert phony is not None
    documented = re.findall(r"^# make ([\w-]+) ", text, re.M)
    assert {"demo", "up", "quick", "test", "full"} <= {*documented}
    assert sorted(phony.group(1).split()) == sorted(documented)
