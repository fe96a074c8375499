"""Giving slices out: to a new request, and to those who wait."""

from __future__ import annotations

from dataclasses import replace

from gpu_kernels.pool.ledger.capacity import adopted
from gpu_kernels.pool.ledger.ending import REPLACED, drain
from gpu_kernels.pool.ledger.fair_shares import settle
from gpu_kernels.pool.ledger.rows import Lease, Slice
from gpu_kernels.pool.ledger.scene import ask, life_of, may_overlap, scene_of
from gpu_kernels.pool.ledger.seats import seat_for
from gpu_kernels.pool.ledger.states import Place, State, Who, move
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy import why
from gpu_kernels.pool.policy.model import Placement, Verdict
from gpu_kernels.pool.policy.queue import Decision, decide


def grant(tx: Transaction, lease: Lease, placement: Placement) -> tuple[Lease, bool]:
    """Give the lease its slices: they count from here on, and its epoch is the newest of its agent.

    The lease as it is now, and whether it overlaps the lease that it replaces.
    """
    overlaps = _take_the_slot(tx, lease)
    agent = tx.book.agents[placement.agent]
    agent = tx.change(agent, epoch=agent.epoch + 1, target_seq=agent.target_seq + 1)
    first = tx.book.gpus[placement.parts[0][0].id]
    lease = move(
        tx,
        lease,
        State.RESERVED,
        who=Who.DECISION,
        actor=lease.user,
        place=str(Place.CURRENT),
        agent_name=agent.name,
        epoch=agent.epoch,
        start_seq=agent.target_seq,
        gpu_class=placement.gpu_class,
        device=first.device,
        thousandths=placement.thousandths,
        granted_at=tx.now,
        expires_at=tx.now + tx.timing.lease_ttl,
        ends_at=tx.now + life_of(tx, lease),
        preempt_at=placement.preempt_at,
        promised_at=None,
    )
    settle(tx, lease, placement.gpu_class, placement.thousandths)
    for gpu, part in placement.parts:
        row = tx.book.gpus[gpu.id]
        tx.put(
            adopted(
                row,
                used_mib=row.used_mib + part.mib,
                used_thousandths=row.used_thousandths + part.thousandths,
            )
        )
        tx.put(
            Slice(
                lease_id=lease.id,
                gpu_id=row.id,
                gpu_uuid=row.uuid,
                gpu_class=placement.gpu_class,
                user=lease.user,
                course=lease.course,
                mib=part.mib,
                thousandths=part.thousandths,
                started_at=tx.now,
            )
        )
    tx.agent_changed(agent.name)
    return lease, overlaps


def _take_the_slot(tx: Transaction, lease: Lease) -> bool:
    """Free the slot for ``lease``; True when the lease in it may live on for one time to live.

    See "Swapping" in docs/design/pool.md for the bound that this keeps.
    """
    places = tx.book.in_slot(lease.user, lease.server, lease.path)
    if Place.REPLACED in places:
        drain(tx, places[Place.REPLACED], who_asked=lease.user, reason=REPLACED)
    old = places.get(Place.CURRENT)
    if old is None:
        return False
    if not may_overlap(tx, lease.user):
        drain(tx, old, who_asked=lease.user, reason=REPLACED)
        return False
    tx.change(
        old,
        place=str(Place.REPLACED),
        live_key=None,
        replaced_at=tx.now,
        expires_at=min(old.expires_at or tx.now, tx.now + tx.timing.lease_ttl),
    )
    tx.event(lease.user, "replaced", old.id, {"by": lease.id})
    return True


def advance_queue(tx: Transaction, newest: Lease | None = None) -> Verdict | None:
    """Grant what can be granted, in the order of the queue; the verdict on ``newest``, with the refusal for
    who asks just now where it was not granted.

    ``newest`` is not yet in the book: a refusal leaves no trace of it.
    """
    leases = {lease.id: lease for lease in tx.book.waiting}
    if newest is not None:
        leases[newest.id] = newest
    seated = _seat_members(tx, leases)
    verdict: Verdict | None = None
    if newest is not None and newest.id in seated:
        verdict = Verdict(placement=seated[newest.id])
    tx.line = ()
    while leases:
        scene = scene_of(tx, newest)
        asks = {lease.id: ask(tx, lease) for lease in leases.values()}
        explained = frozenset(() if newest is None else (newest.id,))
        decision = decide(asks.values(), scene, explained)
        if newest is not None and newest.id in decision.verdicts:
            verdict = decision.verdicts[newest.id]
            if verdict.placement is None:
                verdict = replace(verdict, refusal=why.refusal(asks[newest.id], verdict, scene))
        if not _grant_until_an_overlap(tx, leases, decision):
            _note_promises(tx, decision)
            tx.line = decision.waiting
            break
    return verdict


def _seat_members(tx: Transaction, leases: dict[str, Lease]) -> dict[str, Placement]:
    """Grant the seats of classes that are on to members who ask for one; they leave ``leases``."""
    seated: dict[str, Placement] = {}
    courses = {span.course for span in tx.book.agenda.in_lead(tx.now)}
    members = [lease for lease in leases.values() if lease.course in courses] if courses else []
    for lease in sorted(members, key=lambda lease: (lease.turn, lease.id)):
        found = seat_for(tx, lease)
        if found is not None:
            grant(tx, *found)
            del leases[lease.id]
            seated[lease.id] = found[1]
    return seated


def _grant_until_an_overlap(tx: Transaction, leases: dict[str, Lease], decision: Decision) -> bool:
    """Grant in order; True when it stopped early and the rest must be judged anew.

    An overlap of two leases is a user's only one for a while, so it changes what the user's other requests
    count.
    """
    for lease_id, placement in decision.granted.items():
        _, overlaps = grant(tx, leases.pop(lease_id), placement)
        if overlaps:
            return True
    return False


def _note_promises(tx: Transaction, decision: Decision) -> None:
    """Keep who holds a promise, and since when: it is served before all others. A request that took over the
    turn of its slot's last lease keeps the promise of that one's slices.
    """
    for lease_id in decision.waiting:
        lease = tx.book.leases.get(lease_id)
        if lease is None or lease.turn < lease.created_at:
            continue
        holds = lease_id in decision.promises or (
            lease.promised_at is not None and lease_id in decision.claims
        )
        if holds != (lease.promised_at is not None):
            tx.change(lease, promised_at=tx.now if holds else None)


def settle_queue(tx: Transaction) -> None:
    """Run the queue until nothing in it moves; every batch ends with this."""
    while tx.queue_may_move:
        tx.queue_may_move = False
        advance_queue(tx)
