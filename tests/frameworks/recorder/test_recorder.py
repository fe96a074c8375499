"""The recorded calls: all names are exported, and a program records what the list has."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gpu_kernels.remoting.paths import native_build
from tests.conformance.places import PLACES
from tests.frameworks.recorder import PROGRAMS, Recorder, imported, listed
from tests.frameworks.xla.conftest import PROGRAMS as FOLDER
from tests.frameworks.xla.conftest import python_with
from tests.native_build import ROOT

LIBRARIES = ROOT / "remoting" / "native" / "libraries"


def exported(library: str) -> set[str]:
    lines = (LIBRARIES / library.removeprefix("lib") / "calls.txt").read_text().splitlines()
    return {line.split()[0] for line in lines if line and not line.startswith("#")}


@pytest.mark.quick
@pytest.mark.parametrize("framework", PROGRAMS)
def test_each_function_that_a_framework_calls_is_exported(framework: str) -> None:
    missing = [call for call in listed(framework) if call.split()[1] not in exported(call.split()[0])]
    assert missing == []


def answered(library: str) -> set[str]:
    """What has code of its own: the weak functions beside it say "not supported"."""
    newest = max(native_build().libraries.glob(f"{library}.so.*"), key=lambda path: int(path.suffix[1:]))
    command = ["nm", "--dynamic", "--defined-only", "--", str(newest)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    strong = {line.split()[2].partition("@")[0] for line in said.splitlines() if line.split()[1] == "T"}
    calls = (LIBRARIES / library.removeprefix("lib") / "calls.txt").read_text().splitlines()
    roles = {line.split()[0] for line in calls if not line.startswith("#") and len(line.split()) > 1}
    return strong | roles


@pytest.mark.native
def test_each_function_that_a_framework_imports_or_calls_has_code_of_its_own() -> None:
    wanted = imported("pytorch").union(*(listed(framework) for framework in PROGRAMS))
    computing = ("libcublas", "libcublasLt", "libcufft", "libcurand", "libcusolver", "libcusparse")
    refused = set()
    for library in computing:
        names = {call.split()[1] for call in wanted if call.split()[0] == library}
        refused |= names - answered(library)
    assert refused == set()
    assert len(wanted) > 400  # the lists were read


@pytest.mark.native
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_program_calls_nothing_that_is_not_listed(tmp_path: Path) -> None:
    python = python_with("jax")
    recorder = Recorder(tmp_path, "jax")
    with PLACES["straight"](1) as process, process() as env:
        done = subprocess.run(
            [python, str(FOLDER / "jax_linear_algebra.py")],
            env={**env, **recorder.environment()},
            capture_output=True,
            text=True,
        )
    assert recorder.calls(), done.stderr
    assert recorder.calls() <= listed("jax"), "record them: python -m tests.frameworks.recorder"
