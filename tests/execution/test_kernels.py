"""Kernels and functions, and what is asked and set about them: the same straight and forwarded."""

from __future__ import annotations

from tests.both_ways import BothWays

INVALID_VALUE, INVALID_DEVICE, INVALID_CONTEXT, INVALID_HANDLE = 1, 101, 201, 400


def test_names_and_parameters(both: BothWays) -> None:
    for name, codes, places, *others in both.run("names_and_parameters").values():
        assert name == b"mixed"
        assert (codes, places) == ([0] * 4, [0, 1, 8, 8, 16, 4, 32, 24])
        no_offset, past_the_end, no_handle = INVALID_VALUE, INVALID_VALUE, INVALID_HANDLE
        assert others == [0, no_offset, past_the_end, no_handle, INVALID_VALUE, INVALID_VALUE, INVALID_HANDLE]


def test_attributes_are_set_to_what_they_can_be_and_else_refused_at_once(both: BothWays) -> None:
    for first, unknown, refused, as_before, taken, after, waited in both.run("attributes").values():
        assert first == [(0, 64), (0, 1024), (0, 8), (0, 0), (0, 75), (0, 75), (0, 47 * 1024), (0, -1)]
        assert unknown == (INVALID_VALUE, -7)
        assert refused == [INVALID_VALUE] * len(refused)
        assert as_before == first[-2:]
        assert (taken, after) == ([0] * 3, [(0, 63 * 1024), (0, -1)])
        assert waited == 0


def test_hints_are_taken_where_they_can_be_right(both: BothWays) -> None:
    of_kernel, of_function, banks, *devices, of_context = both.run("hints_of_kernels")
    assert of_kernel == of_function == [INVALID_VALUE, 0, 0, 0, 0, INVALID_VALUE]
    assert banks == [INVALID_VALUE, 0, 0, 0, INVALID_VALUE, INVALID_VALUE]
    assert devices == [[0, INVALID_DEVICE, INVALID_DEVICE]] * 3
    assert of_context == 1  # as before: what a function prefers is not its context's


def test_what_a_handle_belongs_to(both: BothWays) -> None:
    *first, launched, loaded, no_state, load, load_kernel, no_out, no_handle, load_nothing = both.run(
        "what_a_handle_belongs_to"
    )
    assert first == [True] * 4
    assert (launched, loaded, no_state, load, load_kernel) == (0, [0, 1], INVALID_VALUE, 0, 0)
    assert no_out == [INVALID_VALUE] * 2
    assert no_handle == [INVALID_HANDLE] * 3
    assert load_nothing == INVALID_HANDLE


def test_a_function_needs_a_context_and_a_kernel_none(both: BothWays) -> None:
    codes = both.run("without_a_context")
    assert codes == (0, 0, 0, *[INVALID_CONTEXT] * 6)
