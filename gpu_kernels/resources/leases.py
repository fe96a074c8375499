"""Leases, and what becomes of them."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from gpu_kernels.resources.base import Count, Id, Instant, Next, Resource, Thousandths, one_of

STATES = (
    "queued", "reserved", "active", "draining", "quarantined", "released", "expired", "revoked", "freed",
)  # fmt: skip
IN_FORCE = ("reserved", "active")
"""States in which the owner may use the slices."""


class Slot(Resource, frozen=True):
    """What a lease is for; `server` is the user's Jupyter server, empty for the hub's default one."""

    server: str
    path: str


class LeaseSlice(Resource, frozen=True):
    """What a lease has of one GPU; `index` is the GPU's number on its server."""

    gpu: Annotated[str, Meta(description="UUID of the GPU")]
    index: int
    mib: int
    thousandths: Thousandths


class LeaseAgent(Resource, frozen=True):
    """The GPU server of a lease."""

    name: str
    address: str


class Use(Resource, frozen=True):
    """What the lease's agent last reported."""

    used_mib: int = 0
    peak_mib: int = 0
    sessions: int = 0
    launches: int = 0
    idle: Annotated[
        float | None, Meta(description="Seconds since something was launched, while it is in force")
    ] = None


class Lease(Resource, frozen=True, kw_only=True):
    """A lease. `gpu_class`, `device` and `agent` are null until it is granted."""

    id: Id
    state: Annotated[str, one_of(STATES)]
    epoch: Count
    user: str
    course: str
    size: str
    gpu_class: str | None
    device: str | None
    slot: Slot
    holder: str
    slices: tuple[LeaseSlice, ...]
    agent: LeaseAgent | None
    secret: Annotated[
        str | None,
        Meta(
            description="64 hex digits for its owner while it is in force: proves to the agent who holds it"
        ),
    ] = None
    position: Annotated[int | None, Meta(description="Counts from 1 while it is queued")]
    starts_in: Annotated[
        float | None,
        Meta(
            description="Seconds until it is granted by what is known now, while it is queued; null where "
            "nobody knows; up to 15 seconds old"
        ),
    ] = None
    expires_in: Annotated[
        float | None, Meta(description="Seconds until it ends unless renewed, while it is in force")
    ]
    ttl: Annotated[float, Meta(description="Seconds that it lives after a renewal")]
    ends_in: Annotated[
        float | None,
        Meta(
            description="Seconds until its longest life is over, however it is renewed, while it is in force"
        ),
    ] = None
    preempt_in: Annotated[
        float | None,
        Meta(description="Seconds until it makes way for a class hour, where it must while it may live"),
    ] = None
    class_hour: Annotated[
        str | None, Meta(description="The class hour whose seat it has, while the class is on")
    ] = None
    reason: str | None
    created_at: Instant
    ended_at: Annotated[
        Instant | None, Meta(description="Null while it lives, or its slice counts as used")
    ] = None
    labels: dict[str, str]
    use: Use = Use()

    def __repr__(self) -> str:
        """Without the secret, which no log may hold."""
        return (
            f"Lease({self.id!r}, {self.state!r}, epoch={self.epoch}, user={self.user!r}, size={self.size!r})"
        )

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """The same for rich, which programs and tracebacks print with."""
        return [(name, getattr(self, name)) for name in ("id", "state", "epoch", "user", "size")]

    @property
    def queued(self) -> bool:
        """Whether it waits for its slices."""
        return self.state == "queued"

    @property
    def in_force(self) -> bool:
        """Whether its owner may use its slices now."""
        return self.state in IN_FORCE

    @property
    def alive(self) -> bool:
        """Whether it waits for its slices, or may use them."""
        return self.queued or self.in_force

    @property
    def agent_name(self) -> str | None:
        """The name of its GPU server."""
        return None if self.agent is None else self.agent.name

    @property
    def address(self) -> str | None:
        """Where its GPU server is."""
        return None if self.agent is None else self.agent.address

    @property
    def place(self) -> str:
        """For a text: ``, number 3 in the queue, granted in about 20 min``; empty where it does not wait."""
        if not self.position:
            return ""
        minutes = None if self.starts_in is None else max(1, round(self.starts_in / 60))
        when = "" if minutes is None else f", granted in about {minutes} min"
        return f", number {self.position} in the queue{when}"

    @property
    def where(self) -> str:
        """For a text: its GPU server and the GPUs' numbers there."""
        if self.agent is None:
            return ""
        return f"{self.agent.name}/{', '.join(str(part.index) for part in self.slices)}"

    @property
    def mib(self) -> int:
        """Memory of all its slices, in MiB."""
        return sum(part.mib for part in self.slices)

    @property
    def thousandths(self) -> int:
        """Compute of all its slices, in thousandths of a GPU."""
        return sum(part.thousandths for part in self.slices)


class LeaseList(Resource, frozen=True):
    """Leases, newest first."""

    leases: tuple[Lease, ...]


class LeasePage(Resource, frozen=True):
    """Some of many leases, newest first."""

    leases: tuple[Lease, ...]
    next: Next = None


class Renewed(Resource, frozen=True):
    """A lease that lives on."""

    id: str
    expires_in: float


class Lost(Resource, frozen=True):
    """A lease that can no longer be renewed, and why."""

    id: str
    state: str
    reason: str


class Renewal(Resource, frozen=True):
    """What became of each."""

    renewed: tuple[Renewed, ...]
    lost: tuple[Lost, ...]

    @property
    def left(self) -> dict[str, float]:
        """The seconds that each renewed lease has left, by its id."""
        return {item.id: item.expires_in for item in self.renewed}


class Why(Resource, frozen=True, kw_only=True):
    """Why a lease waits."""

    id: Id
    state: Annotated[str, one_of(STATES)]
    text: Annotated[str, Meta(description="For its owner, as it stands")]
    position: Annotated[int | None, Meta(description="Counts from 1; null where it does not wait")]
    waiting: Annotated[int, Meta(description="How many wait in all")]
    starts_at: Annotated[
        Instant | None, Meta(description="The predicted start by what is known now; null where nobody knows")
    ] = None
    promised_for: Annotated[
        Instant | None, Meta(description="When it starts at the latest, where it holds a promise")
    ] = None
    full: Annotated[dict[str, Any] | None, Meta(description="All that was compared, for admins")] = None
