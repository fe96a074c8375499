"""The index of GPUs: what it holds, what an ask may not use, and trials that leave nothing behind."""

from __future__ import annotations

import pytest

from gpu_kernels.pool.policy.model import Gpu
from gpu_kernels.pool.policy.placement import Index
from gpu_kernels.units import Slice, parse_size

pytestmark = pytest.mark.quick


def unlimited(gpu_class: str) -> int:
    return 10**9


def pool(servers: int = 2, gpus: int = 2) -> list[Gpu]:
    return [
        Gpu(server * 10 + index, f"server{server}", index, "V100", 32768)
        for server in range(servers)
        for index in range(gpus)
    ]


def test_what_is_held_on_a_gpu_is_not_given_away() -> None:
    index = Index(pool(1, 1))
    size = parse_size("0.5 V100")
    assert index.place(size, room=unlimited, held={0: Slice(16384, 500)}) is not None
    assert index.place(size, room=unlimited, held={0: Slice(16385, 501)}) is None
    assert index.place(parse_size("1 V100"), room=unlimited, held={0: Slice(1, 1)}) is None


def test_a_placement_names_the_gpus_as_they_are_without_what_is_held() -> None:
    index = Index(pool(1, 1))
    found = index.place(parse_size("0.5 V100"), room=unlimited, held={0: Slice(100, 10)})
    assert found is not None
    assert found.parts[0][0] == index.gpu(0)


def test_nothing_goes_to_a_gpu_that_is_shut() -> None:
    index = Index(pool(2, 1))
    found = index.place(parse_size("1 V100"), room=unlimited, shut=lambda gpu: gpu.agent == "server0")
    assert found is not None
    assert found.agent == "server1"
    assert index.place(parse_size("1 V100"), room=unlimited, shut=lambda gpu: True) is None


def test_a_trial_is_undone() -> None:
    index = Index(pool())
    before = index.gpus()
    size = parse_size("2 V100")
    with index.trial():
        while found := index.place(size, room=unlimited):
            index.take(found)
        with index.trial():
            index.drop(0)
            index.put(Gpu(99, "server9", 0, "V100", 1000))
        assert index.gpu(0) is not None
        assert index.gpu(99) is None
        assert all(not gpu.empty for gpu in index.gpus())
    assert index.gpus() == before
