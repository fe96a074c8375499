"""What the ledger holds now, as the policy's frozen snapshots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlalchemy import bindparam, func, select
from sqlalchemy.orm import aliased

from gpu_kernels.pool.ledger import models
from gpu_kernels.pool.ledger.models import Lease
from gpu_kernels.pool.ledger.states import ENDING, HOLDING, Place, State
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.model import Ask, Course, Gpu
from gpu_kernels.units import Slice, parse_size

_GPUS = (
    select(
        models.Gpu.id,
        models.Gpu.agent_name,
        models.Gpu.index,
        models.Gpu.gpu_class,
        models.Gpu.offered_mib,
        models.Gpu.used_mib,
        models.Gpu.used_thousandths,
        models.Agent.reported_at,
    )
    .join(models.Agent, models.Agent.name == models.Gpu.agent_name)
    .where(models.Gpu.offered, models.Gpu.gpu_class == models.Gpu.offered_class)
)
_LIMITS = select(models.CourseLimit.gpu_class, models.CourseLimit.thousandths).where(
    models.CourseLimit.course == bindparam("course")
)
_HELD = (
    select(func.coalesce(Lease.gpu_class, ""), Lease.state, Lease.place, func.sum(Lease.thousandths))
    .where(Lease.course == bindparam("course"), Lease.state.in_(sorted(HOLDING)))
    .group_by(Lease.gpu_class, Lease.state, Lease.place)
)
_IN_SLOT = select(Lease).where(
    Lease.user == bindparam("user"),
    Lease.server == bindparam("server"),
    Lease.path == bindparam("path"),
    Lease.place.in_(sorted(Place)),
)
_WAITING = select(Lease).where(Lease.state == State.QUEUED).order_by(Lease.turn, Lease.id)
_OVERLAPPED = (
    select(Lease.id).where(Lease.user == bindparam("user"), Lease.replaced_at > bindparam("since")).limit(1)
)


def gpus(tx: Transaction) -> list[Gpu]:
    """Every GPU that takes new slices, or would if its agent answered."""
    tx.session.flush()
    heard_since = tx.now - tx.timing.agent_ttl
    return [Gpu(*row[:7], answering=row[7] > heard_since) for row in tx.session.connection().execute(_GPUS)]


def course(tx: Transaction, name: str) -> Course:
    """The course with its limits and what it holds."""
    tx.session.flush()
    connection, named = tx.session.connection(), {"course": name}
    settled: dict[str, int] = defaultdict(int)
    ending: dict[str, int] = defaultdict(int)
    overlaps = False
    for gpu_class, state, place, thousandths in connection.execute(_HELD, named):
        overlaps |= place == Place.REPLACED
        if state in ENDING:
            ending[gpu_class] += int(thousandths)
        elif place == Place.CURRENT:
            settled[gpu_class] += int(thousandths)
    if overlaps:
        for gpu_class, thousandths in _overlaps(tx, name):
            settled[gpu_class] += thousandths
    limit = {row[0]: row[1] for row in connection.execute(_LIMITS, named)}
    return Course(name, limit, settled, ending)


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
    """The living leases of a slot, by their place.

    A slot is read once a transaction; from then on its leases' places are those of the objects, which
    ``move`` and the grants change. A lease that is new to its slot must ``join_slot``.
    """
    slot = (user, server, path)
    if slot not in tx.slots:
        named = {"user": user, "server": server, "path": path}
        tx.slots[slot] = list(tx.session.scalars(_IN_SLOT, named))
    return {Place(lease.place): lease for lease in tx.slots[slot] if lease.place is not None}


def join_slot(tx: Transaction, lease: Lease) -> None:
    """Let ``in_slot`` see a lease that came to its slot in this transaction."""
    known = tx.slots.get((lease.user, lease.server, lease.path))
    if known is not None and lease not in known:
        known.append(lease)


def may_overlap(tx: Transaction, user: str) -> bool:
    """Whether the user has not overlapped two leases of a slot for a while."""
    since = tx.now - tx.timing.swap_rest
    tx.session.flush()
    return tx.session.connection().execute(_OVERLAPPED, {"user": user, "since": since}).first() is None


def ask(tx: Transaction, lease: Lease) -> Ask:
    """A request as the policy sees it, with what the lease it would replace already counts."""
    replaces: dict[str, int] = {}
    current = in_slot(tx, lease.user, lease.server, lease.path).get(Place.CURRENT)
    if current is not None and current.course == lease.course and may_overlap(tx, lease.user):
        replaces[current.gpu_class or ""] = current.thousandths
    return Ask(lease.id, lease.course, parse_size(lease.size), (lease.turn, lease.id), replaces)


def waiting(tx: Transaction) -> list[Lease]:
    """Those who wait, in the order of their turns."""
    return list(tx.session.scalars(_WAITING))


def ask_without_overlap(lease: Lease) -> Ask:
    return Ask(lease.id, lease.course, parse_size(lease.size), (lease.turn, lease.id))


def next_turn(tx: Transaction, waiting: Sequence[Lease]) -> int:
    """A turn after those of all who wait, also of those who came in the same millisecond."""
    return max(tx.now, waiting[-1].turn + 1) if waiting else tx.now


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
