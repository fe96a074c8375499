"""cuBLAS of our own: results against NumPy's, and how it behaves beside them, straight and forwarded."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gpu_kernels.remoting.paths import native_build
from tests.libraries.programs import beyond, runner_of, slice_at
from tests.native_build import ROOT

CALLS = ROOT / "remoting/native/libraries"
INVALID_VALUE, NOT_SUPPORTED, NOT_INITIALIZED = 7, 15, 1
ILLEGAL_ADDRESS, MISALIGNED, INVALID = 700, 716, 1
pytestmark = [pytest.mark.native, pytest.mark.timeout(600)]
run = runner_of("cublas", 13)


def behaviour(environment: dict[str, str], what: str) -> tuple[dict[str, float], str]:
    return run(environment, "cublas_behaviour.py", what)


def tolerance(function: str) -> float:
    """By the precision of its results."""
    if function[0] in "DZ" or function.startswith(("f64", "c64", "i8-i32")):
        return 1e-10
    halves = (
        "f16-f16",
        "bf16-bf16",
        "axpy-float16",
        "scal-float16",
        "dot-float16",
        "dotc-float16",
        "nrm2-float16",
    )
    return 1e-2 if function.startswith(halves) else 1e-4


@pytest.mark.parametrize(
    ("group", "functions"),
    [
        ("level1", 50),
        ("level2", 60),
        ("level3", 48),
        ("products", 14),
        ("types", 15),
        ("factorisations", 24),
        ("wide", 2),
        ("mixed", 20),
    ],
)
def test_results_are_numpys(environment, group, functions) -> None:
    """Types, shapes, transposes, steps, leading dimensions, batches, scalars: the largest difference."""
    worst, _ = run(environment, "cublas_results.py", group)
    assert len(worst) >= functions
    assert beyond(worst, tolerance) == {}


def test_the_library_of_cuda_12_computes_the_same(environment) -> None:
    worst, _ = run(environment, "cublas_results.py", "wide", 12)
    assert beyond(worst, lambda _: 1e-4) == {}


def test_what_does_not_fit_is_refused_and_changes_nothing(environment) -> None:
    said, _ = behaviour(environment, "misfits")
    assert set(said.values()) == {INVALID_VALUE}
    assert len(said) == 14


def test_types_that_are_not_done_are_refused_by_name(environment) -> None:
    said, told = behaviour(environment, "unsupported")
    assert said == dict.fromkeys(("types", "complex times real", "arrays"), NOT_SUPPORTED)
    assert "cublasGemmEx is not supported" in told


@pytest.mark.parametrize(
    ("what", "error", "words"),
    [
        ("outside", ILLEGAL_ADDRESS, "cublasSgemm_v2: A has "),
        ("wrapping", ILLEGAL_ADDRESS, "cublasSgemm_v2: "),
        ("misaligned", MISALIGNED, "cublasDscal_v2: x is at "),
        ("endless_rotation", INVALID, "cublasSrotmg_v2: a number that is not finite"),
        ("foreign_matrix", ILLEGAL_ADDRESS, "cublasSgemmBatched: A has 64 bytes at "),
        ("wrong_pivots", ILLEGAL_ADDRESS, "cublasSgetrsBatched: pivot 1073741824 of matrix 0"),
    ],
)
@pytest.mark.parametrize("place", ["straight", "forwarded"])
def test_memory_that_is_not_the_slices_is_a_fault_and_one_line_says_whose(place, what, error, words) -> None:
    with slice_at(place) as environment:  # a fault ends the worker
        said, told = behaviour(environment, what)
    assert said == {"status": 0, "after": error}
    assert words in told


@pytest.mark.parametrize("place", ["straight", "forwarded"])
def test_vectors_that_the_software_gpu_has_no_room_for_are_refused_at_the_call(place) -> None:
    with slice_at(place) as environment:
        said, told = behaviour(environment, "long_vectors")
    assert said == {"status": NOT_SUPPORTED, "after": 0}
    assert "cublasDtbmv_v2: it has vectors of 2000000 elements; a software GPU does " in told
    assert "call it for parts of them" in told


def test_what_is_multiplied_by_nothing_is_not_looked_at(environment) -> None:
    kept, _ = behaviour(environment, "nothing_spreads")
    assert [name for name, finite in kept.items() if not finite] == []


def test_scalars_and_results_may_lie_on_the_device(environment) -> None:
    far, _ = behaviour(environment, "scalars_of_the_device")
    assert max(far.values()) < 1e-12


def test_a_handle_that_is_none_is_found_out(environment) -> None:
    said, _ = behaviour(environment, "handles")
    assert set(said.values()) == {NOT_INITIALIZED}


def test_ten_threads_with_and_without_a_handle_of_their_own(environment) -> None:
    assert behaviour(environment, "threads")[0] == {"wrong": 0}


def test_a_handle_outlives_the_slice_that_it_was_used_on() -> None:
    with slice_at("forwarded") as environment:
        said, _ = behaviour(environment, "new_life")
    assert said == {"before": True, "after": True}


def test_a_captured_stream_refuses_in_words_and_works_afterwards(environment) -> None:
    said, told = behaviour(environment, "captured")
    assert (said["status"], said["again"], said["value"]) == (NOT_SUPPORTED, 0, 2)
    assert said["end"] == 901  # the capture is invalid
    assert "cuBLAS in a captured stream is not supported" in told


def test_calls_are_in_the_order_of_their_stream(environment) -> None:
    assert behaviour(environment, "order")[0] == {"right": True}


def test_copies_of_vectors_and_matrices(environment) -> None:
    assert behaviour(environment, "copies")[0] == {"matrix": True, "vector": True}


@pytest.mark.parametrize("library", ["cublas", "cublasLt"])
@pytest.mark.parametrize("major", [12, 13])
def test_every_name_is_there_and_what_is_refused_is_told_by_name(library, major) -> None:
    lines = (CALLS / library / "calls.txt").read_text().splitlines()
    names = [line.split()[0] for line in lines if line and not line.startswith("#")]
    path = native_build({}).libraries / f"lib{library}.so.{major}"
    refused = {"cublas": "cublasXtCgemm", "cublasLt": "cublasLtACCMatmul"}[library]
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
