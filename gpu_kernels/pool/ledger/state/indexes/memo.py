"""What was worked out of the leases that hold slices, for as long as it is right: many decisions of one batch
look at all of them.
"""

from __future__ import annotations

from typing import Any

from gpu_kernels.pool.ledger.state.rows import Lease
from gpu_kernels.pool.ledger.state.states import ENDING, HOLDING


class Memo:
    """A follower of leases. Everything is forgotten when a lease comes to hold slices, holds them no more, or
    changes when and how it does; renewals and reports change nothing of that.
    """

    def __init__(self) -> None:
        self._now = 0
        self._found: dict[Any, Any] = {}

    def change(self, before: Lease | None, after: Lease | None) -> None:
        if self._found and _holds(before) != _holds(after):
            self._found = {}

    def at(self, now: int) -> dict[Any, Any]:
        """What was found at this time so far, by what it is; to be added to."""
        if now != self._now:
            self._now, self._found = now, {}
        return self._found


def _holds(lease: Lease | None) -> tuple[object, ...] | None:
    if lease is None or lease.state not in HOLDING:
        return None
    return lease.state in ENDING, lease.place, lease.ends_at, lease.preempt_at, lease.window
