"""What the ledger tells: leases, the pool, courses, agents' sets, sums for metrics. Nothing here writes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import selectinload

from gpu_kernels.errors import UnknownCourse
from gpu_kernels.pool.ledger import models, snapshot
from gpu_kernels.pool.ledger.models import Lease, LeaseSlice
from gpu_kernels.pool.ledger.states import HOLDING, IN_FORCE, State
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy import queue

LIST_LIMIT = 5000


def lease_view(tx: Transaction, lease: Lease, positions: dict[str, int] | None = None) -> dict[str, Any]:
    """A lease as the API tells it, without its secret."""
    position = None
    if lease.state == State.QUEUED:
        position = (positions if positions is not None else queue_positions(tx)).get(lease.id)
    in_force = lease.state in IN_FORCE
    agent = lease.agent
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
        "slices": _slice_views(lease.slices),
        "agent": None if agent is None else {"name": agent.name, "address": agent.address},
        "secret": None,
        "position": position,
        "expires_in": max(0, (lease.expires_at or 0) - tx.now) / 1000 if in_force else None,
        "ttl": tx.timing.lease_ttl / 1000,
        "reason": lease.reason,
        "created_at": iso(lease.created_at),
        "labels": dict(lease.labels),
        "use": {
            "used_mib": lease.used_mib,
            "peak_mib": lease.peak_mib,
            "sessions": lease.sessions,
            "launches": lease.launches,
        },
    }


def _slice_views(slices: Iterable[LeaseSlice]) -> list[dict[str, Any]]:
    parts = [
        {"gpu": part.gpu.uuid, "index": part.gpu.index, "mib": part.mib, "thousandths": part.thousandths}
        for part in slices
    ]
    return sorted(parts, key=lambda part: (part["index"], part["gpu"]))


def iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def queue_positions(tx: Transaction) -> dict[str, int]:
    return queue.positions((lease.turn, lease.id) for lease in snapshot.waiting(tx))


def leases(
    tx: Transaction, *, user: str | None = None, course: str | None = None, ended: bool = False
) -> list[dict[str, Any]]:
    """Leases that live or hold slices, newest first; with ``ended``, the ended ones too (``LIST_LIMIT`` at
    most).
    """
    query = select(Lease).options(selectinload(Lease.slices))
    query = query.order_by(Lease.created_at.desc(), Lease.id).limit(LIST_LIMIT)
    if not ended:
        query = query.where(Lease.state.in_(HOLDING | {State.QUEUED}))
    if user is not None:
        query = query.where(Lease.user == user)
    if course is not None:
        query = query.where(Lease.course == course)
    positions = queue_positions(tx)
    return [lease_view(tx, lease, positions) for lease in tx.session.scalars(query)]


def pool(tx: Transaction) -> dict[str, Any]:
    """GPU classes and GPUs with what they have and what of it is in use; no user is named."""
    g, a = models.Gpu, models.Agent
    query = select(g, a).join(a, a.name == g.agent_name).order_by(g.gpu_class, g.agent_name, g.index)
    heard_since = tx.now - tx.timing.agent_ttl
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
            "available": gpu.open and agent.reported_at > heard_since,
        }
        for gpu, agent in tx.session.execute(query)
        if gpu.offered or gpu.used_mib
    ]
    queued = select(func.count()).select_from(Lease).where(Lease.state == State.QUEUED)
    return {"gpus": gpus, "queued": tx.session.scalars(queued).one()}


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
        }
        for agent in tx.session.scalars(select(models.Agent).order_by(models.Agent.name))
    ]


def courses(tx: Transaction, names: Collection[str] | None) -> list[dict[str, Any]]:
    """These courses (all for None) with their limits and what each holds now."""
    query = select(models.Course.name).order_by(models.Course.name)
    if names is not None:
        query = query.where(models.Course.name.in_(sorted(names)))
    return [course(tx, name) for name in tx.session.scalars(query).all()]


def course(tx: Transaction, name: str) -> dict[str, Any]:
    """One course. Raises ``UnknownCourse``."""
    if tx.session.get(models.Course, name) is None:
        raise UnknownCourse(f"There is no course {name} in the GPU pool.", details={"course": name})
    state = snapshot.course(tx, name)
    held = {c: state.settled.get(c, 0) + state.ending.get(c, 0) for c in {*state.settled, *state.ending}}
    return {
        "name": name,
        "limit": {c: {"thousandths": value} for c, value in sorted(state.limit.items())},
        "held": {c: {"thousandths": value} for c, value in sorted(held.items()) if value},
    }


@dataclass(frozen=True, slots=True)
class Target:
    """A lease that an agent should serve, but for what proves it."""

    id: str
    epoch: int
    expires_in: float
    slices: list[dict[str, Any]]


def agent_target(tx: Transaction, name: str) -> tuple[int, list[Target]]:
    """The agent's ``target_seq`` and everything that it should serve."""
    agent = tx.session.get_one(models.Agent, name)
    query = (
        select(Lease)
        .where(Lease.agent_name == name, Lease.state.in_(IN_FORCE))
        .order_by(Lease.epoch)
        .options(selectinload(Lease.slices))
    )
    targets = [
        Target(
            lease.id, lease.epoch, max(0, (lease.expires_at or 0) - tx.now) / 1000, _slice_views(lease.slices)
        )
        for lease in tx.session.scalars(query)
    ]
    return agent.target_seq, targets


