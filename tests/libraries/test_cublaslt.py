"""cuBLASLt of our own: results against NumPy's, and how it behaves beside them, straight and forwarded."""

from __future__ import annotations

import pytest

from tests.libraries.programs import beyond, runner_of, slice_at

INVALID_VALUE, NOT_SUPPORTED = 7, 15
ILLEGAL_ADDRESS = 700
pytestmark = [pytest.mark.native, pytest.mark.timeout(600)]
run = runner_of("cublasLt", 13)


def behaviour(environment: dict[str, str], what: str) -> tuple[dict[str, float], str]:
    return run(environment, "lt_behaviour.py", what)


def tolerance(name: str) -> float:
    """By the precision of the result."""
    if name.startswith(("float16-float32", "float32", "complex64")):
        return 1e-4
    return 2e-2 if name.startswith("float16") else 1e-8


@pytest.mark.parametrize(
    ("group", "kinds"),
    [
        ("products", 7),
        ("large", 2),
        ("forward", 39),
        ("backward", 24),
        ("many_sums", 3),
        ("scalars_of_the_device", 1),
        ("transforms", 4),
    ],
)
def test_results_are_numpys(environment, group, kinds) -> None:
    """Types, operations, orders, strides, batches, scalars, epilogues: the largest difference."""
    worst, _ = run(environment, "lt_results.py", group)
    assert len(worst) == kinds
    assert beyond(worst, tolerance) == {}


def test_the_library_of_cuda_12_computes_the_same(environment) -> None:
    worst, _ = run(environment, "lt_results.py", "large", 12)
    assert beyond(worst, tolerance) == {}


def test_what_does_not_fit_is_refused_by_the_heuristic_and_the_call(environment) -> None:
    said, _ = behaviour(environment, "misfits")
    assert set(said.values()) == {INVALID_VALUE}
    assert len(said) == 9


def test_what_is_not_there_at_all_is_refused_at_once(environment) -> None:
    said, _ = behaviour(environment, "nulls")
    assert said == dict.fromkeys(("A", "B", "C", "D", "bias", "kept"), INVALID_VALUE)


def test_what_is_not_done_has_no_algorithm_and_is_refused_by_name(environment) -> None:
    said, told = behaviour(environment, "unsupported")
    assert said.pop("order") == INVALID_VALUE
    assert set(said.values()) == {NOT_SUPPORTED}
    for words in ("cublasLtMatmul", "with alpha as a vector", "with factors of its operands", "planes"):
        assert words in told


def test_more_sums_than_a_software_gpu_has_room_for_are_refused_by_the_heuristic(environment) -> None:
    said, told = behaviour(environment, "many_sums")
    assert said == {"status": NOT_SUPPORTED, "count": 0}
    for rows in (1048577, 1048578):  # once each: they are two reasons
        words = f"cublasLtMatmul: it sums gradients of a bias of {rows} numbers; a software GPU does 1048576"
        assert told.count(words) == 1


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("outside", "cublasLtMatmul: A has "),
        ("wrapping", "cublasLtMatmul: "),
        ("foreign_bias", "cublasLtMatmul: bias has 16 bytes at "),
        ("foreign_kept", "cublasLtMatmul: kept has "),
        ("short_bias", "cublasLtMatmul: bias has 16 bytes at "),
    ],
)
@pytest.mark.parametrize("place", ["straight", "forwarded"])
def test_memory_that_is_not_the_slices_is_a_fault_and_one_line_says_whose(place, what, words) -> None:
    with slice_at(place) as environment:  # a fault ends the worker
        said, told = behaviour(environment, what)
    assert said == {"status": 0, "after": ILLEGAL_ADDRESS}
    assert words in told


def test_descriptors_that_are_none_are_found_out(environment) -> None:
    said, _ = behaviour(environment, "descriptors")
    assert set(said.values()) == {INVALID_VALUE}


def test_attributes_are_kept_and_the_one_algorithm_may_be_configured(environment) -> None:
    said, _ = behaviour(environment, "attributes")
    assert said == {
        "asked": 0,
        "bytes": 8,
        "stride": 77,
        "ids": 0,
        "count": 1,
        "init": 0,
        "split": 3,
        "check": 0,
        "workspace": 0,
    }


def test_a_function_that_a_stream_calls_may_ask_for_an_algorithm(environment) -> None:
    assert behaviour(environment, "within_a_function")[0] == {"status": 0, "count": 1}


def test_with_beta_0_there_need_be_no_c(environment) -> None:
    assert behaviour(environment, "nothing_spreads")[0] == {"done": True, "finite": True}


def test_a_handle_of_cublas_is_one_of_cublaslt(environment) -> None:
    assert behaviour(environment, "of_cublas")[0] == {"status": 0}


def test_a_captured_stream_refuses_in_words_and_works_afterwards(environment) -> None:
    said, told = behaviour(environment, "captured")
    assert (said["status"], said["again"], said["value"]) == (NOT_SUPPORTED, 0, 5)
    assert said["end"] == 901  # the capture is invalid
    assert "cuBLASLt in a captured stream is not supported" in told
