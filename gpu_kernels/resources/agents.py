"""GPU servers: what they report, and what they are told to serve."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from gpu_kernels.resources.base import Count, Resource
from gpu_kernels.resources.leases import LeaseSlice


class AssignedLease(Resource, frozen=True):
    """A lease that the agent should serve; `expires_in` is how long it may do so without another word."""

    id: str
    epoch: Count
    secret_sha256: Annotated[str, Meta(description="SHA-256 of the secret's 32 bytes")]
    expires_in: float
    slices: tuple[LeaseSlice, ...]


class Assignment(Resource, frozen=True):
    """Everything that the agent should serve: `leases`; or `changes` since its `target_seq`, and the others'
    names. What is not named must not live. `incarnation` is the ledger that counts `target_seq`.
    """

    target_seq: Count
    leases: tuple[AssignedLease, ...] | UnsetType = UNSET
    incarnation: str = ""
    changes: tuple[AssignedLease, ...] | UnsetType = UNSET
    lives: (
        tuple[Annotated[tuple[str, int, float], Meta(description="id, epoch, expires_in")], ...] | UnsetType
    ) = UNSET
    held: Annotated[
        float,
        Meta(
            description="The seconds, at least, that the request was here before each `expires_in` was "
            "counted"
        ),
    ] = 0.0

    def __post_init__(self) -> None:
        """Raises ``ValueError`` where a list is missing: an agent would end all that it does not name."""
        if (self.leases is UNSET) == (self.changes is UNSET) or (self.changes is UNSET) != (
            self.lives is UNSET
        ):
            raise ValueError("an assignment has `leases`, or `changes` and `lives`")

    @property
    def in_full(self) -> bool:
        return self.leases is not UNSET

    @property
    def told(self) -> tuple[AssignedLease, ...]:
        """The leases that are told in full."""
        return (self.changes or ()) if self.leases is UNSET else self.leases
