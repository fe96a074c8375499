"""GPU servers: what they offer and report, what they are told to serve, and what admins see of them."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import UNSET, Meta, UnsetType

from gpu_kernels.resources.base import (
    MAX_BODY,
    PRINTABLE,
    Body,
    Count,
    GpuClass,
    Instant,
    Resource,
    Seconds,
    Text64,
    one_of,
    pattern,
)
from gpu_kernels.resources.leases import LeaseSlice
from gpu_kernels.units import MAX_MIB, valid_class

MOST_GPUS = 64
MOST_LEASES = 20_000
DEVICES = ("software", "nvidia")
STANDINGS = ("open", "cordoned", "draining")
WORKING = "active"
"""The state by which a report says that a worker serves the lease."""
ADDRESS = pattern(
    r"^(tcp://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}|unix:///[^\s\x00-\x1f\x7f-\x9f]+)$",
    "must be tcp://HOST:PORT or unix:///PATH",
)
GpuUuid = Annotated[str, Meta(min_length=1, max_length=96, pattern=PRINTABLE)]
Mib = Annotated[int, Meta(ge=1, le=MAX_MIB)]


class OfferedGpu(Resource, frozen=True):
    """A GPU that an agent offers."""

    uuid: GpuUuid
    index: Annotated[int, Meta(ge=0, le=1023)]
    gpu_class: GpuClass
    device: Annotated[str, one_of(DEVICES)]
    name: Annotated[str, Meta(min_length=1, max_length=128, pattern=PRINTABLE)]
    total_mib: Mib
    allocatable_mib: Mib

    def __post_init__(self) -> None:
        """Raises ``ValueError`` where no GPU can be so."""
        if not valid_class(self.gpu_class):
            raise ValueError(f"A GPU class cannot be called {self.gpu_class!r}: a size could not name it.")
        if self.allocatable_mib > self.total_mib:
            raise ValueError(
                f"GPU {self.uuid}: 'allocatable_mib' ({self.allocatable_mib}) is more than "
                f"'total_mib' ({self.total_mib})."
            )


class Registration(Body, frozen=True):
    """A GPU server joins the pool, or has started again (another `boot_id`)."""

    boot_id: Text64
    address: Annotated[
        str, Meta(max_length=255, pattern=ADDRESS, description="`tcp://HOST:PORT` or `unix:///PATH`")
    ]
    version: Text64
    gpus: Annotated[tuple[OfferedGpu, ...], Meta(max_length=MOST_GPUS)]
    fences_after: Annotated[
        float,
        Meta(
            ge=0,
            le=1e6,
            description="Seconds without an acknowledged report after which it has killed its workers by "
            "itself; 0 promises nothing",
        ),
    ] = 0.0

    def __post_init__(self) -> None:
        """Raises ``ValueError`` where a GPU is there twice: its memory would be promised twice."""
        if len({gpu.uuid for gpu in self.gpus}) != len(self.gpus):
            raise ValueError("Two of the GPUs have the same 'uuid'.")


class Registered(Resource, frozen=True):
    """Report at least every `report_within` seconds."""

    name: str
    target_seq: Count
    report_within: float


class LiveLease(Resource, frozen=True):
    """A lease of which something lives on the GPU server; `active` where a worker serves it."""

    id: Text64
    epoch: Count
    state: Annotated[str, Meta(max_length=32, pattern=PRINTABLE)] = WORKING
    used_mib: Count = 0
    peak_mib: Count = 0
    sessions: Count = 0
    launches: Count = 0


class OutsideMemory(Resource, frozen=True):
    """Memory of a GPU that is in use, but by no lease."""

    gpu: GpuUuid
    mib: Count


class AgentReport(Body, frozen=True, kw_only=True):
    """What the agent has carried out, and everything of which anything lives."""

    MOST_BYTES: ClassVar[int] = MAX_BODY
    boot_id: Text64
    target_seq: Count
    incarnation: Annotated[
        str, Meta(max_length=64, pattern=PRINTABLE, description="The ledger that it counts by")
    ] = ""
    full: Annotated[bool, Meta(description="Whether it wants everything, and not just the changes")] = True
    epoch: Annotated[int, Meta(ge=0, le=2**61, description="The highest that it has seen")] = 0
    wait: Annotated[Seconds, Meta(description="Hold the answer back until something changes")] = 0.0
    leases: Annotated[tuple[LiveLease, ...], Meta(max_length=MOST_LEASES)]
    outside: Annotated[tuple[OutsideMemory, ...], Meta(max_length=MOST_GPUS)] = ()


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


class RefusedRegistration(Resource, frozen=True):
    """Who was refused registration under a GPU server's name in the last hour: from where, why (a code of the
    errors), how often, and how many seconds ago it was the last time.
    """

    address: str
    why: str
    times: Count
    ago: float


class Agent(Resource, frozen=True, kw_only=True):
    """A GPU server, for an admin."""

    name: str
    address: str
    version: str
    boot_id: str
    target_seq: Count
    reported_seq: Count
    silent_for: float
    answering: bool
    standing: Annotated[str, one_of(STANDINGS)]
    drain_by: Instant | None
    ends_at: Instant | None
    refused: RefusedRegistration | None


class AgentList(Resource, frozen=True):
    """GPU servers by name."""

    agents: tuple[Agent, ...]


class DeclaredLost(Resource, frozen=True):
    """How many leases were freed."""

    name: str
    leases: Count


class AgentToken(Resource, frozen=True):
    """A token of a GPU server, without the token; `id` is the beginning of its SHA-256."""

    id: str
    agent: str
    created_by: str
    created_at: Instant


class MadeAgentToken(AgentToken, frozen=True):
    """A new token of a GPU server: keep it, it is never told again."""

    token: str

    def __repr__(self) -> str:
        """Without the token, which no log may hold."""
        return f"MadeAgentToken({self.id!r}, {self.agent!r})"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        """The same for rich, which programs and tracebacks print with."""
        return [("id", self.id), ("agent", self.agent)]


class AgentTokenList(Resource, frozen=True):
    """Tokens of GPU servers."""

    tokens: tuple[AgentToken, ...]
