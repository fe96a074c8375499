"""What is over by the clock ends: called once an interval."""

from __future__ import annotations

from gpu_kernels.pool.ledger.commands.class_hours.windows import advance
from gpu_kernels.pool.ledger.commands.expiry import end_over, leave_the_queue
from gpu_kernels.pool.ledger.commands.idle import reclaim
from gpu_kernels.pool.ledger.commands.servers import empty_servers, free_fenced
from gpu_kernels.pool.ledger.state.states import IN_FORCE
from gpu_kernels.pool.ledger.transaction import Transaction

SWEEP_BATCH = 200
"""At most so many leases end in one transaction, so that a mass expiry does not hold up everything else."""


def sweep(tx: Transaction) -> int:
    """End what is over by the store's clock; how many leases that were."""
    ended = 0
    for lease_id in tx.book.over.by(tx.now, SWEEP_BATCH):
        lease = tx.book.leases[lease_id]
        if lease.state in IN_FORCE:
            end_over(tx, lease)
            ended += 1
    ended += leave_the_queue(tx)
    ended += empty_servers(tx, SWEEP_BATCH - ended)
    free_fenced(tx)
    ended += reclaim(tx, SWEEP_BATCH - ended)
    if len(tx.book.waiting):
        tx.capacity_changed()  # time alone moves the queue: promises are given to who has waited long
    return ended + advance(tx)
