"""A lease's time is over: it was not renewed, lived its longest life, or waited for as long as it may."""

from __future__ import annotations

from gpu_kernels.pool.ledger.commands.termination import (
    ASK_ANEW,
    NOT_RENEWED,
    NOTHING_FREE,
    REPLACED,
    STOPPED_ASKING,
    expire,
    revoke,
)
from gpu_kernels.pool.ledger.state.rows import Lease
from gpu_kernels.pool.ledger.state.states import IN_FORCE, Place, Who
from gpu_kernels.pool.ledger.transaction import Transaction

LIFE_OVER = f"Taken back: it had reached the longest life that a slice may have.\n{ASK_ANEW}"


def is_over(tx: Transaction, lease: Lease) -> bool:
    """Whether a lease in force is over by the clock, swept already or not."""
    return lease.state in IN_FORCE and (
        (lease.expires_at or 0) <= tx.now or (lease.ends_at is not None and lease.ends_at <= tx.now)
    )


def end_over(tx: Transaction, lease: Lease) -> Lease:
    """End a lease in force that is over by the clock, for the reason that holds."""
    if (lease.expires_at or 0) <= tx.now:
        return expire(tx, lease, REPLACED if lease.place == Place.REPLACED else NOT_RENEWED)
    return revoke(tx, lease, who=Who.DECISION, actor="clock", reason=LIFE_OVER)


def leave_the_queue(tx: Transaction) -> int:
    ended = 0
    for lease in list(tx.book.waiting):
        if lease.asked_at + tx.timing.queue_ttl <= tx.now:
            expire(tx, lease, STOPPED_ASKING)
            ended += 1
        elif lease.give_up_at <= tx.now:
            expire(tx, lease, NOTHING_FREE)
            ended += 1
    return ended
