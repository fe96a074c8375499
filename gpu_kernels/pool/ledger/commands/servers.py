"""GPU servers: what an admin says of one, when one must be empty, and what its silence proves."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_kernels.errors import InvalidRequest, UnknownAgent
from gpu_kernels.pool.ledger.commands.termination import ASK_ANEW, free_all, revoke
from gpu_kernels.pool.ledger.queries.leases import ended_of, in_force_of
from gpu_kernels.pool.ledger.queries.times import utc_text
from gpu_kernels.pool.ledger.state.rows import Agent
from gpu_kernels.pool.ledger.state.states import Who
from gpu_kernels.pool.ledger.transaction import Transaction

SERVER_LEAVES = f"Taken back: its GPU server is being taken out of service.\n{ASK_ANEW}"
SLOW_CLOCK = 1.1
"""An agent's clock may go slower than the store's by a tenth."""
FENCE_MARGIN_MS = 10_000
GONE = f"Its GPU server is lost.\n{ASK_ANEW}"
STANDINGS = ("open", "cordoned", "draining")
JUST_NOW = 120_000
"""A time so short ago is the present one, typed or sent a moment ago."""


def empty_servers(tx: Transaction, most: int) -> int:
    """Take back what is on servers whose time has come; ``most`` leases."""
    ended = 0
    for agent in leaving(tx):
        for lease in in_force_of(tx, agent):
            if ended >= most:
                return ended
            revoke(tx, lease, who=Who.DECISION, actor="clock", reason=SERVER_LEAVES)
            ended += 1
    return ended


def leaving(tx: Transaction) -> Iterator[Agent]:
    """The servers that must be empty by now."""
    for agent in list(tx.book.agents.values()):
        drained = agent.standing == "draining" and agent.drain_by is not None and agent.drain_by <= tx.now
        if drained or (agent.ends_at is not None and agent.ends_at <= tx.now):
            yield agent


def free_fenced(tx: Transaction) -> None:
    """Free what ended on servers that have been silent for longer than their agents let workers live.

    The silence counts from when this controller began to watch: what a clock did before that is unknown.
    """
    for agent in list(tx.book.agents.values()):
        if not agent.fences_after or not tx.book.ending.of(agent.name):
            continue
        silent_since = max(agent.reported_at, tx.watched_since)
        if tx.now >= silent_since + agent.fences_after * SLOW_CLOCK + FENCE_MARGIN_MS:
            leases = ended_of(tx, agent)
            free_all(tx, leases, who=Who.PROOF, actor=agent.name)
            tx.event("clock", "fenced", agent.name, {"leases": len(leases)})


def set_standing(
    tx: Transaction,
    name: str,
    standing: str,
    *,
    actor: str,
    drain_by: int | None = None,
    ends_at: int | None = None,
) -> Agent:
    """Let an agent take new leases (``open``), nothing new (``cordoned``), or be empty by ``drain_by``
    (``draining``; None: as its leases end by themselves). ``ends_at``: when the server goes away, None
    where it stays. Raises ``UnknownAgent``, ``InvalidRequest``.
    """
    agent = known(tx, name)
    if standing not in STANDINGS:
        raise InvalidRequest(f"A server is {', '.join(STANDINGS)}; not {standing[:40]!r}.")
    if drain_by is not None and standing != "draining":
        raise InvalidRequest(
            "Only a draining server has a time by which it must be empty: leave it out, or drain the server."
        )
    _check_to_come(tx, "drain_by", drain_by, agent.drain_by)
    _check_to_come(tx, "ends_at", ends_at, agent.ends_at)
    agent = tx.change(agent, standing=standing, drain_by=drain_by, ends_at=ends_at)
    tx.event(actor, standing, name, {"drain_by": drain_by, "ends_at": ends_at})
    tx.capacity_changed()
    return agent


def _check_to_come(tx: Transaction, name: str, at: int | None, before: int | None) -> None:
    """Refuse a time that is over: mostly a wrong date, and what is on the server would go at once."""
    if at is None or at == before or at > tx.now - JUST_NOW:
        return
    raise InvalidRequest(
        f"The time {utc_text(at)} is over: it is {utc_text(tx.now)}. Nothing was changed.\n"
        "Give a time to come. To empty the server at once, give the present time.",
        details={"field": name},
    )


def declare_lost(tx: Transaction, name: str, *, actor: str) -> int:
    """Free everything on a server of which a person knows that nothing runs there any more; how many leases.

    The agent must register anew, as a process that serves nothing. Raises ``UnknownAgent``.
    """
    agent = known(tx, name)
    for lease in in_force_of(tx, agent):
        revoke(tx, lease, who=Who.ADMIN, actor=actor, reason=GONE)
    freed = free_all(tx, ended_of(tx, agent), who=Who.ADMIN, actor=actor)
    for gpu in list(tx.book.gpus_of.of(name).values()):
        if gpu.offered:
            tx.change(gpu, offered=False)
    tx.change(tx.book.agents[name], boot_id="")
    tx.event(actor, "declared_lost", name, {"leases": freed})
    tx.agent_changed(name)
    tx.capacity_changed()
    return freed


def known(tx: Transaction, name: str) -> Agent:
    """The agent. Raises ``UnknownAgent``."""
    agent = tx.book.agents.get(name)
    if agent is None:
        raise UnknownAgent(f"There is no GPU server {name[:64]} in the pool.", details={"agent": name[:64]})
    return agent
