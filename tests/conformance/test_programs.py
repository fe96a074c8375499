"""Programs in the manner of cuda.core's and cuda.bindings' examples print the same straight and forwarded.

Each says at its end, after ``# prints:``, what it prints.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .places import PLACES

pytest.importorskip("cuda.core")
PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))


def expected(program: Path) -> str:
    _, found, comments = program.read_text().partition("\n# prints:\n")
    assert found, f"{program.name} does not say what it prints"
    return "".join(line.removeprefix("# ") + "\n" for line in comments.splitlines())


@pytest.mark.parametrize("place", ["straight", "forwarded"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_program_prints_what_it_says(program: Path, place: str, tmp_path: Path) -> None:
    with PLACES[place](1) as process, process() as environment:
        done = subprocess.run(
            [sys.executable, program],
            env=environment | {"HOME": str(tmp_path), "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
        )
    assert (done.stdout, done.returncode) == (expected(program), 0), done.stderr
