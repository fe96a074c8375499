"""The recorded calls: all names are exported, and a program records what the list has."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conformance.places import PLACES
from tests.frameworks.recorder import PROGRAMS, Recorder, listed
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


@pytest.mark.native
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_program_calls_nothing_that_is_not_listed(tmp_path: Path) -> None:
    python = python_with("jax")
    recorder = Recorder(tmp_path)
    with PLACES["straight"](1) as process, process() as env:
        done = subprocess.run(
            [python, str(FOLDER / "jax_refusals.py")],
            env={**env, **recorder.environment()},
            capture_output=True,
            text=True,
        )
    assert recorder.calls(), done.stderr
    assert recorder.calls() <= listed("jax"), "record them: python -m tests.frameworks.recorder"
