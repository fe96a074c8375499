"""The headers as the generator reads them, and the fixtures of clients with a recording driver."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.native_build import ROOT

from .recorded import agent, client, gate, native, record, recorded

__all__ = ["agent", "client", "gate", "native", "record", "recorded"]

CODEGEN = ROOT / "remoting/native/codegen"
sys.path.insert(0, str(CODEGEN))


def codegen(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, CODEGEN / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def header() -> object:
    module = codegen("header")
    found = subprocess.run(
        [sys.executable, CODEGEN / "find_headers.py"], capture_output=True, text=True, check=True
    )
    return module.Header(module.preprocess(Path(found.stdout.strip())))
