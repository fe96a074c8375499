"""cuFFT of our own: results against NumPy's, and how it behaves beside them, straight and forwarded."""

from __future__ import annotations

import pytest

from tests.libraries.programs import beyond, runner_of, slice_at

INVALID_PLAN, INVALID_TYPE, INVALID_VALUE, INVALID_SIZE, NOT_SUPPORTED = 1, 3, 4, 8, 16
OUT_OF_MEMORY, ILLEGAL_ADDRESS, MISALIGNED = 2, 700, 716
pytestmark = [pytest.mark.native, pytest.mark.timeout(600)]
run = runner_of("cufft", 12)


def behaviour(environment: dict[str, str], what: str) -> tuple[dict[str, float], str]:
    return run(environment, "cufft_behaviour.py", what)


def tolerance(tried: str) -> float:
    """By the precision of its results."""
    if tried.startswith("half"):
        return 5e-3
    return 1e-12 if tried.startswith(("Z", "D", "double")) else 1e-5


@pytest.mark.parametrize(
    ("group", "tried"), [("dimensions", 18), ("layouts", 12), ("in_place", 6), ("typed", 6), ("large", 1)]
)
def test_results_are_numpys(environment, group, tried) -> None:
    """Kinds, dimensions, batches, layouts, in place, types: the largest difference."""
    worst, _ = run(environment, "cufft_results.py", group)
    assert len(worst) == tried
    assert beyond(worst, tolerance) == {}


def test_the_library_of_cuda_12_computes_the_same(environment) -> None:
    worst, _ = run(environment, "cufft_results.py", "layouts", 11)
    assert beyond(worst, tolerance) == {}


def test_what_does_not_fit_is_refused(environment) -> None:
    said, _ = behaviour(environment, "misfits")
    assert [said.pop(name) for name in ("type", "kind")] == [INVALID_TYPE] * 2
    assert [said.pop(name) for name in ("rank", "no rank", "direction", "input")] == [INVALID_VALUE] * 4
    assert set(said.values()) == {INVALID_SIZE}
    assert len(said) == 6


def test_a_plan_that_is_none_is_found_out(environment) -> None:
    said, _ = behaviour(environment, "plans")
    assert set(said.values()) == {INVALID_PLAN}


def test_plans_ask_the_program_for_no_memory(environment) -> None:
    said, _ = behaviour(environment, "sizes")
    assert set(said.values()) == {0}
    assert len(said) == 8


def test_types_and_sizes_that_are_not_done_are_refused_by_name(environment) -> None:
    said, told = behaviour(environment, "unsupported")
    assert set(said.values()) == {NOT_SUPPORTED}
    assert "cufftXtMakePlanMany of these types and sizes is not supported" in told


@pytest.mark.parametrize(
    ("what", "error", "words"),
    [
        ("outside", ILLEGAL_ADDRESS, "cufftExec: output has "),
        ("wrapping", ILLEGAL_ADDRESS, "cufftExec: input has "),
        ("many_elements", ILLEGAL_ADDRESS, "cufftExec: input has "),
        ("foreign", ILLEGAL_ADDRESS, "cufftExec: input has 128 bytes at "),
        ("misaligned", MISALIGNED, "cufftExec: input is at "),
    ],
)
@pytest.mark.parametrize("place", ["straight", "forwarded"])
def test_memory_that_is_not_the_slices_is_a_fault_and_one_line_says_whose(place, what, error, words) -> None:
    with slice_at(place) as environment:  # a fault ends the worker
        said, told = behaviour(environment, what)
    assert said == {"status": 0, "after": error}
    assert words in told


def test_transforms_are_in_the_order_of_their_stream(environment) -> None:
    assert behaviour(environment, "order")[0] == {"right": True}


def test_threads_with_and_without_a_plan_of_their_own(environment) -> None:
    assert behaviour(environment, "threads")[0] == {"wrong": 0}


def test_a_captured_stream_refuses_in_words_and_works_afterwards(environment) -> None:
    said, told = behaviour(environment, "captured")
    assert (said["status"], said["again"], said["value"]) == (NOT_SUPPORTED, 0, 4)
    assert said["end"] == 901  # the capture is invalid
    assert "cuFFT in a captured stream is not supported" in told


def test_a_plan_ends_while_its_stream_is_captured(environment) -> None:
    assert behaviour(environment, "ended_in_a_capture")[0] == {"status": 0, "end": 0}


def test_a_transform_that_finds_no_room_is_refused_and_others_go_on(environment) -> None:
    said, told = behaviour(environment, "full")
    assert said == {"status": 0, "after": OUT_OF_MEMORY, "again": 0}
    assert "cufftExec: it takes " in told


def test_a_fork_waits_for_no_transform(environment) -> None:
    assert behaviour(environment | {"GPU_KERNELS_SOFTGPU_THREADS": "4"}, "forked")[0] == {"right": True}


def test_a_nan_stays_in_its_batch(environment) -> None:
    assert behaviour(environment, "not_a_number")[0] == {"right": True}


@pytest.mark.parametrize("threads", ["4,2", "many"])
def test_threads_of_other_libraries_are_none_of_the_transforms(threads) -> None:
    with slice_at("straight") as environment:
        worst, _ = run(environment | {"OMP_NUM_THREADS": threads}, "cufft_results.py", "layouts")
    assert beyond(worst, tolerance) == {}
