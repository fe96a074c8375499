"""One pass over those who wait: seats for members of a class that is on, then what the policy grants."""

from __future__ import annotations

from dataclasses import replace

from gpu_kernels.pool.ledger.commands.grants import grant
from gpu_kernels.pool.ledger.commands.seats import seat_for
from gpu_kernels.pool.ledger.queries.scene import ask, scene_of
from gpu_kernels.pool.ledger.state.rows import Lease
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy import why
from gpu_kernels.pool.policy.model import Placement, Verdict
from gpu_kernels.pool.policy.queue import Decision, decide


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
