"""Each benchmark at its smallest, as users run it: none can rot, and none can be added that nobody runs."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.native_build import ROOT

FOLDER = ROOT / "benchmarks"
PRINTS_FIGURES = re.compile(r"^from benchmarks\.figures import .*\b(main|emit)\b", re.M)
LONG = {"classroom", "frameworks", "kernel_start", "kills", "lab_load", "run_memory", "siege", "softgpu"}
"""These start dozens of processes, or compile kernels, whatever their size."""
FRAMEWORKS = {"classroom", "frameworks"}
"""These need what `make frameworks` installs, and say so where it is not."""


def module(path: Path) -> str:
    parts = path.relative_to(FOLDER).with_suffix("").parts
    return ".".join(part for part in parts if part != "__main__")


def benchmarks() -> list[str]:
    """The modules that are programs and print figures."""
    return sorted(
        module(path)
        for path in FOLDER.rglob("*.py")
        if PRINTS_FIGURES.search(text := path.read_text(encoding="utf-8")) and "__main__" in text
    )


def parameters() -> list[object]:
    return [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in benchmarks()]


@pytest.mark.native
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", parameters())
def test_a_benchmark_at_its_smallest_prints_its_figures(name: str) -> None:
    command = [sys.executable, "-m", f"benchmarks.{name}", "--smallest", "--json", "-"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    figures = json.loads(done.stdout)
    if name in FRAMEWORKS and not figures and "make frameworks" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert figures
    for figure in figures:
        assert figure.keys() == {"name", "value", "unit", "aim", "better"}
        assert figure["name"]
        assert isinstance(figure["unit"], str)
        assert math.isfinite(figure["value"])
        assert figure["aim"] is None or math.isfinite(figure["aim"])
        assert figure["better"] in ("lower", "higher")
    assert len({figure["name"] for figure in figures}) == len(figures)


def test_every_benchmark_is_run_by_make_bench() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    listed = re.search(r"^BENCHMARKS := (.*)$", text, re.M)
    assert listed is not None
    assert sorted(listed.group(1).split()) == benchmarks()


def test_every_module_that_is_a_program_prints_figures_or_is_run_by_one_that_does() -> None:
    """``python -m benchmarks.X`` has no other sort of program, so that the list above misses none."""
    programs = {module(path) for path in FOLDER.rglob("*.py") if '__name__ == "__main__"' in path.read_text()}
    sources = "\n".join(path.read_text() for path in FOLDER.rglob("*.py"))
    parts = programs - {*benchmarks()}
    started = {
        name
        for name in parts
        if f'"{name}"' in sources
        or f"benchmarks.{name}" in sources
        or f'"{name.rpartition(".")[2]}"' in sources
        or f'"{name.rpartition(".")[2]}.py"' in sources
    }
    assert parts == started