@dataclass(frozen=True, slots=True)
class Sums:
    """The ledger in numbers. ``by_state``: (state, class, course) to leases and thousandths."""

    by_state: dict[tuple[str, str, str], tuple[int, int]]
    gpus: list[dict[str, Any]]
    mismatch: int


def sums(tx: Transaction) -> Sums:
    live = (
        select(Lease.state, Lease.gpu_class, Lease.course, func.count(), func.sum(Lease.thousandths))
        .where(Lease.state.in_(HOLDING | {State.QUEUED}))
        .group_by(Lease.state, Lease.gpu_class, Lease.course)
    )
    by_state = {
        (str(state), gpu_class or "", course_name): (count, int(thousandths))
        for state, gpu_class, course_name, count, thousandths in tx.session.execute(live)
    }
    return Sums(by_state, pool(tx)["gpus"], mismatch(tx))


def mismatch(tx: Transaction) -> int:
    """How many GPUs are counted otherwise than their leases or their open accounts say; must be 0."""
    g = models.Gpu
    held = (
        select(
            LeaseSlice.gpu_id.label("gpu_id"),
            func.sum(LeaseSlice.mib).label("mib"),
            func.sum(LeaseSlice.thousandths).label("thousandths"),
        )
        .join(Lease, Lease.id == LeaseSlice.lease_id)
        .where(Lease.state.in_(HOLDING))
        .group_by(LeaseSlice.gpu_id)
        .subquery()
    )
    accounts = (
        select(
            models.Usage.gpu_uuid.label("uuid"),
            models.Agent.name.label("agent"),
            func.sum(models.Usage.thousandths).label("thousandths"),
        )
        .join(Lease, Lease.id == models.Usage.lease_id)
        .join(models.Agent, models.Agent.name == Lease.agent_name)
        .where(models.Usage.ended_at.is_(None))
        .group_by(models.Usage.gpu_uuid, models.Agent.name)
        .subquery()
    )
    zero = func.coalesce
    query = (
        select(func.count())
        .select_from(g)
        .outerjoin(held, held.c.gpu_id == g.id)
        .outerjoin(accounts, (accounts.c.uuid == g.uuid) & (accounts.c.agent == g.agent_name))
        .where(
            (g.used_mib != zero(held.c.mib, 0))
            | (g.used_thousandths != zero(held.c.thousandths, 0))
            | (g.used_thousandths != zero(accounts.c.thousandths, 0))
        )
    )
    return tx.session.scalars(query).one()
