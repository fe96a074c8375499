"""cuSPARSE of our own: results against NumPy's, and how it behaves beside them, straight and forwarded."""

from __future__ import annotations

import pytest

from tests.libraries.programs import beyond, runner_of, slice_at

NOT_INITIALIZED, INVALID_VALUE, NOT_SUPPORTED = 1, 3, 10
ILLEGAL_ADDRESS, CAPTURE_INVALIDATED = 700, 901
pytestmark = [pytest.mark.native, pytest.mark.timeout(600)]
run = runner_of("cusparse", 12)


def behaviour(environment: dict[str, str], what: str) -> tuple[dict[str, object], str]:
    return run(environment, "sparse_behaviour.py", what)


def tolerance(said: str) -> float:
    if "float16" in said:
        return 1e-2
    return 1e-9 if "float64" in said or "complex128" in said else 1e-3


@pytest.mark.parametrize(
    ("group", "count"),
    [
        ("vectors", 30),
        ("spmv", 75),
        ("integers", 2),
        ("spmm", 225),
        ("batches", 32),
        ("sddmm", 64),
        ("spgemm", 16),
        ("conversions", 18),
        ("triangles", 288),
        ("on_the_device", 4),
        ("sizes", 30),
    ],
)
def test_results_are_what_they_say(environment, group, count) -> None:
    """Formats, types, index types and bases, transposes, orders, batches, pointer modes: the difference."""
    worst, _ = run(environment, "sparse_results.py", group)
    assert len(worst) == count
    assert beyond(worst, tolerance) == {}


@pytest.mark.parametrize(
    ("group", "count"), [("blocks", 48), ("systems", 289), ("sums", 8), ("orders", 16), ("tridiagonal", 28)]
)
def test_the_older_functions_are_what_they_say(environment, group, count) -> None:
    """Blocks by rows and by columns, transposes, triangles, index bases: the difference."""
    worst, _ = run(environment, "sparse_older.py", group)
    assert len(worst) == count
    assert beyond(worst, tolerance) == {}


def test_what_does_not_fit_is_refused(environment) -> None:
    said, _ = behaviour(environment, "misfits")
    assert set(said.values()) == {INVALID_VALUE}
    assert len(said) == 15


def test_what_is_not_done_is_refused_by_name(environment) -> None:
    said, told = behaviour(environment, "unsupported")
    assert set(said.values()) == {NOT_SUPPORTED}
    for name in (
        "cusparseSpMV",
        "cusparseSpGEMM_copy",
        "cusparseSpGEMM with beta",
        "cusparseSpGEMMreuse_copy",
    ):
        assert f"{name} is not supported" in told


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("outside", "cusparseSpMV: x.values has 24 bytes at "),
        ("endless", "cusparseSpMV: A.offsets has "),
        ("wrapping", "cusparseSpMM: B.values has "),
        ("high_index", "cusparseSpMV: A.indices has 6 (from 0), and there are 6"),
        ("negative_index", "cusparseSpMV: A.indices has -9223372036854775808 (from 0), and there are 6"),
        ("going_back", "cusparseSpMV: A.offsets go from 6 to 0, and there are 6 entries"),
        ("too_many", "cusparseSpMV: A.offsets go from 5 to 1073741824, and there are 6 entries"),
        ("before", "cusparseSpMV: A.offsets go from 0 to -1, and there are 6 entries"),
        ("high_row", "cusparseSpMV: A.rows has 1048576 (from 0), and there are 6"),
        ("high_place", "cusparseScatter: X.indices has 1073741824 (from 0), and there are 6"),
        ("solving", "cusparseSpSV_solve: A.indices has 1048576 (from 0), and there are 6"),
        ("no_room", "cusparseScsrgeam2: C.indices has no room for 6 entries"),
        ("going_back_in_rows", "cusparseXcsrsort: A.offsets go from 6 to 0, and there are 6 entries"),
        ("more_than_counted", "cusparseSpGEMM_copy: C has room for 1 entries, and there are more"),
    ],
)
@pytest.mark.parametrize("place", ["straight", "forwarded"])
def test_what_would_leave_the_slice_is_a_fault_and_one_line_says_whose(place, what, words) -> None:
    with slice_at(place) as environment:  # a fault ends the worker
        said, told = behaviour(environment, what)
    assert said == {"status": 0, "after": ILLEGAL_ADDRESS}
    assert words in told


def test_any_number_of_lines_of_nothing_is_done_at_once(environment) -> None:
    assert behaviour(environment, "nothing_in_many")[0] == {"status": 0, "after": 0}


def test_sums_in_16_bits_are_rounded_once(environment) -> None:
    assert behaviour(environment, "rounded_once")[0] == {"right": True}


def test_a_product_is_counted_before_its_offsets_have_memory(environment) -> None:
    assert behaviour(environment, "counted_without_offsets")[0] == {"count": True, "right": True}


@pytest.mark.parametrize("place", ["straight", "forwarded"])
def test_what_is_changed_while_it_is_used_leads_nowhere(place) -> None:
    with slice_at(place) as environment:
        assert behaviour(environment, "changing")[0] == {"ended": True}


def test_a_handle_that_is_none_is_found_out(environment) -> None:
    said, _ = behaviour(environment, "handles")
    assert set(said.values()) == {NOT_INITIALIZED}


def test_a_descriptor_that_was_ended_is_found_out(environment) -> None:
    said, _ = behaviour(environment, "descriptors")
    assert set(said.values()) == {INVALID_VALUE}


def test_descriptors_say_what_they_were_made_of(environment) -> None:
    said, _ = behaviour(environment, "asked")
    assert said == {
        "sizes": [6, 6, 6],
        "kinds": [3, 3, 1, 0],
        "other format": INVALID_VALUE,
        "version": 12904,
        "text": "CUSPARSE_STATUS_INVALID_VALUE",
    }


def test_a_captured_stream_refuses_calls(environment) -> None:
    said, told = behaviour(environment, "captured")
    assert said == {"status": NOT_SUPPORTED, "capture": CAPTURE_INVALIDATED, "afterwards": 0}
    assert "cuSPARSE in a captured stream is not supported" in told


def test_calls_are_in_the_order_of_their_stream(environment) -> None:
    assert behaviour(environment, "order")[0] == {"right": True}


def test_ten_threads_call_at_once(environment) -> None:
    assert behaviour(environment, "threads")[0] == {"right": True}
