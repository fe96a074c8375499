"""How far operands of maths libraries reach: against a model that touches every element, and against integers
without bounds."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.native_build import build_of_make

ENDLESS = 2**64 - 1
small = st.integers(-2, 6)
any_size = st.one_of(
    small, st.integers(-(2**63), 2**63 - 1), st.sampled_from([2**31, 2**32, 2**62, 2**63 - 1])
)
pytestmark = [pytest.mark.native, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    folder = build_of_make("maths_extents").folder
    return ctypes.CDLL(str(folder / "tests_libraries/libmaths_extents.so"))


def extent(library: ctypes.CDLL, name: str, *sizes: int) -> tuple[bool, int]:
    elements = ctypes.c_uint64()
    arguments = [ctypes.c_int64(size) for size in sizes]
    fits = getattr(library, f"extent_{name}")(*arguments, ctypes.byref(elements))
    return bool(fits), elements.value


def span(touched: Iterable[int]) -> int:
    """Elements from the first to the last of those."""
    places = list(touched)
    return max(places) - min(places) + 1 if places else 0


def bounded(elements: int) -> int:
    return min(elements, ENDLESS)


@given(n=small, step=small)
def test_a_vector_spans_what_its_steps_touch(library, n, step) -> None:
    touched = span(i * step for i in range(n))
    assert extent(library, "spread", n, step) == (True, touched)
    assert extent(library, "vector", n, step) == (step != 0, touched)


@given(rows=small, columns=small, lead=small, stride=small, count=small)
def test_matrices_span_what_their_elements_touch(library, rows, columns, lead, stride, count) -> None:
    fits = rows >= 0 and columns >= 0 and lead >= max(1, rows)
    one = [j * lead + i for j in range(columns) for i in range(rows)] if fits else []
    assert extent(library, "matrix", rows, columns, lead) == (fits, span(one))
    fit_all = fits and stride >= 0 and count >= 0
    touched = [k * stride + place for k in range(count) for place in one] if fit_all else []
    assert extent(library, "strided", rows, columns, lead, stride, count) == (fit_all, span(touched))


@given(n=any_size, step=any_size)
def test_steps_of_any_size_do_not_wrap(library, n, step) -> None:
    wanted = (n - 1) * abs(step) + 1 if n > 0 else 0
    assert extent(library, "spread", n, step)[1] == bounded(wanted)


@given(rows=any_size, columns=any_size, lead=any_size, stride=any_size, count=any_size)
def test_sizes_of_any_size_do_not_wrap(library, rows, columns, lead, stride, count) -> None:
    fits, elements = extent(library, "strided", rows, columns, lead, stride, count)
    assert fits == (min(rows, columns, stride, count) >= 0 and lead >= max(1, rows))
    nothing = not fits or 0 in (rows, columns, count)
    matrix = bounded((columns - 1) * lead + rows)
    assert elements == (0 if nothing else bounded(bounded((count - 1) * stride) + matrix))


@given(n=any_size, count=any_size)
def test_triangles_and_lists_of_any_size_do_not_wrap(library, n, count) -> None:
    assert extent(library, "packed", n) == (n >= 0, bounded(n * (n + 1) // 2) if n > 0 else 0)
    assert extent(library, "each", n, count)[1] == bounded(max(n, 0) * max(count, 0))


@given(a=any_size, b=any_size, c=any_size)
def test_a_sum_of_sizes_is_right_or_endless(library, a, b, c) -> None:
    sum_ = ctypes.c_int64(extent(library, "plus", a, b, c)[1]).value
    assert sum_ in (a + b + c, 2**63 - 1)
