"""Best fit, as it is defined: looking at every GPU."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_kernels.pool.policy.model import Gpu
from gpu_kernels.units import Size, parse_size, slice_of
from tests.pool.policy.best_fit import demands, place, taken

pytestmark = pytest.mark.quick

CLASSES = ("V100", "A100", "T4")


def gpu(number: int = 1, **fields: object) -> Gpu:
    basis = Gpu(number, f"server{number}", 0, "V100", 32768)
    return replace(basis, **fields)  # type: ignore[arg-type]


def unlimited(gpu_class: str) -> int:
    return 10**9


@st.composite
def pools(draw: st.DrawFn) -> list[Gpu]:
    number = draw(st.integers(0, 8))
    gpus = []
    for index in range(number):
        memory = draw(st.sampled_from([1000, 16384, 32768]))
        used = draw(st.integers(0, 50))
        gpus.append(
            Gpu(
                id=index,
                agent=f"server{draw(st.integers(1, 3))}",
                index=index,
                gpu_class=draw(st.sampled_from(CLASSES)),
                allocatable_mib=memory,
                used_mib=memory * used // 50,
                used_thousandths=20 * draw(st.integers(0, 50)) if used else 0,
                answering=draw(st.booleans()) or draw(st.booleans()),
            )
        )
    return gpus


asked_classes = st.none() | st.sampled_from(CLASSES)
asked_sizes = st.one_of(
    st.builds(Size, st.fractions(Fraction(1, 1000), 1, max_denominator=1000), st.none(), asked_classes),
    st.builds(Size, st.integers(1, 3).map(Fraction), st.none(), asked_classes),
    st.builds(Size, st.none(), st.integers(1, 40000), asked_classes),
)


class TestPlacement:
    def test_both_memory_and_share_must_fit(self) -> None:
        size = parse_size("0.5 V100")
        assert place(size, [gpu(used_mib=16385, used_thousandths=0)], unlimited) is None
        assert place(size, [gpu(used_mib=0, used_thousandths=501)], unlimited) is None
        assert place(size, [gpu(used_mib=16384, used_thousandths=500)], unlimited) is not None

    def test_it_takes_the_gpu_with_the_least_left_over(self) -> None:
        free, half, tight = gpu(1), gpu(2, used_thousandths=500, used_mib=16384), gpu(3, used_thousandths=900)
        found = place(parse_size("0.1 V100"), [free, half, tight], unlimited)
        assert found is not None
        assert found.agent == "server3"

    def test_whole_gpus_come_from_one_agent_the_one_with_the_fewest_to_spare(self) -> None:
        gpus = [gpu(number, agent=agent, index=number) for number, agent in enumerate("aaabbc")]
        found = place(parse_size("2 V100"), gpus, unlimited)
        assert found is not None
        assert [part[0].id for part in found.parts] == [3, 4]
        assert place(parse_size("4 V100"), gpus, unlimited) is None

    def test_a_silent_agent_gets_nothing_new(self) -> None:
        assert place(parse_size("0.1 V100"), [gpu(answering=False)], unlimited) is None

    def test_a_share_of_less_than_a_mebibyte_is_no_slice(self) -> None:
        assert place(parse_size("0.001 V100"), [gpu(allocatable_mib=999)], unlimited) is None

    @given(asked_sizes, pools(), st.randoms())
    def test_the_order_of_the_gpus_does_not_matter(
        self, size: Size, gpus: list[Gpu], shuffled: random.Random
    ) -> None:
        others = list(gpus)
        shuffled.shuffle(others)
        assert place(size, gpus, unlimited) == place(size, others, unlimited)

    @given(asked_sizes, pools())
    def test_nothing_is_placed_where_it_does_not_fit(self, size: Size, gpus: list[Gpu]) -> None:
        found = place(size, gpus, unlimited)
        if found is None:
            return
        assert len(found.parts) == size.count
        for chosen, part in found.parts:
            assert part == slice_of(size, chosen.allocatable_mib)
            assert chosen.answering
            assert (chosen.agent, chosen.gpu_class) == (found.agent, found.gpu_class)
            assert size.gpu_class in (None, chosen.gpu_class)
        for after in taken(gpus, found):
            before = next(item for item in gpus if item.id == after.id)
            if after != before:
                assert after.used_mib <= after.allocatable_mib
                assert after.used_thousandths <= 1000

    @given(asked_sizes.filter(lambda size: size.whole_gpus is None), pools())
    def test_best_fit_is_best_and_finds_room_where_there_is_some(self, size: Size, gpus: list[Gpu]) -> None:
        def left_over(item: Gpu) -> tuple[int, int]:
            part = slice_of(size, item.allocatable_mib)
            return item.free_thousandths - part.thousandths, item.free_mib - part.mib

        fitting = [
            item
            for item in gpus
            if item.answering
            and size.gpu_class in (None, item.gpu_class)
            and item.holds(slice_of(size, item.allocatable_mib))
        ]
        found = place(size, gpus, unlimited)
        assert (found is None) == (not fitting)
        if found is not None:
            assert left_over(found.parts[0][0]) == min(map(left_over, fitting))

    @given(asked_sizes, pools(), st.integers(0, 1000))
    def test_it_never_takes_more_than_the_room_given(self, size: Size, gpus: list[Gpu], room: int) -> None:
        found = place(size, gpus, lambda gpu_class: room)
        assert found is None or found.thousandths <= room

    @given(asked_sizes, pools())
    def test_what_can_be_placed_is_among_the_demands(self, size: Size, gpus: list[Gpu]) -> None:
        found = place(size, gpus, unlimited)
        if found is not None:
            assert demands(size, gpus)[found.gpu_class] <= found.thousandths
