"""A user's requests: reserve, wait, renew, release."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpu_kernels.errors import KeyReused, TooMany, UnknownLease
from gpu_kernels.pool.ledger.accounts import resolve_course
from gpu_kernels.pool.ledger.ending import REPLACED, drain, end_all
from gpu_kernels.pool.ledger.granting import advance_queue
from gpu_kernels.pool.ledger.rows import Lease
from gpu_kernels.pool.ledger.scene import ask_without_overlap, counted, next_turn, scene_of, size_of
from gpu_kernels.pool.ledger.seats import coming_seats, not_clear_yet, own_seat_would_do
from gpu_kernels.pool.ledger.states import IN_FORCE, LIVE, Place, State, Who, move
from gpu_kernels.pool.ledger.sweeping import end_over, is_over
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.model import Placement, Verdict
from gpu_kernels.pool.policy.queue import Pass, worth_waiting
from gpu_kernels.units import Size, Slice, no_more_than


@dataclass(frozen=True, slots=True)
class Wish:
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


def reserve(tx: Transaction, wish: Wish) -> Lease:
    """The lease of the wish: one that lives already, a new one, or a queued one.

    Raises what the policy refuses, ``KeyReused``, and what ``resolve_course`` raises; a refusal changes
    nothing.
    """
    course = resolve_course(tx, wish.user, wish.groups, wish.course)
    body_hash = _body_hash(wish, course)
    same = tx.book.by_live_key.get((wish.user, wish.key))
    if same is not None and is_over(tx, same):
        end_over(tx, same)
        same = tx.book.by_live_key.get((wish.user, wish.key))
    if same is not None:
        return _ask_again(tx, same, wish, body_hash)
    places = tx.book.in_slot(wish.user, wish.server, wish.path)
    waiting = places.get(Place.WAITING)
    if waiting is not None:
        drain(tx, waiting, who_asked=wish.user, reason=REPLACED)
    _check_living(tx, wish.user, but=Place.CURRENT in places)
    lease = _new_lease(tx, wish, course, body_hash, next_turn(tx))
    if waiting is not None and _disturbs_nobody(lease, waiting):
        lease = _in_its_stead(lease, waiting)
    verdict = advance_queue(tx, lease)
    assert verdict is not None
    if verdict.placement is not None:
        return tx.book.leases[lease.id]
    places = tx.book.in_slot(wish.user, wish.server, wish.path)
    in_slot = [places[place] for place in (Place.REPLACED, Place.CURRENT) if place in places]
    return _queue_or_refuse(tx, lease, wish, in_slot, verdict)


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


def _ask_again(tx: Transaction, lease: Lease, wish: Wish, body_hash: str) -> Lease:
    """The same key: the same lease, for the newest asker."""
    if lease.body_hash != body_hash:
        raise KeyReused(
            f"This request's key belongs to a lease of {lease.size} for {lease.path or 'another use'} "
            f"({lease.course}), which still lives.\n"
            "Use another key, or release that lease first.",
            details={"lease": lease.id},
        )
    newest: dict[str, Any] = {"holder": wish.holder, "labels": dict(wish.labels)}
    if lease.state == State.QUEUED:
        newest |= {"asked_at": tx.now, "give_up_at": max(lease.give_up_at, tx.now + wish.wait_ms)}
    else:
        newest["expires_at"] = tx.now + tx.timing.lease_ttl
    return tx.change(lease, **newest)


def _new_lease(tx: Transaction, wish: Wish, course: str, body_hash: str, turn: int) -> Lease:
    return Lease(
        id=secrets.token_hex(16),
        state="",
        place=None,
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
        preemptible=wish.preemptible,
        turn=turn,
        created_at=tx.now,
        asked_at=tx.now,
        give_up_at=tx.now + wish.wait_ms,
    )


def _disturbs_nobody(lease: Lease, waiting: Lease) -> bool:
    """Whether those behind ``waiting`` are served no later if ``lease`` stands in its stead."""
    return (
        lease.course == waiting.course
        and (lease.preemptible or not waiting.preemptible)
        and no_more_than(size_of(lease.size), size_of(waiting.size))
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
    tx: Transaction, lease: Lease, wish: Wish, in_slot: Sequence[Lease], verdict: Verdict
) -> Lease:
    """``in_slot``: the slot's replaced and current leases, in this order."""
    assert verdict.refusal is not None
    coming = coming_seats(tx, lease)
    if wish.wait_ms <= 0:
        raise verdict.refusal if not coming else not_clear_yet(lease.course, coming)
    turn = _turn_if_ended_for_the_new(tx, lease, in_slot) if in_slot else None
    if turn is not None:
        end_all(tx, in_slot, who_asked=wish.user, reason=REPLACED)
    elif not (verdict.may_wait or coming or _waits_for_course(wish, verdict)):
        raise verdict.refusal
    else:
        turn = lease.turn
    _check_queue(tx, wish.user)
    queued = move(
        tx,
        lease,
        State.QUEUED,
        who=Who.REQUEST,
        actor=wish.user,
        place=str(Place.WAITING),
        turn=turn,
        promised_at=tx.now if turn < lease.turn else lease.promised_at,
        ends_at=in_slot[-1].ends_at if turn < lease.turn and _somebody_is_promised(tx) else lease.ends_at,
    )
    if queued.promised_at is not None:
        advance_queue(tx)
    return tx.book.leases[queued.id]


def _waits_for_course(wish: Wish, verdict: Verdict) -> bool:
    return wish.wait_for_course and worth_waiting(verdict.facts, for_course=True)


