"""What the ledger holds now, as the policy's frozen snapshots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from sqlalchemy import func, select
from sqlalchemy.orm import aliased

from gpu_kernels.pool.ledger import models
from gpu_kernels.pool.ledger.models import Lease
from gpu_kernels.pool.ledger.states import ENDING, IN_FORCE, Place, State
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.model import Ask, Course, Gpu
from gpu_kernels.units import Slice, parse_size


def gpus(tx: Transaction) -> list[Gpu]:
    """Every GPU that takes new slices, or would if its agent answered."""
    g, a = models.Gpu, models.Agent
    query = (
        select(
            g.id,
            g.agent_name,
            g.index,
            g.gpu_class,
            g.offered_mib,
            g.used_mib,
            g.used_thousandths,
            a.reported_at,
        )
        .join(a, a.name == g.agent_name)
        .where(g.offered, g.gpu_class == g.offered_class)
    )
    heard_since = tx.now - tx.timing.agent_ttl
    return [Gpu(*row[:7], answering=row[7] > heard_since) for row in tx.session.execute(query)]


def course(tx: Transaction, name: str) -> Course:
    """The course with its limits and what it holds."""
    limits = select(models.CourseLimit.gpu_class, models.CourseLimit.thousandths).where(
        models.CourseLimit.course == name
    )
    held = (
        select(func.coalesce(Lease.gpu_class, ""), Lease.state, Lease.place, func.sum(Lease.thousandths))
        .where(Lease.course == name, Lease.state.in_(IN_FORCE | ENDING))
        .group_by(Lease.gpu_class, Lease.state, Lease.place)
    )
    settled: dict[str, int] = defaultdict(int)
    ending: dict[str, int] = defaultdict(int)
    overlaps = False
    for gpu_class, state, place, thousandths in tx.session.execute(held):
        overlaps |= place == Place.REPLACED
        if state in ENDING:
            ending[gpu_class] += int(thousandths)
        elif place == Place.CURRENT:
            settled[gpu_class] += int(thousandths)
    if overlaps:
        for gpu_class, thousandths in _overlaps(tx, name):
            settled[gpu_class] += thousandths
    return Course(name, {row[0]: row[1] for row in tx.session.execute(limits)}, settled, ending)


def _overlaps(tx: Transaction, course_name: str) -> Iterable[tuple[str, int]]:
    """What replaced leases count beyond the leases that replaced them: a slot counts as the larger of
    both.
    """
    old, new = aliased(Lease), aliased(Lease)
    query = (
        select(func.coalesce(old.gpu_class, ""), old.thousandths, new.gpu_class, new.course, new.thousandths)
        .outerjoin(
            new,
            (new.user == old.user)
            & (new.server == old.server)
            & (new.path == old.path)
            & (new.place == Place.CURRENT),
        )
        .where(old.course == course_name, old.place == Place.REPLACED)
    )
    for old_class, old_size, new_class, new_course, new_size in tx.session.execute(query):
        same = new_class == old_class and new_course == course_name
        yield old_class, max(0, old_size - (new_size if same else 0))


def in_slot(tx: Transaction, user: str, server: str, path: str) -> dict[Place, Lease]:
    """The living leases of a slot, by their place."""
    query = select(Lease).where(
        Lease.user == user, Lease.server == server, Lease.path == path, Lease.place.is_not(None)
    )
    return {Place(lease.place or ""): lease for lease in tx.session.scalars(query)}


def may_overlap(tx: Transaction, user: str) -> bool:
    """Whether the user has not overlapped two leases of a slot for a while."""
    since = tx.now - tx.timing.swap_rest
    query = select(Lease.id).where(Lease.user == user, Lease.replaced_at > since).limit(1)
    return tx.session.execute(query).first() is None


def ask(tx: Transaction, lease: Lease) -> Ask:
    """A request as the policy sees it, with what the lease it would replace already counts."""
    replaces: dict[str, int] = {}
    current = in_slot(tx, lease.user, lease.server, lease.path).get(Place.CURRENT)
    if current is not None and current.course == lease.course and may_overlap(tx, lease.user):
        replaces[current.gpu_class or ""] = current.thousandths
    return Ask(lease.id, lease.course, parse_size(lease.size), (lease.turn, lease.id), replaces)


def waiting(tx: Transaction) -> list[Lease]:
    query = select(Lease).where(Lease.state == State.QUEUED).order_by(Lease.turn, Lease.id)
    return list(tx.session.scalars(query))


def ask_without_overlap(lease: Lease) -> Ask:
    return Ask(lease.id, lease.course, parse_size(lease.size), (lease.turn, lease.id))


def next_turn(tx: Transaction) -> int:
    """A turn after those of all who wait, also of those who came in the same millisecond."""
    last = tx.session.scalars(select(func.max(Lease.turn)).where(Lease.state == State.QUEUED)).one()
    return tx.now if last is None else max(tx.now, last + 1)


def gpus_without(tx: Transaction, leases: Iterable[Lease]) -> list[Gpu]:
    """Every GPU as it would be if ``leases`` held nothing."""
    result = gpus(tx)
    for lease in leases:
        parts = {part.gpu_id: Slice(part.mib, part.thousandths) for part in lease.slices}
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
