"""Giving slices out: to a new request, and to those who wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import insert

from gpu_kernels.pool.ledger import models, snapshot
from gpu_kernels.pool.ledger.ending import REPLACED, drain
from gpu_kernels.pool.ledger.models import Lease, LeaseSlice, Usage
from gpu_kernels.pool.ledger.states import Place, State, Who, move
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy import queue
from gpu_kernels.pool.policy.model import Placement, Verdict

NEW_ACCOUNTS = insert(Usage.__table__)  # type: ignore[arg-type]


def grant(tx: Transaction, lease: Lease, placement: Placement) -> bool:
    """Give the lease its slices: they count from here on, and its epoch is the newest of its agent.

    True when it overlaps the lease that it replaces.
    """
    overlaps = _take_the_slot(tx, lease)
    agent = tx.session.get_one(models.Agent, placement.agent)
    agent.epoch += 1
    agent.target_seq += 1
    lease.agent = agent
    lease.epoch = agent.epoch
    lease.place = Place.CURRENT
    lease.gpu_class = placement.gpu_class
    lease.thousandths = placement.thousandths
    lease.granted_at = tx.now
    lease.expires_at = tx.now + tx.timing.lease_ttl
    for gpu, part in placement.parts:
        row = tx.session.get_one(models.Gpu, gpu.id)
        lease.device = row.device
        row.used_mib += part.mib
        row.used_thousandths += part.thousandths
        lease.slices.append(
            LeaseSlice(lease_id=lease.id, gpu=row, mib=part.mib, thousandths=part.thousandths)
        )
    _open_accounts(tx, lease)
    move(tx, lease, State.RESERVED, who=Who.DECISION, actor=lease.user)
    tx.agent_changed(agent.name)
    tx.session.add(lease)
    snapshot.join_slot(tx, lease)
    tx.session.flush()
    return overlaps


def _open_accounts(tx: Transaction, lease: Lease) -> None:
    accounts = [
        {
            "lease_id": lease.id,
            "user": lease.user,
            "course": lease.course,
            "gpu_class": part.gpu.gpu_class,
            "gpu_uuid": part.gpu.uuid,
            "mib": part.mib,
            "thousandths": part.thousandths,
            "started_at": tx.now,
        }
        for part in lease.slices
    ]
    tx.session.connection().execute(NEW_ACCOUNTS, accounts)


def _take_the_slot(tx: Transaction, lease: Lease) -> bool:
    """Free the slot for ``lease``; True when the lease in it may live on for one time to live.

    See "Swapping" in docs/design/pool.md for the bound that this keeps.
    """
    places = snapshot.in_slot(tx, lease.user, lease.server, lease.path)
    if Place.REPLACED in places:
        drain(tx, places[Place.REPLACED], who_asked=lease.user, reason=REPLACED)
    old = places.get(Place.CURRENT)
    if old is None:
        return False
    if not snapshot.may_overlap(tx, lease.user):
        drain(tx, old, who_asked=lease.user, reason=REPLACED)
        return False
    old.place = Place.REPLACED
    old.live_key = None
    old.replaced_at = tx.now
    old.expires_at = min(old.expires_at or tx.now, tx.now + tx.timing.lease_ttl)
    tx.event(lease.user, "replaced", old.id, {"by": lease.id})
    tx.session.flush()  # the old lease leaves its place before the new one takes it
    return True


def advance_queue(tx: Transaction, waiting: Sequence[Lease], newest: Lease | None = None) -> Verdict | None:
    """Grant what can be granted, in the order of the queue; the verdict on ``newest``, which joins it last.

    ``newest`` is not yet in the database: a refusal leaves no trace of it.
    """
    leases = {lease.id: lease for lease in waiting}
    if newest is not None:
        leases[newest.id] = newest
    verdict: Verdict | None = None
    while leases:
        verdicts = _decide(tx, leases)
        if newest is not None and newest.id in verdicts:
            verdict = verdicts[newest.id]
        if not _grant_until_an_overlap(tx, leases, verdicts):
            break
    return verdict


def _decide(tx: Transaction, leases: Mapping[str, Lease]) -> dict[str, Verdict]:
    asks = [snapshot.ask(tx, lease) for lease in leases.values()]
    courses = {name: snapshot.course(tx, name) for name in {lease.course for lease in leases.values()}}
    return queue.decide(asks, snapshot.gpus(tx), courses)


def _grant_until_an_overlap(
    tx: Transaction, leases: dict[str, Lease], verdicts: Mapping[str, Verdict]
) -> bool:
    """Grant in order; True when it stopped early and the rest must be judged anew.

    An overlap of two leases is a user's only one for a while, so it changes what the user's other requests
    count.
    """
    for lease_id, placement in queue.granted(verdicts).items():
        if grant(tx, leases.pop(lease_id), placement):
            return True
    return False


def settle_queue(tx: Transaction) -> None:
    """Run the queue until nothing in it moves; every transaction ends with this."""
    while tx.queue_may_move:
        tx.queue_may_move = False
        advance_queue(tx, snapshot.waiting(tx))