def _somebody_is_promised(tx: Transaction) -> bool:
    """Whether a promise may reckon with the end of the slot's lease: then the new one takes over that too."""
    return any(waiting.promised_at is not None for waiting in tx.book.waiting)


def _turn_if_ended_for_the_new(tx: Transaction, lease: Lease, in_slot: Sequence[Lease]) -> int | None:
    """The new lease's turn, if the user's own leases of the slot are all that stands in its way; or None.

    Then they are ended, and the new one waits for their slices. A new lease that takes no more than the
    current one also takes over its turn, and is promised what comes free, so that nobody gets in between.
    """
    if own_seat_would_do(tx, lease, in_slot):
        return in_slot[-1].turn
    placement = _place_without(tx, lease, in_slot)
    if placement is None:
        return None
    current = in_slot[-1]
    if (
        placement.gpu_class == current.gpu_class
        and placement.thousandths <= current.thousandths
        and placement.mib <= sum(part.mib for part in tx.book.parts(current))
    ):
        return current.turn
    return None if len(tx.book.waiting) else lease.turn


def _place_without(tx: Transaction, lease: Lease, in_slot: Sequence[Lease]) -> Placement | None:
    """Where the new lease would go if the leases in its slot held nothing."""
    scene = scene_of(tx, lease)
    with scene.index.trial(), scene.tree.trial():
        for old in in_slot:
            for part in tx.book.parts(old):
                if (gpu := scene.index.gpu(part.gpu_id)) is not None:
                    scene.index.put(gpu.without_part(Slice(part.mib, part.thousandths)))
            scene.tree.add_use(old.course, old.gpu_class or "", -counted(tx, old))
        return Pass(scene).look(ask_without_overlap(tx, lease)).placement


def keep_waiting(tx: Transaction, user: str, lease_id: str) -> Lease:
    """Note that the owner of a queued lease still waits for it; the lease as it is now."""
    lease = owned(tx, user, lease_id)
    return tx.change(lease, asked_at=tx.now) if lease.state == State.QUEUED else lease


@dataclass(frozen=True, slots=True)
class Renewal:
    """``renewed``: milliseconds left, by lease id. ``lost``: (id, state, reason)."""

    renewed: Mapping[str, int]
    lost: tuple[tuple[str, str, str], ...]


def renew(
    tx: Transaction,
    user: str,
    leases: Iterable[tuple[str, int]],
    is_for: Callable[[Lease], bool] = lambda lease: True,
) -> Renewal:
    """Give leases in force a whole time to live from now. One that is over stays over, swept already or
    not. ``is_for``: whether the asker's token is for the lease; one that it is not for is not known.
    """
    renewed: dict[str, int] = {}
    lost: list[tuple[str, str, str]] = []
    for lease_id, epoch in sorted(dict(leases).items()):
        lease = tx.book.leases.get(lease_id)
        if lease is None or lease.user != user or lease.epoch != epoch or not is_for(lease):
            lost.append((lease_id, "unknown", "There is no such lease of this epoch."))
            continue
        if is_over(tx, lease):
            lease = end_over(tx, lease)
        if lease.state not in IN_FORCE:
            lost.append((lease_id, lease.state, lease.reason or ""))
            continue
        until = tx.now + tx.timing.lease_ttl
        if lease.place == Place.REPLACED:
            last = (lease.replaced_at or tx.now) + tx.timing.lease_ttl
            until = max(lease.expires_at or 0, min(until, last))
        tx.change(lease, expires_at=until)
        renewed[lease_id] = until - tx.now
    return Renewal(renewed, tuple(lost))


def release(tx: Transaction, user: str, lease_id: str, holder: str) -> Lease:
    """End the lease if ``holder`` still is its holder; otherwise nothing changes. Repeating it is
    harmless.
    """
    lease = owned(tx, user, lease_id)
    if lease.holder == holder and lease.state in LIVE:
        return drain(tx, lease, who_asked=user)
    return lease


def release_server(tx: Transaction, user: str, server: str, who_asked: str) -> list[Lease]:
    """End everything that the user's Jupyter server holds or waits for."""
    # The current one last: ending it first would restore the lease that it had replaced.
    leases = sorted(
        tx.book.of_server.of((user, server)).values(),
        key=lambda lease: (lease.place == Place.CURRENT, lease.id),
    )
    return end_all(tx, leases, who_asked=who_asked, reason="The Jupyter server stopped.")


def find(tx: Transaction, lease_id: str) -> Lease | None:
    """A lease by its id, from the store where it has left the book."""
    lease = tx.book.leases.get(lease_id)
    if lease is None:
        ended = tx.store.find_lease(lease_id)
        return None if ended is None else ended.lease
    return lease


def owned(tx: Transaction, user: str, lease_id: str) -> Lease:
    """The user's lease; another user's is as unknown as one that does not exist."""
    lease = find(tx, lease_id)
    if lease is None or lease.user != user:
        raise unknown(lease_id)
    return lease


def unknown(lease_id: str) -> UnknownLease:
    """What who does not own a lease reads, whether or not there is one."""
    return UnknownLease(
        f"There is no lease {lease_id[:40]!r} of yours.\n"
        "It ended so long ago that it is forgotten, or is somebody else's. Look at the list of yours."
    )


def _body_hash(wish: Wish, course: str) -> str:
    """What must be the same for the same key. Who holds it and how long to wait may differ."""
    body = [str(wish.size), course, wish.server, wish.path]
    return hashlib.sha256(json.dumps(body).encode()).hexdigest()
