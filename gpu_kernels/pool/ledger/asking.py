"""A user's requests: reserve, wait, renew, release."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, func, select

from gpu_kernels.errors import KeyReused, TooMany, UnknownLease
from gpu_kernels.pool.ledger import snapshot
from gpu_kernels.pool.ledger.courses import resolve_course
from gpu_kernels.pool.ledger.ending import NOT_RENEWED, REPLACED, drain, end_all, expire
from gpu_kernels.pool.ledger.granting import advance_queue
from gpu_kernels.pool.ledger.models import Lease
from gpu_kernels.pool.ledger.states import IN_FORCE, LIVE, Place, State, Who, move
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy import queue
from gpu_kernels.pool.policy.model import Verdict
from gpu_kernels.units import Size

WITH_KEY = select(Lease).where(Lease.user == bindparam("user"), Lease.live_key == bindparam("key"))
LIVING = select(func.count()).select_from(Lease).where(Lease.user == bindparam("user"), Lease.live_key > "")
"""Only living leases have a ``live_key``; asked in this way, its index is read and no ended lease."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a user asks for. ``wait_ms``: how long the user is willing to stand in the queue."""

    user: str
    groups: Collection[str]
    course: str | None
    size: Size
    key: str
    server: str
    path: str
    holder: str
    wait_ms: int
    labels: Mapping[str, str]


def reserve(tx: Transaction, wish: Wish) -> Lease:
    """The lease of the wish: one that lives already, a new one, or a queued one.

    Raises what the policy refuses, ``KeyReused``, and what ``resolve_course`` raises; a refusal changes
    nothing.
    """
    course = resolve_course(tx, wish.user, wish.groups, wish.course)
    body_hash = _body_hash(wish, course)
    same = tx.session.scalars(WITH_KEY, {"user": wish.user, "key": wish.key}).first()
    if same is not None and _over(tx, same):
        expire(tx, same, NOT_RENEWED)
        same = None
    if same is not None:
        return _ask_again(tx, same, wish, body_hash)
    places = snapshot.in_slot(tx, wish.user, wish.server, wish.path)
    if Place.WAITING in places:
        drain(tx, places[Place.WAITING], who_asked=wish.user, reason=REPLACED)
        tx.session.flush()
    _check_living(tx, wish.user, but=Place.CURRENT in places)
    waiting = snapshot.waiting(tx)
    lease = _new_lease(tx, wish, course, body_hash, snapshot.next_turn(tx, waiting))
    verdict = advance_queue(tx, waiting, lease)
    assert verdict is not None
    if verdict.placement is not None:
        return lease
    in_slot = [places[place] for place in (Place.REPLACED, Place.CURRENT) if place in places]
    return _queue_or_refuse(tx, lease, wish, in_slot, verdict)


def _check_living(tx: Transaction, user: str, *, but: bool) -> None:
    """Refuse a user who has as many leases as one may; ``but``: one of them makes way for the new one."""
    living = tx.session.connection().execute(LIVING, {"user": user}).scalar_one() - but
    if living >= tx.caps.living:
        raise TooMany(
            f"You already have {living} leases, and nobody may have more than {tx.caps.living} at once.\n"
            "Shut kernels down that you do not need.",
            details={"held": living, "limit": tx.caps.living},
        )


def _check_queue(tx: Transaction, user: str) -> None:
    """Refuse to queue where the queue, or the user's part of it, is full."""
    waiting = snapshot.waiting(tx)
    own = sum(lease.user == user for lease in waiting)
    if own >= tx.caps.queued:
        raise TooMany(
            f"You already wait for {own} leases, and nobody may for more than {tx.caps.queued} at once.\n"
            "Wait for one of them, or stop a kernel that is still starting.",
            retry_after=60.0,
            details={"queued": own, "limit": tx.caps.queued},
        )
    if len(waiting) >= tx.caps.queue:
        raise TooMany(
            f"The queue is full: {len(waiting)} requests wait for a GPU already.\n"
            "Try again in a few minutes, or choose 'Python 3' to work without a GPU.",
            retry_after=120.0,
            details={"queued": len(waiting), "limit": tx.caps.queue},
        )


def _ask_again(tx: Transaction, lease: Lease, wish: Wish, body_hash: str) -> Lease:
    """The same key: the same lease, for the newest asker."""
    if lease.body_hash != body_hash:
        raise KeyReused(
            f"This request's key belongs to a lease of {lease.size} for {lease.path or 'another use'} "
            f"({lease.course}), which still lives.\n"
            "Use another key, or release that lease first.",
            details={"lease": lease.id},
        )
    lease.holder = wish.holder
    lease.labels = dict(wish.labels)
    if lease.state == State.QUEUED:
        lease.asked_at = tx.now
        lease.give_up_at = max(lease.give_up_at, tx.now + wish.wait_ms)
    else:
        lease.expires_at = tx.now + tx.timing.lease_ttl
    return lease


def _new_lease(tx: Transaction, wish: Wish, course: str, body_hash: str, turn: int) -> Lease:
    return Lease(
        id=secrets.token_hex(16),
        user=wish.user,
        course=course,
        size=str(wish.size),
        key=wish.key,
        live_key=wish.key,
        body_hash=body_hash,
        server=wish.server,
        path=wish.path,
        holder=wish.holder,
        labels=dict(wish.labels),
        turn=turn,
        created_at=tx.now,
        asked_at=tx.now,
        give_up_at=tx.now + wish.wait_ms,
        epoch=0,
        thousandths=0,
    )


