"""What is told of GPU servers, and what each server's agent is told to serve."""

from __future__ import annotations

from gpu_kernels.pool.ledger.queries.lease_views import slice_views
from gpu_kernels.pool.ledger.queries.leases import in_force_of
from gpu_kernels.pool.ledger.queries.times import iso
from gpu_kernels.pool.ledger.state.rows import Agent, AgentToken, Lease
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.resources import agents as resources
from gpu_kernels.resources.agents import AgentReport, AssignedLease, Assignment

REMEMBERED = 3_600_000


def refused_view(tx: Transaction, name: str) -> resources.RefusedRegistration | None:
    """The last registration of this name that was refused, for an admin, if that is not long ago."""
    last = tx.refused.get(name)
    if last is None or last.at < tx.now - REMEMBERED:
        return None
    ago = max(0, tx.now - last.at) / 1000
    return resources.RefusedRegistration(last.address, last.why, last.times, ago)


def agents(tx: Transaction) -> resources.AgentList:
    """Every agent, for an admin."""
    return resources.AgentList(tuple(agent_view(tx, agent) for _, agent in sorted(tx.book.agents.items())))


def agent_view(tx: Transaction, agent: Agent) -> resources.Agent:
    """An agent, for an admin."""
    return resources.Agent(
        name=agent.name,
        address=agent.address,
        version=agent.version,
        boot_id=agent.boot_id,
        target_seq=agent.target_seq,
        reported_seq=agent.reported_seq,
        silent_for=max(0, tx.now - agent.reported_at) / 1000,
        answering=agent.reported_at > tx.now - tx.timing.agent_ttl,
        standing=agent.standing,
        drain_by=None if agent.drain_by is None else iso(agent.drain_by),
        ends_at=None if agent.ends_at is None else iso(agent.ends_at),
        refused=refused_view(tx, agent.name),
    )


def agent_tokens(tx: Transaction) -> resources.AgentTokenList:
    """The tokens of GPU servers, by server and the oldest first."""
    rows = sorted(tx.book.agent_tokens.values(), key=lambda row: (row.agent, row.created_at, row.sha256))
    return resources.AgentTokenList(tuple(map(agent_token_view, rows)))


def agent_token_view(row: AgentToken) -> resources.AgentToken:
    return resources.AgentToken(row.id, row.agent, row.created_by, iso(row.created_at))


def agent_target(tx: Transaction, name: str) -> tuple[int, list[AssignedLease]]:
    """The agent's ``target_seq`` and everything that it should serve."""
    agent = tx.book.agents[name]
    return agent.target_seq, [_target(tx, lease) for lease in in_force_of(tx, agent)]


def agent_told(tx: Transaction, name: str, report: AgentReport) -> Assignment:
    """What to tell an agent that reports so: what came since the set that it has carried out and the names of
    the rest, or everything where it counts by another ledger or asks for it. Without what proves each lease.
    """
    agent = tx.book.agents[name]
    if report.full or report.incarnation != tx.counts_by:
        _, targets = agent_target(tx, name)
        return Assignment(agent.target_seq, tuple(targets), tx.counts_by)
    came, lives = [], []
    for lease in in_force_of(tx, agent):
        if (lease.start_seq or 0) > report.target_seq:
            came.append(_target(tx, lease))
        else:
            lives.append((lease.id, lease.epoch, _left(tx, lease)))
    return Assignment(agent.target_seq, incarnation=tx.counts_by, changes=tuple(came), lives=tuple(lives))


def _target(tx: Transaction, lease: Lease) -> AssignedLease:
    return AssignedLease(lease.id, lease.epoch, "", _left(tx, lease), slice_views(tx, lease))


def _left(tx: Transaction, lease: Lease) -> float:
    return max(0, (lease.expires_at or 0) - tx.now) / 1000
