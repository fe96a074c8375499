"""A second lease for a slot: what becomes of the one that is there. See "Swapping" in docs/design/pool.md."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_kernels.pool.ledger.commands.seats import own_seat_would_do
from gpu_kernels.pool.ledger.commands.termination import REPLACED, drain
from gpu_kernels.pool.ledger.queries.scene import ask_without_overlap, counted, may_overlap, scene_of
from gpu_kernels.pool.ledger.state.rows import Lease
from gpu_kernels.pool.ledger.state.states import Place
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.model import Placement
from gpu_kernels.pool.policy.queue import Pass
from gpu_kernels.units import Slice


def take_the_slot(tx: Transaction, lease: Lease) -> bool:
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


def turn_if_ended_for_the_new(tx: Transaction, lease: Lease, in_slot: Sequence[Lease]) -> int | None:
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
