"""GPU servers as they register and report, and what they are told."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gpu_kernels.pool.service.schemas.base import (
    MAX_BODY,
    PRINTABLE,
    Count,
    GpuClass,
    Instant,
    Model,
    Moment,
    Seconds,
    Text64,
    pattern,
)
from gpu_kernels.units import MAX_MIB, valid_class

MOST_GPUS = 64
MOST_LEASES = 20_000
StandingName = Literal["open", "cordoned", "draining"]
ADDRESS = pattern(
    r"^(tcp://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}|unix:///[^\s\x00-\x1f\x7f-\x9f]+)$",
    "must be tcp://HOST:PORT or unix:///PATH",
)


class OfferedGpu(Model):
    """A GPU that an agent offers."""

    uuid: str = Field(min_length=1, max_length=96, pattern=PRINTABLE)
    index: int = Field(ge=0, le=1023)
    gpu_class: GpuClass
    device: Literal["software", "nvidia"]
    name: str = Field(min_length=1, max_length=128, pattern=PRINTABLE)
    total_mib: int = Field(ge=1, le=MAX_MIB)
    allocatable_mib: int = Field(ge=1, le=MAX_MIB)

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        if not valid_class(self.gpu_class):
            raise ValueError(f"A GPU class cannot be called {self.gpu_class!r}: a size could not name it.")
        if self.allocatable_mib > self.total_mib:
            raise ValueError(
                f"GPU {self.uuid}: 'allocatable_mib' ({self.allocatable_mib}) is more than "
                f"'total_mib' ({self.total_mib})."
            )
        return self


class Register(Model):
    """A GPU server joins the pool, or has started again (another `boot_id`)."""

    boot_id: Text64
    address: str = Field(max_length=255, pattern=ADDRESS, description="`tcp://HOST:PORT` or `unix:///PATH`")
    version: Text64
    gpus: list[OfferedGpu] = Field(max_length=MOST_GPUS)
    fences_after: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = Field(
        0.0,
        description="Seconds without an acknowledged report after which it has killed its workers by itself; "
        "0 promises nothing",
    )

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len({gpu.uuid for gpu in self.gpus}) != len(self.gpus):
            raise ValueError("Two of the GPUs have the same 'uuid'.")
        return self


class Registered(Model):
    """Report at least every `report_within` seconds."""

    name: str
    target_seq: Count
    report_within: float


class Alive(Model):
    """A lease of which something lives on the GPU server; `active` where a worker serves it."""

    id: Text64
    epoch: Count
    state: str = Field("active", max_length=32, pattern=PRINTABLE)
    used_mib: Count = 0
    peak_mib: Count = 0
    sessions: Count = 0
    launches: Count = 0


class Outside(Model):
    """Memory of a GPU that is in use, but by no lease."""

    gpu: str = Field(min_length=1, max_length=96, pattern=PRINTABLE)
    mib: Count


class Report(Model):
    """What the agent has carried out, and everything of which anything lives."""

    MOST_BYTES = MAX_BODY
    boot_id: Text64
    target_seq: Count
    incarnation: str = Field("", max_length=64, pattern=PRINTABLE, description="The ledger that it counts by")
    full: bool = Field(True, description="Whether it wants everything, and not just the changes")
    epoch: int = Field(0, ge=0, le=2**61, description="The highest that it has seen")
    wait: Seconds = Field(0.0, description="Hold the answer back until something changes")
    leases: list[Alive] = Field(max_length=MOST_LEASES)
    outside: list[Outside] = Field(default_factory=list, max_length=MOST_GPUS)


class AgentStanding(Model):
    """What may be placed on a GPU server."""

    standing: StandingName = Field(
        description="`open`; `cordoned`: nothing new; `draining`: nothing new, and what is there ends"
    )
    drain_by: Moment | None = Field(
        None, description="When a draining server must be empty; without it leases end by themselves"
    )
    ends_at: Moment | None = Field(
        None, description="When the server goes away: nothing is placed that cannot end before"
    )


class NewAgentToken(Model):
    """Whom a new token is for."""

    agent: Text64 = Field(description="Name of the GPU server")


class AgentToken(Model):
    """A token of a GPU server, without the token; `id` is the beginning of its SHA-256."""

    id: str
    agent: str
    created_by: str
    created_at: Instant


class MadeAgentToken(AgentToken):
    """A new token of a GPU server: keep it, it is never told again."""

    token: str


class AgentTokenList(Model):
    """Tokens of GPU servers."""

    tokens: list[AgentToken]


class DeclaredLost(Model):
    """How many leases were freed."""

    name: str
    leases: Count


class RefusedRegistration(Model):
    """Who was not let in under a GPU server's name in the last hour: from where, why (a code of the errors),
    how often, and how many seconds ago it was the last time.
    """

    address: str
    why: str
    times: Count
    ago: float


class Agent(Model):
    """A GPU server, for an admin."""

    name: str
    address: str
    version: str
    boot_id: str
    target_seq: Count
    reported_seq: Count
    silent_for: float
    answering: bool
    standing: StandingName
    drain_by: Instant | None
    ends_at: Instant | None
    refused: RefusedRegistration | None


class AgentList(Model):
    """GPU servers by name."""

    agents: list[Agent]
