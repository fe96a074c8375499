"""The pool and its courses as the API tells them, and the ledger in numbers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from gpu_kernels.errors import UnknownCourse
from gpu_kernels.pool.ledger.queries.audit import mismatch
from gpu_kernels.pool.ledger.queries.courses import CourseNames
from gpu_kernels.pool.ledger.state.capacity import takes_slices
from gpu_kernels.pool.ledger.state.states import FINAL
from gpu_kernels.pool.ledger.transaction import Transaction


def pool(tx: Transaction) -> dict[str, Any]:
    """GPU classes and GPUs with what they have and what of it is in use; no user is named."""
    heard_since = tx.now - tx.timing.agent_ttl
    rows = sorted(tx.book.gpus.values(), key=lambda gpu: (gpu.gpu_class, gpu.agent_name, gpu.index, gpu.id))
    gpus = [
        {
            "agent": gpu.agent_name,
            "uuid": gpu.uuid,
            "index": gpu.index,
            "gpu_class": gpu.gpu_class,
            "device": gpu.device,
            "name": gpu.name,
            "total_mib": gpu.total_mib,
            "allocatable_mib": gpu.allocatable_mib,
            "used_mib": gpu.used_mib,
            "used_thousandths": gpu.used_thousandths,
            "available": takes_slices(gpu) and agent.standing == "open" and agent.reported_at > heard_since,
        }
        for gpu in rows
        if (gpu.offered or gpu.used_mib) and (agent := tx.book.agents[gpu.agent_name])
    ]
    return {"gpus": gpus, "queued": len(tx.book.waiting)}


def courses(tx: Transaction, names: Collection[str] | None) -> list[dict[str, Any]]:
    """These courses (all for None) with their limits and what each holds now."""
    return [course(tx, name) for name in sorted(CourseNames(tx.book.accounts) if names is None else names)]


def course(tx: Transaction, name: str) -> dict[str, Any]:
    """One course. Raises ``UnknownCourse``."""
    if name not in CourseNames(tx.book.accounts):
        raise UnknownCourse(f"There is no course {name} in the GPU pool.", details={"course": name})
    quotas = tx.book.quotas_of.of(name).values()
    limit = {row.gpu_class: row.hard_limit for row in quotas if row.hard_limit is not None}
    holdings, entitlements = tx.book.holdings, tx.book.entitlements
    classes = {*holdings.settled.get(name, ()), *holdings.ending.get(name, ())}
    held = {c: entitlements.held(name, c) for c in classes}
    return {
        "name": name,
        "limit": {c: {"thousandths": value} for c, value in sorted(limit.items())},
        "held": {c: {"thousandths": value} for c, value in sorted(held.items()) if value},
    }


@dataclass(frozen=True, slots=True)
class Sums:
    """The ledger in numbers. ``by_state``: (state, class, course) to leases and thousandths."""

    by_state: dict[tuple[str, str, str], tuple[int, int]]
    gpus: list[dict[str, Any]]
    mismatch: int


def sums(tx: Transaction) -> Sums:
    by_state: dict[tuple[str, str, str], tuple[int, int]] = {}
    for lease in tx.book.leases.values():
        if lease.state not in FINAL:
            group = (str(lease.state), lease.gpu_class or "", lease.course)
            count, thousandths = by_state.get(group, (0, 0))
            by_state[group] = count + 1, thousandths + lease.thousandths
    return Sums(by_state, pool(tx)["gpus"], mismatch(tx))