def _queue_or_refuse(
    tx: Transaction, lease: Lease, wish: Wish, in_slot: Sequence[Lease], verdict: Verdict
) -> Lease:
    """``in_slot``: the slot's replaced and current leases, in this order."""
    assert verdict.refusal is not None
    if wish.wait_ms <= 0:
        raise verdict.refusal
    if in_slot and _end_for_the_new(tx, lease, in_slot):
        end_all(tx, in_slot, who_asked=wish.user, reason=REPLACED)
    elif not verdict.may_wait:
        raise verdict.refusal
    _check_queue(tx, wish.user)
    lease.place = Place.WAITING
    move(tx, lease, State.QUEUED, who=Who.REQUEST, actor=wish.user)
    tx.session.add(lease)
    snapshot.join_slot(tx, lease)
    tx.session.flush()
    return lease


def _end_for_the_new(tx: Transaction, lease: Lease, in_slot: Sequence[Lease]) -> bool:
    """Whether the user's own leases of the slot are all that stands in the way of the new one.

    Then they are ended, and the new one waits for their slices. A new lease that takes no more than the
    current one also takes over its turn, so that nobody gets in between.
    """
    ask = snapshot.ask_without_overlap(lease)
    course = snapshot.course_without(tx, lease.course, in_slot)
    placement = queue.judge(ask, snapshot.gpus_without(tx, in_slot), course).placement
    if placement is None:
        return False
    current = in_slot[-1]
    no_more = (
        placement.gpu_class == current.gpu_class
        and placement.thousandths <= current.thousandths
        and placement.mib <= sum(part.mib for part in current.slices)
    )
    if no_more:
        lease.turn = current.turn
    return no_more or not snapshot.waiting(tx)


def _over(tx: Transaction, lease: Lease) -> bool:
    return lease.state in IN_FORCE and (lease.expires_at or 0) <= tx.now


def keep_waiting(tx: Transaction, user: str, lease_id: str) -> Lease:
    """Note that the owner of a queued lease still waits for it; the lease as it is now."""
    lease = owned(tx, user, lease_id)
    if lease.state == State.QUEUED:
        lease.asked_at = tx.now
    return lease


@dataclass(frozen=True, slots=True)
class Renewal:
    """``renewed``: milliseconds left, by lease id. ``lost``: (id, state, reason)."""

    renewed: Mapping[str, int]
    lost: tuple[tuple[str, str, str], ...]


def renew(tx: Transaction, user: str, leases: Iterable[tuple[str, int]]) -> Renewal:
    """Give leases in force a whole time to live from now. One that is over stays over, swept already or
    not.
    """
    wanted = dict(leases)
    query = select(Lease).where(Lease.id.in_(sorted(wanted)), Lease.user == user)
    found = {lease.id: lease for lease in tx.session.scalars(query)}
    renewed: dict[str, int] = {}
    lost: list[tuple[str, str, str]] = []
    for lease_id, epoch in wanted.items():
        lease = found.get(lease_id)
        if lease is None or lease.epoch != epoch:
            lost.append((lease_id, "unknown", "There is no such lease of this epoch."))
            continue
        if _over(tx, lease):
            expire(tx, lease, REPLACED if lease.place == Place.REPLACED else NOT_RENEWED)
        if lease.state not in IN_FORCE:
            lost.append((lease_id, lease.state, lease.reason or ""))
            continue
        until = tx.now + tx.timing.lease_ttl
        if lease.place == Place.REPLACED:
            last = (lease.replaced_at or tx.now) + tx.timing.lease_ttl
            until = max(lease.expires_at or 0, min(until, last))
        lease.expires_at = until
        renewed[lease_id] = until - tx.now
    return Renewal(renewed, tuple(lost))


def release(tx: Transaction, user: str, lease_id: str, holder: str) -> Lease:
    """End the lease if ``holder`` still is its holder; otherwise nothing changes. Repeating it is
    harmless.
    """
    lease = owned(tx, user, lease_id)
    if lease.holder == holder and lease.state in LIVE:
        drain(tx, lease, who_asked=user)
    return lease


def release_server(tx: Transaction, user: str, server: str, who_asked: str) -> list[Lease]:
    """End everything that the user's Jupyter server holds or waits for."""
    query = select(Lease).where(Lease.user == user, Lease.server == server, Lease.place.is_not(None))
    # The current one last: ending it first would restore the lease that it had replaced.
    leases = sorted(tx.session.scalars(query), key=lambda lease: (lease.place == Place.CURRENT, lease.id))
    return end_all(tx, leases, who_asked=who_asked, reason="The Jupyter server stopped.")


def owned(tx: Transaction, user: str, lease_id: str) -> Lease:
    """The user's lease; another user's is as unknown as one that does not exist."""
    lease = tx.session.get(Lease, lease_id)
    if lease is None or lease.user != user:
        raise UnknownLease(f"There is no lease {lease_id[:40]!r} of yours.")
    return lease


def _body_hash(wish: Wish, course: str) -> str:
    """What must be the same for the same key. Who holds it and how long to wait may differ."""
    body = [str(wish.size), course, wish.server, wish.path]
    return hashlib.sha256(json.dumps(body).encode()).hexdigest()
