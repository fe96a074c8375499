"""The waiting requests as the policy last saw them, so that each decision need not make them anew."""

from __future__ import annotations

from gpu_kernels.pool.ledger.state.rows import Lease
from gpu_kernels.pool.policy.model import Ask


class Asks:
    """A follower of leases. Each request is kept with the row that it was made of."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[Lease, Ask]] = {}

    def change(self, before: Lease | None, after: Lease | None) -> None:
        if before is not None:
            self._made.pop(before.id, None)

    def keep(self, lease: Lease, ask: Ask) -> Ask:
        self._made[lease.id] = (lease, ask)
        return ask

    def of(self, lease: Lease) -> Ask | None:
        """What was made of this very row."""
        known = self._made.get(lease.id)
        return known[1] if known is not None and known[0] is lease else None
