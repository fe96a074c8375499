"""cuSOLVER of our own, its dense part: results against NumPy's, and how it behaves beside them, straight and
forwarded."""

from __future__ import annotations

import pytest

from tests.libraries.programs import beyond, runner_of, slice_at

NOT_INITIALIZED, INVALID_VALUE, NOT_SUPPORTED = 1, 3, 9
OUT_OF_MEMORY, NOT_READY, ILLEGAL_ADDRESS = 2, 600, 700
pytestmark = [pytest.mark.native, pytest.mark.timeout(600)]
run = runner_of("cusolver", 12)


def behaviour(environment: dict[str, str], what: str) -> tuple[dict[str, float], str]:
    return run(environment, "solver_behaviour.py", what)


def tolerance(function: str) -> float:
    return 1e-8 if function[0] in "DZ" else 2e-3


@pytest.mark.parametrize(
    ("group", "functions"),
    [
        ("cholesky", 20),
        ("lu", 20),
        ("orthogonal", 16),
        ("symmetric", 4),
        ("eigenvalues", 32),
        ("singular", 24),
        ("approximate", 8),
        ("any_eigenvalues", 12),
        ("tridiagonal", 4),
        ("polar", 8),
        ("sparse", 4),
    ],
)
def test_results_are_what_they_say(environment, group, functions) -> None:
    """Types, shapes, leading dimensions, batches, both forms of the API: the largest difference."""
    worst, _ = run(environment, "solver_results.py", group)
    assert len(worst) == functions
    assert beyond(worst, tolerance) == {}


def test_the_library_of_cuda_12_computes_the_same(environment) -> None:
    worst, _ = run(environment, "solver_results.py", "symmetric", 11)
    assert beyond(worst, tolerance) == {}


def test_what_does_not_fit_is_refused_and_changes_nothing(environment) -> None:
    said, _ = behaviour(environment, "misfits")
    assert set(said.values()) == {INVALID_VALUE}
    assert len(said) == 19


def test_what_is_not_done_is_refused_by_name(environment) -> None:
    said, told = behaviour(environment, "unsupported")
    assert set(said.values()) == {NOT_SUPPORTED}
    for name in (
        "cusolverDnXpotrf",
        "cusolverDnSgesvd",
        "cusolverDnSgesvdjBatched",
        "cusolverDnXgeev",
        "cusolverDnSSgesv",
    ):
        assert f"{name} is not supported" in told


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("outside", "cusolverDnSpotrf: A has "),
        ("wrapping", "cusolverDnXsyevBatched: A has "),
        ("apart", "cusolverDnSgesvdaStridedBatched: U has "),
        ("foreign_info", "cusolverDnSpotrf: info has 4 bytes at "),
        ("foreign_matrix", "cusolverDnSpotrfBatched: A has 64 bytes at "),
        ("wrong_pivots", "cusolverDnSgetrs: pivot 1073741824 is no row"),
        ("pivots_of_nothing", "cusolverDnSgetrs: pivot 0 is no row"),
        ("high_column", "cusolverSpScsrlsvqr: A.indices has 1073741824 (from 0), and there are 4"),
        ("going_back", "cusolverSpScsrlsvqr: A.offsets go from 3 to 2, and there are 4 entries"),
        ("half_a_block", "cusolverDnXsytrs: pivot -4 is no row"),
    ],
)
@pytest.mark.parametrize("place", ["straight", "forwarded"])
def test_what_would_leave_the_slice_is_a_fault_and_one_line_says_whose(place, what, words) -> None:
    with slice_at(place) as environment:  # a fault ends the worker
        said, told = behaviour(environment, what)
    assert said == {"status": 0, "after": ILLEGAL_ADDRESS}
    assert words in told


@pytest.mark.parametrize("place", ["straight", "forwarded"])
def test_what_is_changed_while_it_is_read_leads_nowhere(place) -> None:
    with slice_at(place) as environment:
        assert behaviour(environment, "changing")[0] == {"ended": True}


def test_what_is_no_number_ends_in_a_result_or_a_code(environment) -> None:
    assert behaviour(environment, "no_numbers")[0] == {"ended": 21}


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("full", "cusolverDnDpotrf: it takes 69 MiB to work in, beside its operands, and of the device's "),
        ("too_large", "to work in, beside its operands, and the device has "),
    ],
)
def test_a_call_that_finds_no_room_says_how_much_it_takes_and_others_go_on(environment, what, words) -> None:
    said, told = behaviour(environment, what)
    assert said == {"status": 0, "after": OUT_OF_MEMORY, "again": 0}
    assert words in told


def test_what_is_freed_after_a_refusal_is_free_and_the_refusal_is_told(environment) -> None:
    assert behaviour(environment, "freed")[0] == {"status": 0, "told": [0, OUT_OF_MEMORY], "free": True}


def test_calls_in_line_begin_one_after_the_other_and_keep_no_other_stream_waiting(environment) -> None:
    assert behaviour(environment, "in_line")[0] == {
        "after": 0,
        "limit": [0, NOT_READY, 0],
        "beside": [NOT_READY, 7],
        "in order": True,
        "right": True,
        "codes": [1],
    }


def test_an_allocation_waits_for_what_its_session_has_freed_and_for_no_others_call() -> None:
    with slice_at("straight") as environment:
        said, _ = behaviour(environment, "frees_beside_anothers_call")
    assert said == {"told": [OUT_OF_MEMORY, 0, NOT_READY]}


@pytest.mark.parametrize("place", ["straight", "forwarded"])
@pytest.mark.parametrize(
    ("what", "words"),
    [("too_long", "cusolverDnSgesvdj: it takes 13 "), ("solved_too_long", "cusolverDnXsytrs: it takes 10 ")],
)
def test_a_call_that_would_run_for_hours_is_refused_at_once_and_so_is_its_question(
    place, what, words
) -> None:
    with slice_at(place) as environment:
        said, told = behaviour(environment, what)
    assert said == {"asked": NOT_SUPPORTED, "status": NOT_SUPPORTED, "after": 0}
    assert f"{words}million million operations, which nothing can interrupt" in told
    assert "a software GPU does 10: give it smaller matrices" in told


def test_a_question_for_room_refuses_what_the_call_would_as_far_as_it_says_it(environment) -> None:
    said, told = behaviour(environment, "asked_too_much")
    assert said == {
        "getrf": 0,
        "getrf without pivots": 0,
        "gesvd": NOT_SUPPORTED,
        "gesvd of few": 0,
        "syevd": NOT_SUPPORTED,
        "syevd of values": 0,
    }
    for name in ("cusolverDnSgesvd", "cusolverDnSsyevd"):
        assert f"{name}: it takes " in told


def test_thin_matrices_take_little_to_work_in(environment) -> None:
    assert behaviour(environment, "thin")[0] == {"asked": 0, "status": 0, "after": 0}


def test_who_polls_is_told_of_a_refusal_once_and_a_graphs_copies_come_all_the_same(environment) -> None:
    told, _ = behaviour(environment, "polled")
    assert told == {
        "stream": [OUT_OF_MEMORY, 0, 0],
        "event": [OUT_OF_MEMORY, 0, 0],
        "graph": [OUT_OF_MEMORY, 0],
        "copied": [1, 1, 1, 0],
    }


def test_a_handle_that_is_none_is_found_out(environment) -> None:
    said, _ = behaviour(environment, "handles")
    assert set(said.values()) == {NOT_INITIALIZED}


def test_calls_are_in_the_order_of_their_stream(environment) -> None:
    assert behaviour(environment, "order")[0] == {"right": True}
