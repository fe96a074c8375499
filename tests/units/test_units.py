"""Sizes: what people write, exactly; and the rounding that lets fifty 0.02 fit and fifty-one not."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_kernels.errors import InvalidSize
from gpu_kernels.units import (
    MAX_GPUS,
    MAX_MIB,
    Size,
    Slice,
    parse_size,
    parse_thousandths,
    slice_of,
    thousandths_text,
    valid_class,
)

pytestmark = pytest.mark.quick

classes = st.from_regex(r"[A-Z][A-Za-z0-9]{2,10}(-[0-9]{1,3}g)?", fullmatch=True).filter(valid_class)
fractions = st.fractions(Fraction(1, 1000), 1, max_denominator=1000)
sizes = st.one_of(
    st.builds(Size, fractions, st.none(), st.none() | classes),
    st.builds(Size, st.integers(1, MAX_GPUS).map(Fraction), st.none(), st.none() | classes),
    st.builds(Size, st.none(), st.integers(1, MAX_MIB), st.none() | classes),
)
memories = st.integers(1, MAX_MIB)


@pytest.mark.parametrize(
    ("text", "canonical", "expected"),
    [
        ("0.02 V100", "0.02 V100", Slice(655, 20)),
        ("1/20 V100", "0.05 V100", Slice(1638, 50)),
        ("1/3 T4", "1/3 T4", Slice(10922, 333)),
        ("2048 MiB", "2048 MiB", Slice(2048, 62)),
        ("1 MiB", "1 MiB", Slice(1, 1)),
        ("2048 MiB V100", "2048 MiB V100", Slice(2048, 62)),
        ("2 V100", "2 V100", Slice(32768, 1000)),
        ("1.000 V100", "1 V100", Slice(32768, 1000)),
        ("  0.10\tV100 ", "0.1 V100", Slice(3276, 100)),
        ("0.1 GPU", "0.1 GPU", Slice(3276, 100)),
        ("0.5 A100-SXM4-80GB", "0.5 A100-SXM4-80GB", Slice(16384, 500)),
    ],
)
def test_sizes_are_read_and_printed_back(text: str, canonical: str, expected: Slice) -> None:
    size = parse_size(text)
    assert str(size) == canonical
    assert slice_of(size, 32768) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("0.02", "does not say of what"),
        ("V100", "'V100' is not a number"),
        ("-0.5 V100", "negative"),
        ("\u22121 V100", "negative"),
        ("0 V100", "zero"),
        ("0.000 V100", "zero"),
        ("0 MiB", "zero"),
        ("nan V100", "'nan' is not a number"),
        ("inf V100", "'inf' is not a number"),
        ("1e-2 V100", "'1e-2' is not a number"),
        ("1e999999999 V100", "is not a number"),
        ("1.5 V100", "whole GPUs only"),
        ("3/2 V100", "whole GPUs only"),
        ("0.0001 V100", "finer than a thousandth"),
        ("0.0205 V100", "finer than a thousandth"),
        ("1/1001 V100", "finer than a thousandth"),
        ("1/0 V100", "divides by zero"),
        ("1025 V100", "more than 1024 GPUs"),
        ("99999999999999999999 V100", "is not a number"),
        ("2 GB", "'GB' is not a unit here; memory is in MiB"),
        ("2048 mib", "memory is in MiB"),
        ("50 %", "'%' is not a unit"),
        ("0.5 MiB", "whole number of MiB"),
        ("99999999 MiB", "at most"),
        ("\u0661 V100", "'\\u0661' is not a number"),
        ("1\u00b2 V100", "is not a number"),
        ("0,02 V100", "'0,02' is not a number"),
        ("1_000 MiB", "is not a number"),
        (".5 V100", "'.5' is not a number"),
        ("1. V100", "'1.' is not a number"),
        ("0.02 V100 please", "'please' comes after its end"),
        ("0.02 V100\n0.5 V100", "comes after its end"),
        ("2048 MiB V100 A100", "not the name of a GPU class"),
        ("0.02 V100;DROP", "not the name of a GPU class"),
        ("0.02 \u0412100", "not the name of a GPU class"),
        ("0.02 " + "V" * 33, "not the name of a GPU class"),
        ("0.02 " + "V" * 100, "longer than 64 characters"),
    ],
)
def test_malformed_sizes_are_refused_with_what_was_read_and_what_is_allowed(text: str, why: str) -> None:
    with pytest.raises(InvalidSize) as caught:
        parse_size(text)
    message = caught.value.message
    assert why in message
    assert ascii(text)[1:30].rstrip("'") in message
    assert "such as '0.02 V100'" in message
    assert message.isascii()
    assert message.count("\n") == 1
    assert caught.value.to_json()["error"]["code"] == "invalid_size"


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        size = parse_size(text)
    except InvalidSize:
        return
    assert parse_size(str(size)) == size


@given(sizes)
def test_printing_and_reading_back_gives_the_same_size(size: Size) -> None:
    assert parse_size(str(size)) == size
    assert str(parse_size(str(size))) == str(size)


@given(memories)
def test_fifty_slices_of_a_fiftieth_fit_and_fifty_one_do_not(allocatable: int) -> None:
    part = slice_of(parse_size("0.02 V100"), allocatable)
    assert 50 * part.mib <= allocatable
    assert 50 * part.thousandths <= 1000
    assert 51 * part.thousandths > 1000


@given(fractions, memories)
def test_as_many_slices_as_the_fraction_says_always_fit(fraction: Fraction, allocatable: int) -> None:
    part = slice_of(Size(fraction, None, None), allocatable)
    number = int(1 / fraction)
    assert number * part.mib <= allocatable
    assert number * part.thousandths <= 1000
    assert part.mib <= fraction * allocatable < part.mib + 1


@given(st.lists(st.integers(1, MAX_MIB), min_size=1, max_size=60), memories)
def test_memory_sizes_that_fit_in_memory_fit_in_share_but_for_the_least_of_one(
    parts: list[int], allocatable: int
) -> None:
    slices = [slice_of(Size(None, mib, None), allocatable) for mib in parts]
    assert all(part.thousandths >= 1 for part in slices)
    if sum(parts) <= allocatable:
        assert sum(part.thousandths for part in slices if part.thousandths > 1) <= 1000


@given(st.integers(1, MAX_GPUS), memories)
def test_whole_gpus_are_taken_whole(count: int, allocatable: int) -> None:
    size = parse_size(f"{count} V100")
    assert (size.count, size.whole_gpus) == (count, count)
    assert slice_of(size, allocatable) == Slice(allocatable, 1000)


def test_a_gpu_without_memory_has_no_slices() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        slice_of(parse_size("0.5 V100"), 0)


@pytest.mark.parametrize("name", ["GPU", "MiB", "gb", "1080", "", "V 100", "V100!", "K", "V" * 33])
def test_a_class_that_a_size_could_not_name_is_no_class(name: str) -> None:
    assert not valid_class(name)


def test_sums_are_quoted_like_sizes() -> None:
    assert thousandths_text(20, "V100") == "0.02 V100"
    assert thousandths_text(1980, "V100") == "1.98 V100"
    assert thousandths_text(3000, "V100") == "3 V100"


@given(st.integers(0, 10**9))
def test_a_limit_reads_back_as_it_is_written(thousandths):
    assert parse_thousandths(thousandths_text(thousandths, "V100")) == (thousandths, "V100")
