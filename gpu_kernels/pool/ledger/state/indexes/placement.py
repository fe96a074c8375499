"""What the book's rows leave free: the live index of GPUs, and the servers that take nothing, or not all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_kernels.pool.ledger.state.capacity import takes_slices
from gpu_kernels.pool.ledger.state.rows import Agent, Gpu
from gpu_kernels.pool.policy import model
from gpu_kernels.pool.policy.model import Server
from gpu_kernels.pool.policy.placement import Index
from gpu_kernels.pool.policy.scene import Settings

OPEN = "open"


def seen(gpu: Gpu) -> model.Gpu:
    """A GPU's row as the policy sees it."""
    return model.Gpu(
        gpu.id,
        gpu.agent_name,
        gpu.index,
        gpu.gpu_class,
        gpu.offered_mib,
        gpu.used_mib,
        gpu.used_thousandths,
    )


class Places:
    """A follower of GPUs and agents. ``index`` has the GPUs that take slices; whether their servers answer
    is not in it, but in ``servers``.
    """

    def __init__(self, settings: Settings) -> None:
        self.index = Index(catalogue=settings.catalogue, policies=settings.placement)
        self._agents: dict[str, Agent] = {}
        self._known: tuple[int, int] | None = None
        self._servers: Mapping[str, Server] = {}

    def change(self, before: Any, after: Any) -> None:
        """A row was made, changed, or dropped."""
        row = before if after is None else after
        if isinstance(row, Gpu):
            if after is None or not takes_slices(row) or row.offered_mib <= 0:
                self.index.drop(row.id)
            else:
                self.index.put(seen(row))
            return
        if after is None:
            del self._agents[row.name]
        else:
            self._agents[row.name] = row
        if before is None or after is None or _matters(before) != _matters(after):
            self._known = None

    def servers(self, now: int, agent_ttl: int) -> Mapping[str, Server]:
        """The servers that are silent, closed, or going away; nothing stands against the others."""
        if self._known != (now, agent_ttl):
            self._known = (now, agent_ttl)
            self._servers = {
                agent.name: Server(agent.name, agent.standing, agent.ends_at, answers)
                for agent in self._agents.values()
                if not (answers := agent.reported_at > now - agent_ttl)
                or agent.standing != OPEN
                or agent.ends_at is not None
            }
        return self._servers


def _matters(agent: Agent) -> tuple[str, int | None, int]:
    return agent.standing, agent.ends_at, agent.reported_at
