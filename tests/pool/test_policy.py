"""The pure decisions: best fit, limits, order of the queue."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_kernels.pool.policy import queue, quota
from gpu_kernels.pool.policy.model import Ask, Course, Gpu
from gpu_kernels.pool.policy.placement import demands, place, taken
from gpu_kernels.units import Size, parse_size, slice_of

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
asks = st.builds(
    Ask,
    id=st.uuids().map(str),
    course=st.sampled_from(["ml101", "cv202"]),
    size=asked_sizes,
    turn=st.tuples(st.integers(0, 5), st.uuids().map(str)),
)
limits = st.dictionaries(st.sampled_from(CLASSES), st.integers(0, 3000))


@st.composite
def courses(draw: st.DrawFn) -> dict[str, Course]:
    held = st.dictionaries(st.sampled_from(CLASSES), st.integers(0, 1500))
    return {name: Course(name, draw(limits), draw(held), draw(held)) for name in ("ml101", "cv202")}


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


class TestQuota:
    def test_a_class_without_a_limit_is_not_for_the_course(self) -> None:
        course = Course("ml101", {"V100": 100})
        ask = Ask("1", "ml101", parse_size("0.02 A100"), (0, "1"))
        assert quota.room(course, ask, "A100") == 0

    def test_a_replacement_counts_only_for_what_it_is_larger(self) -> None:
        course = Course("ml101", {"V100": 100}, {"V100": 90})
        swap = Ask("1", "ml101", parse_size("0.05 V100"), (0, "1"), {"V100": 40})
        assert quota.room(course, swap, "V100") == 50

    def test_a_replacement_no_larger_is_allowed_even_over_a_lowered_limit(self) -> None:
        course = Course("ml101", {"V100": 10}, {"V100": 90})
        swap = Ask("1", "ml101", parse_size("0.04 V100"), (0, "1"), {"V100": 40})
        assert quota.room(course, swap, "V100") == 40


class TestQueue:
    @given(st.lists(asks, max_size=8, unique_by=lambda ask: ask.id), pools(), courses())
    def test_no_decision_oversubscribes_a_gpu_or_a_course(
        self, waiting: list[Ask], gpus: list[Gpu], states: dict[str, Course]
    ) -> None:
        granted = queue.granted(queue.decide(waiting, gpus, states))
        after = gpus
        for placement in granted.values():
            after = list(taken(after, placement))
        for item in after:
            before = next(one for one in gpus if one.id == item.id)
            if item != before:
                assert item.used_mib <= item.allocatable_mib
                assert item.used_thousandths <= 1000
        by_ask = {ask.id: ask for ask in waiting}
        for name, course in states.items():
            for gpu_class in CLASSES:
                more = sum(
                    placement.thousandths
                    for ask_id, placement in granted.items()
                    if by_ask[ask_id].course == name and placement.gpu_class == gpu_class
                )
                held = course.settled.get(gpu_class, 0) + course.ending.get(gpu_class, 0)
                assert more == 0 or more + held <= course.limit.get(gpu_class, 0)

    @given(st.lists(asks, max_size=6, unique_by=lambda ask: ask.id), pools(), courses(), st.randoms())
    def test_the_same_requests_in_another_order_get_the_same(
        self, waiting: list[Ask], gpus: list[Gpu], states: dict[str, Course], shuffled: random.Random
    ) -> None:
        others, other_gpus = list(waiting), list(gpus)
        shuffled.shuffle(others)
        shuffled.shuffle(other_gpus)
        first = queue.granted(queue.decide(waiting, gpus, states))
        second = queue.granted(queue.decide(others, other_gpus, states))
        assert first == second

    @given(st.lists(asks, max_size=6, unique_by=lambda ask: ask.id), pools(), courses())
    def test_every_request_gets_a_place_or_a_readable_refusal(
        self, waiting: list[Ask], gpus: list[Gpu], states: dict[str, Course]
    ) -> None:
        for verdict in queue.decide(waiting, gpus, states).values():
            assert (verdict.placement is None) != (verdict.refusal is None)
            if verdict.refusal is not None:
                lines = verdict.refusal.message.splitlines()
                assert 2 <= len(lines) <= 3
                assert all(len(line) <= 130 for line in lines)

    def test_a_large_request_at_the_head_is_not_starved_by_small_ones(self) -> None:
        gpus = [gpu(1, used_thousandths=500, used_mib=16384)]
        states = {"ml101": Course("ml101", {"V100": 5000})}
        large = Ask("large", "ml101", parse_size("1 V100"), (1, "large"))
        small = Ask("small", "ml101", parse_size("0.02 V100"), (2, "small"))
        verdicts = queue.decide([small, large], gpus, states)
        assert verdicts["large"].may_wait
        assert verdicts["small"].may_wait
        assert "asked earlier" in (verdicts["small"].refusal or Exception()).args[0]

    def test_a_request_for_another_class_does_not_wait_behind_it(self) -> None:
        gpus = [gpu(1, used_thousandths=500, used_mib=16384), gpu(2, gpu_class="T4")]
        states = {"ml101": Course("ml101", {"V100": 5000, "T4": 5000})}
        large = Ask("large", "ml101", parse_size("1 V100"), (1, "large"))
        small = Ask("small", "ml101", parse_size("0.02 T4"), (2, "small"))
        assert queue.decide([small, large], gpus, states)["small"].placement is not None

    def test_a_request_that_its_course_holds_back_holds_up_no_other_course(self) -> None:
        states = {
            "ml101": Course("ml101", {"V100": 100}, {}, {"V100": 100}),
            "cv202": Course("cv202", {"V100": 100}),
        }
        first = Ask("first", "ml101", parse_size("0.02 V100"), (1, "first"))
        second = Ask("second", "cv202", parse_size("0.02 V100"), (2, "second"))
        verdicts = queue.decide([first, second], [gpu(1)], states)
        assert verdicts["first"].may_wait
        assert verdicts["second"].placement is not None

    def test_positions_count_from_one_in_the_order_of_turns(self) -> None:
        assert queue.positions([(2, "b"), (1, "z"), (2, "a")]) == {"z": 1, "a": 2, "b": 3}


class TestRefusals:
    def judge(self, size: str, gpus: list[Gpu], **course: dict[str, int]) -> str:
        state = Course("ml101", **{"limit": {"V100": 100}, **course})  # type: ignore[arg-type]
        verdict = queue.judge(Ask("1", "ml101", parse_size(size), (0, "1")), gpus, state)
        assert verdict.refusal is not None
        return f"{verdict.refusal.code}: {verdict.refusal.message}"

    @pytest.mark.parametrize(
        ("size", "state", "expected"),
        [
            (
                "0.02 V100",
                {"settled": {"V100": 90}},
                "course_limit: ml101 holds 0.09 of 0.1 V100 now; 0.02 V100 more would be over its limit.\n"
                "A slice comes back when someone in the course shuts down a GPU kernel.\n"
                "Try again in a minute, shut down a GPU kernel of yours, "
                "or choose 'Python 3' to work without a GPU.",
            ),
            (
                "0.02 V100",
                {"settled": {"V100": 80}, "ending": {"V100": 20}},
                "course_limit: ml101 holds 0.1 of 0.1 V100 now; 0.02 V100 more would be over its limit.\n"
                "0.02 V100 of it is just being given back.\n"
                "Try again in a few seconds, shut down a GPU kernel of yours, "
                "or choose 'Python 3' to work without a GPU.",
            ),
            (
                "0.5 V100",
                {},
                "course_limit: 0.5 V100 is more than ml101 may hold at once: 0.1 V100.\n"
                "Choose a smaller size, or ask your instructor for a larger share, "
                "or choose 'Python 3' to work without a GPU.",
            ),
            (
                "0.02 V100",
                {"limit": {"T4": 50}},
                "course_limit: ml101 has no share of V100.\nIt may hold 0.05 T4 at once.\n"
                "Ask your instructor for a share, or choose 'Python 3' to work without a GPU.",
            ),
            (
                "0.02 A100",
                {},
                "no_such_class: The pool has no A100.\nIt has V100 (1 GPU).\n"
                "Choose one of these, or choose 'Python 3' to work without a GPU.",
            ),
            (
                "40000 MiB",
                {},
                "slice_too_large: 40000 MiB is more than any GPU server of the pool can give at once.\n"
                "The largest GPU is a V100 with 32768 MiB.\n"
                "Choose a smaller size, or choose 'Python 3' to work without a GPU.",
            ),
            (
                "2 V100",
                {"limit": {"V100": 5000}},
                "slice_too_large: 2 V100 is more than any GPU server of the pool can give at once.\n"
                "The largest GPU server has 1 V100.\n"
                "Choose a smaller size, or choose 'Python 3' to work without a GPU.",
            ),
        ],
    )
    def test_a_refusal_says_what_how_much_and_what_to_do(
        self, size: str, state: dict[str, dict[str, int]], expected: str
    ) -> None:
        assert self.judge(size, [gpu(1)], **state) == expected

    def test_a_full_pool_says_how_full_and_what_is_left(self) -> None:
        text = self.judge("0.1 V100", [gpu(1, used_thousandths=980, used_mib=32112)])
        assert text == (
            "pool_full: The pool is full: 0.98 of 1 V100 is in use.\n"
            "The largest slice free on one GPU is 0.02 V100 with 656 MiB; 0.1 V100 does not fit.\n"
            "Try again in a minute, choose a smaller size, or choose 'Python 3' to work without a GPU."
        )

    def test_a_pool_without_servers_and_one_whose_servers_are_silent_are_told_apart(self) -> None:
        assert "no GPU server has joined" in self.judge("0.1 V100", [])
        assert "1 V100 out of reach" in self.judge("0.1 V100", [gpu(1, answering=False)])
