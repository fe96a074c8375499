"""The pool as the API tells it, and the ledger in numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpu_kernels.pool.ledger.queries.audit import mismatch
from gpu_kernels.pool.ledger.state.capacity import takes_slices
from gpu_kernels.pool.ledger.state.states import FINAL
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.resources.pool import Pool, PoolClass, PoolGpu


def pool(tx: Transaction, sizes: Mapping[str, Sequence[str]]) -> Pool:
    """GPU classes and GPUs with what they have and what of it is in use; no user is named. ``sizes`` are on
    offer by GPU class, '' standing for every other class.
    """
    told = gpus(tx)
    return Pool(_classes(told, sizes), tuple(told), len(tx.book.waiting))


def gpus(tx: Transaction) -> list[PoolGpu]:
    """GPUs that are offered or in use, by class and server."""
    heard_since = tx.now - tx.timing.agent_ttl
    rows = sorted(tx.book.gpus.values(), key=lambda gpu: (gpu.gpu_class, gpu.agent_name, gpu.index, gpu.id))
    return [
        PoolGpu(
            agent=gpu.agent_name,
            uuid=gpu.uuid,
            index=gpu.index,
            gpu_class=gpu.gpu_class,
            device=gpu.device,
            name=gpu.name,
            total_mib=gpu.total_mib,
            allocatable_mib=gpu.allocatable_mib,
            used_mib=gpu.used_mib,
            used_thousandths=gpu.used_thousandths,
            available=takes_slices(gpu) and agent.standing == "open" and agent.reported_at > heard_since,
        )
        for gpu in rows
        if (gpu.offered or gpu.used_mib) and (agent := tx.book.agents[gpu.agent_name])
    ]


def _classes(told: Iterable[PoolGpu], sizes: Mapping[str, Sequence[str]]) -> tuple[PoolClass, ...]:
    by_class: dict[str, list[PoolGpu]] = {}
    for gpu in told:
        by_class.setdefault(gpu.gpu_class, []).append(gpu)
    return tuple(
        PoolClass(
            name,
            len(group),
            sum(gpu.available for gpu in group),
            max(gpu.allocatable_mib for gpu in group),
            sum(gpu.used_thousandths for gpu in group),
            tuple(f"{number} {name}" for number in sizes.get(name, sizes.get("", ()))),
        )
        for name, group in sorted(by_class.items())
    )


@dataclass(frozen=True, slots=True)
class Sums:
    """The ledger in numbers. ``by_state``: (state, class, course) to leases and thousandths."""

    by_state: dict[tuple[str, str, str], tuple[int, int]]
    gpus: Sequence[PoolGpu]
    mismatch: int


def sums(tx: Transaction) -> Sums:
    by_state: dict[tuple[str, str, str], tuple[int, int]] = {}
    for lease in tx.book.leases.values():
        if lease.state not in FINAL:
            group = (str(lease.state), lease.gpu_class or "", lease.course)
            count, thousandths = by_state.get(group, (0, 0))
            by_state[group] = count + 1, thousandths + lease.thousandths
    return Sums(by_state, gpus(tx), mismatch(tx))
