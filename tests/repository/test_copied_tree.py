"""A copy of the tree does not test the tree that it was copied from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.native_build import ROOT
from tests.origin import PACKAGES

TESTS = "tests/units"
WITHOUT_THE_INSTALLED_TREE = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "ScikitBuild" not in type(finder).__name__]
sys.path.insert(0, "")
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The tree without what is built, and without most tests."""
    left_out = shutil.ignore_patterns("__pycache__", "node_modules", "native", "lib", "built", "data")
    for name in (*PACKAGES, TESTS):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=left_out)
    for path in (*ROOT.glob("*.toml"), *(ROOT / "tests").glob("*.py")):
        shutil.copy(path, tmp_path / path.relative_to(ROOT))
    return tmp_path


def run(copy: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, *command, "-q", TESTS], cwd=copy, env=environment, capture_output=True, text=True
    )


def test_a_copied_trees_tests_refuse_to_test_the_original_and_say_what_to_do(copy: Path) -> None:
    done = run(copy, "-m", "pytest")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "passed" not in done.stdout
    assert f"These tests stand in {copy}, but gpu_kernels is imported from {ROOT}/gpu_kernels" in done.stderr
    assert f"cd {copy} && rm -rf .venv build/native && make test" in done.stderr


def test_a_copied_trees_tests_run_where_the_copy_is_what_they_import(copy: Path) -> None:
    done = run(copy, "-c", WITHOUT_THE_INSTALLED_TREE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
