"""Random pools and requests: the index against a plain look at every GPU, and what must never happen."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_kernels.pool.policy.model import Gpu, Placement
from gpu_kernels.pool.policy.placement import POLICIES, Catalogue, Index
from gpu_kernels.pool.policy.placement.policies import Policy
from gpu_kernels.pool.policy.placement.servers import Candidate, Want, view
from gpu_kernels.units import Size, Slice, slice_of
from tests.pool.policy import best_fit

CLASSES = ("A100", "T4", "V100")
CATALOGUE = Catalogue.learned(
    {"0.05 V100": 4, "0.3 V100": 3, "0.7 GPU": 2, "2048 MiB": 1, "1 T4": 2, "2 GPU": 1}
)


def unlimited(gpu_class: str) -> int:
    return 10**9


@st.composite
def pools(draw: st.DrawFn) -> list[Gpu]:
    gpus: list[Gpu] = []
    for server in range(draw(st.integers(0, 4))):
        gpu_class = draw(st.sampled_from(CLASSES))
        for index in range(draw(st.integers(1, 4))):
            memory = draw(st.sampled_from([1000, 16384, 32510]))
            used = draw(st.integers(0, 20))
            gpus.append(
                Gpu(
                    id=len(gpus),
                    agent=f"server{server}",
                    index=index,
                    gpu_class=draw(st.sampled_from([gpu_class, gpu_class, "T4"])),
                    allocatable_mib=memory,
                    used_mib=memory * used // 20,
                    used_thousandths=draw(st.sampled_from([50 * used, 50 * used, 0])),
                    answering=draw(st.integers(0, 5)) > 0,
                )
            )
    return gpus


asked_classes = st.none() | st.sampled_from(CLASSES)
sizes = st.one_of(
    st.builds(
        Size, st.sampled_from([Fraction(1, 20), Fraction(3, 10), Fraction(1, 3)]), st.none(), asked_classes
    ),
    st.builds(Size, st.fractions(Fraction(1, 1000), 1, max_denominator=1000), st.none(), asked_classes),
    st.builds(Size, st.integers(1, 3).map(Fraction), st.none(), asked_classes),
    st.builds(Size, st.none(), st.integers(1, 40000), asked_classes),
)
slices = st.builds(Slice, st.integers(0, 33000), st.integers(0, 1000))
helds = st.dictionaries(st.integers(0, 20), slices, max_size=4)
policies = st.sampled_from(POLICIES)


def looked_at(
    index: Index,
    size: Size,
    room: Callable[[str], int],
    held: Mapping[int, Slice],
    shut: Callable[[Gpu], bool],
) -> Placement | None:
    """The placement by looking at every server, without rankings, memories or early ends."""
    by_unit: dict[tuple[str, str], list[Gpu]] = {}
    for gpu in index.gpus():
        if size.gpu_class in (None, gpu.gpu_class):
            by_unit.setdefault((gpu.agent, gpu.gpu_class), []).append(gpu)
    found: list[Candidate] = []
    for unit, gpus in by_unit.items():
        policy: Policy = index._policy(unit[1])
        seen = view(unit, sorted(gpus, key=lambda gpu: (gpu.index, gpu.id)), (), held, shut)
        score = policy(seen, Want(size), room(unit[1]))
        if score is not None:
            found.append(Candidate.of(seen, score))
    if not found:
        return None
    best = min(found, key=lambda candidate: candidate.key)
    return best.placement(Want(size), {gpu.id: gpu for gpu in index.gpus()})


@settings(max_examples=80, deadline=None)
@given(pools(), policies, st.lists(st.tuples(sizes, helds, st.integers(0, 3), st.booleans()), max_size=8))
def test_the_index_chooses_as_a_look_at_every_server_does(
    gpus: list[Gpu], policy: str, asks: list[tuple[Size, dict[int, Slice], int, bool]]
) -> None:
    index = Index(gpus, catalogue=CATALOGUE, policies={"": policy})
    for size, held, closed, again in asks:

        def shut(gpu: Gpu, closed: int = closed) -> bool:
            return gpu.agent == f"server{closed}" or gpu.id == closed

        def room(gpu_class: str) -> int:
            return 1500 if gpu_class == "T4" else 900

        for _ in range(2 if again else 1):
            found = index.place(size, room=room, held=held, shut=shut)
            assert found == looked_at(index, size, room, held, shut)
        if found is not None:
            index.take(found)


@settings(max_examples=60, deadline=None)
@given(pools(), policies, st.lists(sizes, max_size=6), st.randoms(use_true_random=False))
def test_the_same_gpus_in_another_order_give_the_same_answers(
    gpus: list[Gpu], policy: str, asks: list[Size], shuffled: random.Random
) -> None:
    others = list(gpus)
    shuffled.shuffle(others)
    one, other = (Index(order, catalogue=CATALOGUE, policies={"": policy}) for order in (gpus, others))
    for gpu in others:  # a detour that ends in the same pool
        other.put(replace(gpu, used_thousandths=999))
        other.drop(gpu.id)
        other.put(gpu)
    for size in asks:
        found = one.place(size, room=unlimited)
        assert found == other.place(size, room=unlimited)
        if found is not None:
            one.take(found)
            other.take(found)


@settings(max_examples=80, deadline=None)
@given(
    pools(), policies, st.lists(st.tuples(sizes, helds, st.integers(0, 4)), max_size=10), st.integers(0, 2500)
)
def test_no_gpu_is_ever_oversubscribed_and_room_held_and_shut_are_respected(
    gpus: list[Gpu], policy: str, asks: list[tuple[Size, dict[int, Slice], int]], room: int
) -> None:
    index = Index(gpus, catalogue=CATALOGUE, policies={"": policy})
    for size, held, closed in asks:
        found = index.place(
            size, room=lambda gpu_class: room, held=held, shut=lambda gpu, closed=closed: gpu.id == closed
        )
        if found is None:
            continue
        assert found.thousandths <= room
        assert len(found.parts) == size.count
        for gpu, part in found.parts:
            assert gpu == index.gpu(gpu.id)
            assert (gpu.agent, gpu.gpu_class) == (found.agent, found.gpu_class)
            assert gpu.answering
            assert gpu.id != closed
            assert part == slice_of(size, gpu.allocatable_mib)
            beside = held.get(gpu.id, Slice(0, 0))
            assert part.mib + beside.mib <= gpu.free_mib
            assert part.thousandths + beside.thousandths <= gpu.free_thousandths
            assert gpu.holds(part)
        index.take(found)
    for gpu in index.gpus():
        assert gpu.used_mib <= gpu.allocatable_mib
        assert gpu.used_thousandths <= 1000


@settings(max_examples=60, deadline=None)
@given(pools(), policies, st.lists(sizes, min_size=1, max_size=6))
def test_something_is_found_wherever_something_fits(gpus: list[Gpu], policy: str, asks: list[Size]) -> None:
    index = Index(gpus, catalogue=CATALOGUE, policies={"": policy})
    for size in asks:
        found = index.place(size, room=unlimited)
        assert (found is None) == (best_fit.place(size, index.gpus(), unlimited) is None)
        assert index.demands(size) == best_fit.demands(size, index.gpus())
        if found is not None:
            index.take(found)


@settings(max_examples=60, deadline=None)
@given(pools(), policies, st.lists(st.tuples(sizes, st.integers(0, 20)), max_size=8), sizes)
def test_a_trial_leaves_no_trace(
    gpus: list[Gpu], policy: str, asks: Sequence[tuple[Size, int]], last: Size
) -> None:
    index = Index(gpus, catalogue=CATALOGUE, policies={"": policy})
    before = index.place(last, room=unlimited)

    def tried() -> None:
        with index.trial():
            for size, gone in asks:
                found = index.place(size, room=unlimited)
                if found is not None:
                    index.take(found)
                with index.trial():
                    index.drop(gone)
                    index.place(size, room=unlimited)
            raise KeyError

    with pytest.raises(KeyError):
        tried()
    assert index.gpus() == tuple(sorted(gpus, key=lambda gpu: gpu.id))
    assert index.place(last, room=unlimited) == before
    assert index.demands(last) == best_fit.demands(last, gpus)
