"""What a block is given that holds a lease."""

from __future__ import annotations

from gpu_kernels.client.lease_holder import LeaseHolder
from gpu_kernels.resources.leases import Lease


class Leased:
    """A lease that is being renewed while its block runs. ``lease`` is what the controller granted: slices,
    secret, address.
    """

    def __init__(self, holder: LeaseHolder) -> None:
        assert holder.lease is not None
        self.lease: Lease = holder.lease
        self._holder = holder

    @property
    def id(self) -> str:
        """The lease's id."""
        return self.lease.id

    @property
    def trusted_for(self) -> float:
        """Seconds for which the lease can be relied upon without another word from the controller; 0 once
        it is lost.
        """
        return self._holder.trusted_for

    @property
    def lost(self) -> str | None:
        """Why the lease is lost, None while it is not."""
        return None if self._holder.loss is None else self._holder.loss.text

    def check(self) -> None:
        """Raises ``LeaseLost`` if the lease cannot be relied upon any more."""
        self._holder.check()

    def __repr__(self) -> str:
        state = "lost" if self.lost is not None else f"trusted for {self.trusted_for:.0f} s"
        return f"<{self.lease.size} of {self.lease.course}, lease {self.lease.id}, {state}>"
