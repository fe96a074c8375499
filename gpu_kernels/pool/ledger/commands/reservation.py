"""A user asks for a lease: the one that lives already, a new one, or a place in the queue."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpu_kernels.errors import KeyReused, TooMany
from gpu_kernels.pool.ledger.commands.expiry import end_over, is_over
from gpu_kernels.pool.ledger.commands.queue import advance_queue
from gpu_kernels.pool.ledger.commands.seats import coming_seats, not_clear_yet
from gpu_kernels.pool.ledger.commands.swap import turn_if_ended_for_the_new
from gpu_kernels.pool.ledger.commands.termination import REPLACED, drain, end_all
from gpu_kernels.pool.ledger.commands.transitions import move
from gpu_kernels.pool.ledger.queries.courses import resolve_course
from gpu_kernels.pool.ledger.queries.scene import next_turn
from gpu_kernels.pool.ledger.state.rows import Lease
from gpu_kernels.pool.ledger.state.states import Place, State, Who
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.model import Verdict
from gpu_kernels.pool.policy.queue import worth_waiting
from gpu_kernels.units import Size, no_more_than


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """What a user asks for. ``wait_ms``: how long the user is willing to stand in the queue. ``preemptible``:
    the lease may be told to make way for a class hour. ``wait_for_course``: it stands in the queue also while
    the course itself holds all that it may.
    """

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
    preemptible: bool = False
    wait_for_course: bool = False


def reserve(tx: Transaction, request: LeaseRequest) -> Lease:
    """The lease of the request: one that lives already, a new one, or a queued one.

    Raises what the policy refuses, ``KeyReused``, and what ``resolve_course`` raises; a refusal changes
    nothing.
    """
    course = resolve_course(tx, request.user, request.groups, request.course)
    body_hash = _body_hash(request, course)
    same = tx.book.by_live_key.get((request.user, request.key))
    if same is not None and is_over(tx, same):
        end_over(tx, same)
        same = tx.book.by_live_key.get((request.user, request.key))
    if same is not None:
        return _ask_again(tx, same, request, body_hash)
    places = tx.book.in_slot(request.user, request.server, request.path)
    waiting = places.get(Place.WAITING)
    if waiting is not None:
        drain(tx, waiting, who_asked=request.user, reason=REPLACED)
    _check_living(tx, request.user, but=Place.CURRENT in places)
    lease = _new_lease(tx, request, course, body_hash, next_turn(tx))
    if waiting is not None and _disturbs_nobody(lease, waiting):
        lease = _in_its_stead(lease, waiting)
    verdict = advance_queue(tx, lease)
    assert verdict is not None
    if verdict.placement is not None:
        return tx.book.leases[lease.id]
    places = tx.book.in_slot(request.user, request.server, request.path)
    in_slot = [places[place] for place in (Place.REPLACED, Place.CURRENT) if place in places]
    return _queue_or_refuse(tx, lease, request, in_slot, verdict)


def _check_living(tx: Transaction, user: str, *, but: bool) -> None:
    """Refuse a user who has as many leases as one may; ``but``: one of them makes way for the new one."""
    living = len(tx.book.living.of(user)) - but
    if living >= tx.caps.living:
        raise TooMany(
            f"You already have {living} leases, and the limit is {tx.caps.living} for each person.\n"
            "Shut down kernels that you do not need, or choose 'Python 3' to work without a GPU.",
            details={"held": living, "limit": tx.caps.living},
        )


def _check_queue(tx: Transaction, user: str) -> None:
    """Refuse to queue where the queue, or the user's part of it, is full."""
    waiting = tx.book.waiting
    own = sum(lease.state == State.QUEUED for lease in tx.book.living.of(user).values())
    if own >= tx.caps.queued:
        raise TooMany(
            f"You already wait for {own} leases, and the limit is {tx.caps.queued} for each person.\n"
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


def _ask_again(tx: Transaction, lease: Lease, request: LeaseRequest, body_hash: str) -> Lease:
    """The same key: the same lease, for the newest asker."""
    if lease.body_hash != body_hash:
        raise KeyReused(
            f"This request's key belongs to a lease of {lease.size} for {lease.path or 'another use'} "
            f"({lease.course}), which still lives.\n"
            "Use another key, or release that lease first.",
            details={"lease": lease.id},
        )
    newest: dict[str, Any] = {"holder": request.holder, "labels": dict(request.labels)}
    if lease.state == State.QUEUED:
        newest |= {"asked_at": tx.now, "give_up_at": max(lease.give_up_at, tx.now + request.wait_ms)}
    else:
        newest["expires_at"] = tx.now + tx.timing.lease_ttl
    return tx.change(lease, **newest)


def _new_lease(tx: Transaction, request: LeaseRequest, course: str, body_hash: str, turn: int) -> Lease:
    return Lease(
        id=secrets.token_hex(16),
        state="",
        place=None,
        user=request.user,
        course=course,
        size=request.size,
        key=request.key,
        live_key=request.key,
        body_hash=body_hash,
        server=request.server,
        path=request.path,
        holder=request.holder,
        labels=dict(request.labels),
        preemptible=request.preemptible,
        turn=turn,
        created_at=tx.now,
        asked_at=tx.now,
        give_up_at=tx.now + request.wait_ms,
    )


def _disturbs_nobody(lease: Lease, waiting: Lease) -> bool:
    """Whether those behind ``waiting`` are served no later if ``lease`` stands in its stead."""
    return (
        lease.course == waiting.course
        and (lease.preemptible or not waiting.preemptible)
        and no_more_than(lease.size, waiting.size)
    )


def _in_its_stead(lease: Lease, waiting: Lease) -> Lease:
    """With the place in the line of the slot's last request: its turn, since when it waits, its promise."""
    return replace(
        lease,
        turn=waiting.turn,
        created_at=waiting.created_at,
        promised_at=waiting.promised_at,
        ends_at=waiting.ends_at,
    )


def _queue_or_refuse(
    tx: Transaction, lease: Lease, request: LeaseRequest, in_slot: Sequence[Lease], verdict: Verdict
) -> Lease:
    """``in_slot``: the slot's replaced and current leases, in this order."""
    assert verdict.refusal is not None
    coming = coming_seats(tx, lease)
    if request.wait_ms <= 0:
        raise verdict.refusal if not coming else not_clear_yet(lease.course, coming)
    turn = turn_if_ended_for_the_new(tx, lease, in_slot) if in_slot else None
    if turn is not None:
        end_all(tx, in_slot, who_asked=request.user, reason=REPLACED)
    elif not (verdict.may_wait or coming or _waits_for_course(request, verdict)):
        raise verdict.refusal
    else:
        turn = lease.turn
    _check_queue(tx, request.user)
    queued = move(
        tx,
        lease,
        State.QUEUED,
        who=Who.REQUEST,
        actor=request.user,
        place=str(Place.WAITING),
        turn=turn,
        promised_at=tx.now if turn < lease.turn else lease.promised_at,
        ends_at=in_slot[-1].ends_at if turn < lease.turn and _somebody_is_promised(tx) else lease.ends_at,
    )
    if queued.promised_at is not None:
        advance_queue(tx)
    return tx.book.leases[queued.id]


def _waits_for_course(request: LeaseRequest, verdict: Verdict) -> bool:
    return request.wait_for_course and worth_waiting(verdict.facts, for_course=True)


def _somebody_is_promised(tx: Transaction) -> bool:
    """Whether a promise may reckon with the end of the slot's lease: then the new one takes over that too."""
    return any(waiting.promised_at is not None for waiting in tx.book.waiting)


def _body_hash(request: LeaseRequest, course: str) -> str:
    """What must be the same for the same key. Who holds it and how long to wait may differ."""
    body = [str(request.size), course, request.server, request.path]
    return hashlib.sha256(json.dumps(body).encode()).hexdigest()
