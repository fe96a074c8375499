"""What the book holds now, as the policy's frozen snapshots."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpu_kernels.pool.ledger import rows
from gpu_kernels.pool.ledger.capacity import takes_slices
from gpu_kernels.pool.ledger.rows import Lease
from gpu_kernels.pool.ledger.states import Place
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.model import Ask, Course, Gpu
from gpu_kernels.units import Slice, parse_size


def gpus(tx: Transaction) -> list[Gpu]:
    """Every GPU that takes new slices, or would if its agent answered."""
    return [policy_gpu(tx, gpu) for gpu in tx.book.gpus.values() if takes_slices(gpu)]


def policy_gpu(tx: Transaction, gpu: rows.Gpu) -> Gpu:
    agent = tx.book.agents[gpu.agent_name]
    return Gpu(
        gpu.id,
        gpu.agent_name,
        gpu.index,
        gpu.gpu_class,
        gpu.offered_mib,
        gpu.used_mib,
        gpu.used_thousandths,
        answering=agent.reported_at > tx.now - tx.timing.agent_ttl and agent.standing == "open",
    )


def course(tx: Transaction, name: str) -> Course:
    """The course with its limits and what it holds."""
    quotas = tx.book.quotas_of.of(name).values()
    limit = {row.gpu_class: row.hard_limit for row in quotas if row.hard_limit is not None}
    holdings = tx.book.holdings
    return Course(name, limit, dict(holdings.settled.get(name, {})), dict(holdings.ending.get(name, {})))


def may_overlap(tx: Transaction, user: str) -> bool:
    """Whether the user has not overlapped two leases of a slot for a while."""
    since = tx.now - tx.timing.swap_rest
    return not any((lease.replaced_at or 0) > since for lease in tx.book.swapped.of(user).values())


def ask(tx: Transaction, lease: Lease) -> Ask:
    """A request as the policy sees it, with what the lease it would replace already counts."""
    replaces: dict[str, int] = {}
    current = tx.book.in_slot(lease.user, lease.server, lease.path).get(Place.CURRENT)
    if current is not None and current.course == lease.course and may_overlap(tx, lease.user):
        replaces[current.gpu_class or ""] = current.thousandths
    return replace(ask_without_overlap(lease), replaces=replaces)


def ask_without_overlap(lease: Lease) -> Ask:
    return Ask(lease.id, lease.course, parse_size(lease.size), (lease.turn, lease.id))


def next_turn(tx: Transaction) -> int:
    """A turn after those of all who wait, also of those who came in the same millisecond."""
    last = tx.book.waiting.last()
    return tx.now if last is None else max(tx.now, last.turn + 1)


def gpus_without(tx: Transaction, leases: Iterable[Lease]) -> list[Gpu]:
    """Every GPU as it would be if ``leases`` held nothing."""
    result = gpus(tx)
    for lease in leases:
        parts = {part.gpu_id: Slice(part.mib, part.thousandths) for part in tx.book.parts(lease)}
        result = [gpu.without_part(parts[gpu.id]) if gpu.id in parts else gpu for gpu in result]
    return result


def course_without(tx: Transaction, name: str, in_slot: Iterable[Lease]) -> Course:
    """The course as it would be if the slot's leases in force held nothing; the slot counts as their
    largest.
    """
    state = course(tx, name)
    largest: dict[str, int] = {}
    for lease in in_slot:
        if lease.course == name:
            gpu_class = lease.gpu_class or ""
            largest[gpu_class] = max(largest.get(gpu_class, 0), lease.thousandths)
    left = {c: max(0, held - largest.get(c, 0)) for c, held in state.settled.items()}
    return replace(state, settled=left)
