"""cuBLAS of our own: products of matrices against NumPy's, straight and forwarded."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from remoting.paths import native_build
from tests.conformance.places import PLACES
from tests.native_build import ROOT, python_path

PROGRAM = Path(__file__).parent / "products.py"
CALLS = ROOT / "remoting/native/libraries"
pytestmark = [pytest.mark.native, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", params=["straight", "forwarded"])
def environment(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    with PLACES[request.param](1) as process, process() as env:
        yield env | {"PYTHONPATH": python_path()}


def run(environment: dict[str, str], what: str, major: int) -> dict[str, object]:
    library = native_build().libraries / f"libcublas.so.{major}"
    done = subprocess.run(
        [sys.executable, PROGRAM, what, library], env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("major", [12, 13])
def test_products_are_numpys(environment, major) -> None:
    """Shapes, transposes, leading dimensions, batches, scalars, types: the largest difference of each."""
    worst = run(environment, "products", major)
    assert worst.pop("float64") < 1e-12
    assert worst.pop("float32") < 1e-5
    assert worst.pop("float16") < 1e-2
    assert worst == {"cases": worst["cases"]}
    assert worst["cases"] > 150


def test_what_does_not_fit_is_refused_and_changes_nothing(environment) -> None:
    assert set(run(environment, "misfits", 12).values()) == {7}  # an invalid value


def test_an_operand_outside_the_devices_memory_is_a_fault_of_the_program(environment) -> None:
    assert run(environment, "outside", 12)["after"] != 0


@pytest.mark.parametrize("library", ["cublas", "cublasLt"])
@pytest.mark.parametrize("major", [12, 13])
def test_every_name_is_there_and_what_is_refused_is_told_by_name(library, major) -> None:
    lines = (CALLS / library / "calls.txt").read_text().splitlines()
    names = [line for line in lines if not line.startswith("#")]
    path = native_build({}).libraries / f"lib{library}.so.{major}"
    refused = {"cublas": "cublasCgemm_v2", "cublasLt": "cublasLtMatmul"}[library]
    program = f"""
import ctypes
library = ctypes.CDLL({str(path)!r})
assert all(hasattr(library, name) for name in {names!r})
assert [library.{refused}() for _ in range(2)] == [15, 15]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(
        f"gpu-kernels: {refused} is not supported and returns CUBLAS_STATUS_NOT_SUPPORTED"
    )
    assert len(done.stderr.splitlines()) == 1
