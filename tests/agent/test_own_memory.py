"""What workers may take of their machine's memory follows from their slices, and has a sum."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_kernels.remoting.agent.own_memory import LEAST_MIB, OwnMemory
from gpu_kernels.remoting.agent.own_memory import own_memory as own_memory_of
from gpu_kernels.remoting.machine_memory import machine_memory


def own_memory(machine_mib: int, gpus: int, fixed_mib: int = 0) -> OwnMemory:
    return own_memory_of(machine_memory(machine_mib), gpus, fixed_mib)


machines = st.integers(4096, 4 << 20)
gpu_counts = st.integers(1, 16)


@given(machines, gpu_counts, st.lists(st.integers(1, 16_000), max_size=2000))
def test_no_set_of_slices_may_take_more_than_the_machine_gives(
    machine: int, gpus: int, slices: list[int]
) -> None:
    plan = own_memory(machine, gpus)
    assert plan.total_mib <= machine - min(2048, machine // 4)
    taken: list[int] = []
    for thousandths in slices:
        if plan.total_mib - sum(taken) < LEAST_MIB:
            with pytest.raises(ValueError, match="worker_memory_mib"):
                plan.for_another(thousandths, taken)
            break
        taken.append(plan.for_another(thousandths, taken))
        assert taken[-1] >= LEAST_MIB
    assert sum(taken) <= plan.total_mib


@given(machines, gpu_counts)
def test_fifty_of_the_smallest_usual_slices_fit_on_each_gpu(machine: int, gpus: int) -> None:
    plan = own_memory(machine, gpus)
    taken: list[int] = []
    for _ in range(50 * gpus):
        if plan.total_mib < 50 * gpus * LEAST_MIB:
            return
        taken.append(plan.for_another(20, taken))
    assert min(taken) >= LEAST_MIB


def test_fifty_leases_of_a_large_server_have_no_two_hundred_gib_by_right() -> None:
    plan = own_memory(256 * 1024, 1)
    assert 50 * plan.usual_mib(20) <= plan.total_mib == 224 * 1024
    assert plan.usual_mib(1000) > plan.usual_mib(40) > plan.usual_mib(20) > 4096


def test_what_an_admin_has_set_holds_for_every_slice() -> None:
    plan = own_memory(8192, 1, 1024)
    assert plan.for_another(1, [1024] * 100) == 1024
    assert "1024 MiB" in plan.text()
