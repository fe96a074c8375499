"""What a block is given that holds a lease."""

from __future__ import annotations

from gpu_kernels.client.answers import Lease
from gpu_kernels.client.holding import Holding


class Leased:
    """A lease that is being kept. ``lease`` is what the controller granted: slices, secret, address."""

    def __init__(self, holding: Holding) -> None:
        assert holding.lease is not None
        self.lease: Lease = holding.lease
        self._holding = holding

    @property
    def id(self) -> str:
        return self.lease.id

    @property
    def trusted_for(self) -> float:
        """Seconds for which the lease can be relied upon without another word from the controller; 0 once
        it is lost.
        """
        return self._holding.trusted_for

    @property
    def lost(self) -> str | None:
        """Why the lease is lost, None while it is not."""
        return self._holding.lost

    def check(self) -> None:
        """Raises ``LeaseLost`` if the lease cannot be relied upon any more."""
        self._holding.check()

    def __repr__(self) -> str:
        state = "lost" if self.lost is not None else f"trusted for {self.trusted_for:.0f} s"
        return f"<{self.lease.size} of {self.lease.course}, lease {self.lease.id}, {state}>"
