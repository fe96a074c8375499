"""What the ledger tells: leases, the pool, courses, agents' sets, sums for metrics. Nothing here writes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpu_kernels.errors import UnknownCourse
from gpu_kernels.pool.ledger.accounts import CourseNames
from gpu_kernels.pool.ledger.audit import mismatch
from gpu_kernels.pool.ledger.capacity import takes_slices
from gpu_kernels.pool.ledger.explaining import starts
from gpu_kernels.pool.ledger.registrations import refused_view
from gpu_kernels.pool.ledger.rows import Lease, Slice
from gpu_kernels.pool.ledger.ruling import idle_for
from gpu_kernels.pool.ledger.states import FINAL, IN_FORCE, State
from gpu_kernels.pool.ledger.sweeping import in_force_of
from gpu_kernels.pool.ledger.transaction import Transaction

LIST_LIMIT = 5000


def lease_view(
    tx: Transaction,
    lease: Lease,
    positions: dict[str, int] | None = None,
    parts: Sequence[Slice] | None = None,
) -> dict[str, Any]:
    """A lease as the API tells it, without its secret. ``parts``: the slices of one that has left the
    book.
    """
    position = None
    if lease.state == State.QUEUED:
        position = (positions if positions is not None else queue_positions(tx)).get(lease.id)
    in_force = lease.state in IN_FORCE
    agent = tx.book.agents.get(lease.agent_name or "")
    return {
        "id": lease.id,
        "state": str(lease.state),
        "epoch": lease.epoch,
        "user": lease.user,
        "course": lease.course,
        "size": lease.size,
        "gpu_class": lease.gpu_class,
        "device": lease.device,
        "slot": {"server": lease.server, "path": lease.path},
        "holder": lease.holder,
        "slices": slice_views(tx, lease, parts),
        "agent": None if agent is None else {"name": agent.name, "address": agent.address},
        "secret": None,
        "position": position,
        "starts_in": _until(tx, starts(tx).get(lease.id)) if position is not None else None,
        "expires_in": max(0, (lease.expires_at or 0) - tx.now) / 1000 if in_force else None,
        "ttl": tx.timing.lease_ttl / 1000,
        "ends_in": _until(tx, lease.ends_at) if in_force else None,
        "preempt_in": _until(tx, lease.preempt_at) if in_force else None,
        "class_hour": lease.window.partition(".")[0] if in_force and lease.window else None,
        "reason": lease.reason,
        "created_at": iso(lease.created_at),
        "ended_at": None if lease.ended_at is None else iso(lease.ended_at),
        "labels": dict(lease.labels),
        "use": {
            "used_mib": lease.used_mib,
            "peak_mib": lease.peak_mib,
            "sessions": lease.sessions,
            "launches": lease.launches,
            "idle": None if (idle := idle_for(tx, lease)) is None else idle / 1000,
        },
    }


def _until(tx: Transaction, at: int | None) -> float | None:
    return None if at is None else max(0, at - tx.now) / 1000


def slice_views(tx: Transaction, lease: Lease, parts: Sequence[Slice] | None = None) -> list[dict[str, Any]]:
    """``parts``: the slices of a lease that has left the book, where they are at hand."""
    if parts is None and lease.agent_name is not None and lease.id not in tx.book.leases:
        ended = tx.store.find_lease(lease.id)
        parts = () if ended is None else ended.slices
    views = [
        {
            "gpu": part.gpu_uuid,
            "index": tx.book.gpus[part.gpu_id].index,
            "mib": part.mib,
            "thousandths": part.thousandths,
        }
        for part in (tx.book.parts(lease) if parts is None else parts)
    ]
    return sorted(views, key=lambda part: (part["index"], part["gpu"]))


def iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def queue_positions(tx: Transaction) -> dict[str, int]:
    """Each waiting request's place in the line, from 1, by its id."""
    return {lease_id: number for number, lease_id in enumerate(tx.line, start=1)}


def leases(
    tx: Transaction, *, user: str | None = None, course: str | None = None, ended: bool = False
) -> list[dict[str, Any]]:
    """Leases that live or hold slices, newest first; with ``ended``, the ended ones too (``LIST_LIMIT`` at
    most).
    """
    found = [
        lease
        for lease in tx.book.leases.values()
        if (ended or lease.state not in FINAL)
        and user in (None, lease.user)
        and course in (None, lease.course)
    ]
    positions = queue_positions(tx)
    views = [(lease, lease_view(tx, lease, positions)) for lease in found]
    if ended:
        page = tx.store.ended_leases(user=user, course=course, limit=LIST_LIMIT)
        older = (item for item in page.rows if item.lease.id not in tx.book.leases)
        views += [(item.lease, lease_view(tx, item.lease, {}, item.slices)) for item in older]
    views.sort(key=lambda pair: (-pair[0].created_at, pair[0].id))
    return [view for _, view in views[:LIST_LIMIT]]


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


def agents(tx: Transaction) -> list[dict[str, Any]]:
    """Every agent, for an admin."""
    heard_since = tx.now - tx.timing.agent_ttl
    return [
        {
            "name": agent.name,
            "address": agent.address,
            "version": agent.version,
            "boot_id": agent.boot_id,
            "target_seq": agent.target_seq,
            "reported_seq": agent.reported_seq,
            "silent_for": max(0, tx.now - agent.reported_at) / 1000,
            "answering": agent.reported_at > heard_since,
            "standing": agent.standing,
            "drain_by": None if agent.drain_by is None else iso(agent.drain_by),
            "ends_at": None if agent.ends_at is None else iso(agent.ends_at),
            "refused": refused_view(tx, agent.name),
        }
        for _, agent in sorted(tx.book.agents.items())
    ]


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
class Target:
    """A lease that an agent should serve, but for what proves it."""

    id: str
    epoch: int
    expires_in: float
    slices: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Told:
    """What an agent is told to serve: ``targets``, and the ``lives`` that it has been told before, as (id,
    epoch, seconds left); None where ``targets`` are all. What neither names is over.
    """

    target_seq: int
    incarnation: str
    targets: tuple[Target, ...]
    lives: tuple[tuple[str, int, float], ...] | None


def agent_target(tx: Transaction, name: str) -> tuple[int, list[Target]]:
    """The agent's ``target_seq`` and everything that it should serve."""
    agent = tx.book.agents[name]
    return agent.target_seq, [_target(tx, lease) for lease in in_force_of(tx, agent)]


def agent_told(tx: Transaction, name: str, done_seq: int, counts_by: str, *, full: bool) -> Told:
    """What to tell an agent that has carried out ``done_seq`` of the ledger ``counts_by``: what came since
    and the names of the rest, or everything where it counts by another ledger or asks for it.
    """
    agent = tx.book.agents[name]
    if full or counts_by != tx.counts_by:
        _, targets = agent_target(tx, name)
        return Told(agent.target_seq, tx.counts_by, tuple(targets), None)
    came, lives = [], []
    for lease in in_force_of(tx, agent):
        if (lease.start_seq or 0) > done_seq:
            came.append(_target(tx, lease))
        else:
            lives.append((lease.id, lease.epoch, _left(tx, lease)))
    return Told(agent.target_seq, tx.counts_by, tuple(came), tuple(lives))


def _target(tx: Transaction, lease: Lease) -> Target:
    return Target(lease.id, lease.epoch, _left(tx, lease), slice_views(tx, lease))


def _left(tx: Transaction, lease: Lease) -> float:
    return max(0, (lease.expires_at or 0) - tx.now) / 1000


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
