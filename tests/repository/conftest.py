"""Fixtures: the wheel without its native code, which takes minutes to build."""

from __future__ import annotations

import subprocess
import sys
import zipfile

import pytest

from tests.repository.test_repository import ROOT


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-build-isolation", "-C", "wheel.cmake=false", "-w", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        yield archive
