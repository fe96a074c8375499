"""GPU servers: what admins say of them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpu_kernels.pool.service.schemas.base import Model, Moment, Text64

StandingName = Literal["open", "cordoned", "draining"]


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
