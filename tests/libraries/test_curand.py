"""cuRAND of our own: its numbers, their distributions, and how it behaves, straight and forwarded."""

from __future__ import annotations

import pytest

from tests.libraries.programs import beyond, runner_of, slice_at

NOT_INITIALIZED, TYPE, RANGE, LENGTH, ARCH_MISMATCH = 101, 103, 104, 105, 204
ILLEGAL_ADDRESS, MISALIGNED = 700, 716
pytestmark = [pytest.mark.native, pytest.mark.timeout(600)]
run = runner_of("curand", 10)


def results(environment: dict[str, str], group: str) -> dict[str, float]:
    return run(environment, "curand_results.py", group)[0]


def behaviour(environment: dict[str, str], what: str) -> tuple[dict[str, int], str]:
    return run(environment, "curand_behaviour.py", what)


def tolerance(result: str) -> float:
    """NVIDIA's own normal numbers in single precision are not exact to the last bits."""
    if result in ("Normal", "LogNormal"):
        return 1e-5
    return 1e-10 if result.endswith("Double") else 0


def test_numbers_are_nvidias(environment) -> None:
    """Of XORWOW, MRG32k3a, Philox and Sobol, by seed, ordering, offset and dimensions, on device and host."""
    far = results(environment, "known")
    assert len(far) == 3 * 7 + 2 * 7
    assert beyond(far, lambda name: tolerance(name.split()[1])) == {}


@pytest.mark.parametrize(
    ("group", "tried", "most"),
    [("distributions", 36, 1.95), ("bits", 16, 4.5), ("poisson", 19, 4.5), ("pairs", 14, 0)],
)
def test_numbers_are_distributed_as_they_should_be(environment, group, tried, most) -> None:
    found = results(environment, group)
    assert len(found) == tried
    assert beyond(found, lambda _: most) == {}


def test_lanes_by_seeds_are_lanes_of_their_own(environment) -> None:
    assert results(environment, "seeded") == {"alike": 0, "behind": 0}


def test_what_does_not_fit_is_refused(environment) -> None:
    said, _ = behaviour(environment, "misfits")
    meanings = {"type": TYPE, "range": RANGE, "length": LENGTH, "fits": 0}
    assert said == {name: meanings[name.split()[0]] for name in said}
    assert len(said) == 20


def test_what_is_not_done_is_refused_by_name(environment) -> None:
    said, told = behaviour(environment, "refused")
    assert set(said.values()) == {ARCH_MISMATCH}
    for words in (
        "MTGP32",
        "scrambled Sobol",
        "scrambled direction vectors",
        "curandCreatePoissonDistribution",
    ):
        assert f"{words} is not supported" in told


def test_more_of_a_twister_than_can_be_passed_over_is_refused(environment) -> None:
    said, told = behaviour(environment, "wild")
    assert said == {"status": ARCH_MISMATCH}
    assert "curandGenerate of more than 2^33 numbers of MT19937 is not supported" in told


@pytest.mark.parametrize("place", ["straight", "forwarded"])
def test_a_twisters_numbers_that_have_no_memory_are_not_passed_over(place) -> None:
    with slice_at(place) as environment:
        said, told = behaviour(environment, "wild_for_its_memory")
    assert said == {"refused": True, "soon": True}
    assert "curandGenerate: output has 34359738368 bytes at " in told


def test_a_generator_that_is_none_is_found_out(environment) -> None:
    assert set(behaviour(environment, "gone")[0].values()) == {NOT_INITIALIZED}


def test_direction_vectors_are_those_of_the_points(environment) -> None:
    assert behaviour(environment, "vectors")[0] == {"wrong": 0, "narrow": 0}


def test_calls_one_after_another_go_on_in_the_sequence(environment) -> None:
    assert behaviour(environment, "parts")[0] == {"different": 0}


def test_no_draw_is_used_twice(environment) -> None:
    # 5000 of 2^21 and 5000 of 2^21 have about 12 in common by chance; a draw used twice would be thousands.
    assert behaviour(environment, "fresh")[0]["seen"] < 100


def test_a_seed_leaves_the_place_and_an_offset_sets_it(environment) -> None:
    assert behaviour(environment, "reseeded")[0] == {"right": True}


def test_each_seed_begins_the_twisters_sequence(environment) -> None:
    assert behaviour(environment, "begun_anew")[0] == {"right": True}


@pytest.mark.parametrize(
    ("what", "error", "words"),
    [
        ("outside", ILLEGAL_ADDRESS, "curandGenerate: output has 4398046511104 bytes at "),
        ("foreign", ILLEGAL_ADDRESS, "curandGenerate: output has 128 bytes at "),
        ("misaligned", MISALIGNED, "curandGenerate: output is at "),
    ],
)
@pytest.mark.parametrize("place", ["straight", "forwarded"])
def test_memory_that_is_not_the_slices_is_a_fault_and_one_line_says_whose(place, what, error, words) -> None:
    with slice_at(place) as environment:  # a fault ends the worker
        said, told = behaviour(environment, what)
    assert said == {"status": 0, "after": error}
    assert words in told


def test_numbers_are_made_in_the_order_of_their_stream(environment) -> None:
    assert behaviour(environment, "order")[0] == {"right": True}


def test_ten_threads_with_and_without_a_generator_of_their_own(environment) -> None:
    assert behaviour(environment, "threads")[0] == {"wrong": 0, "lost": 0, "given": 20}


def test_a_captured_stream_refuses_in_words_and_loses_no_number(environment) -> None:
    said, told = behaviour(environment, "captured")
    assert said == {"status": ARCH_MISMATCH, "end": 901, "again": 0, "lost": 0}
    assert "cuRAND in a captured stream is not supported" in told
