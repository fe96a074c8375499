"""An agent's word on what lives on its server, and what has become of what it was told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpu_kernels.errors import AgentReplaced, UnknownAgent
from gpu_kernels.pool.ledger.commands.termination import confirm
from gpu_kernels.pool.ledger.commands.transitions import move
from gpu_kernels.pool.ledger.queries.leases import in_force_of
from gpu_kernels.pool.ledger.state.rows import Agent, Lease
from gpu_kernels.pool.ledger.state.states import HOLDING, State, Who
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.resources.agents import WORKING, AgentReport, LiveLease, OutsideMemory


def report(tx: Transaction, name: str, said: AgentReport, *, owner: str) -> None:
    """Take an agent's word: what it has carried out, what lives, and what uses its GPUs beside that.

    Raises ``UnknownAgent`` before its registration, ``AgentReplaced`` from an older process of that name.
    """
    agent = reporting(tx, name, owner=owner, boot_id=said.boot_id)
    done_seq, alive = said.target_seq, {lease.id: lease for lease in said.leases}
    if done_seq > agent.target_seq or said.incarnation != tx.counts_by:
        done_seq = 0  # it counts by another ledger (one restored, or new): it has done nothing of this one
    if agent.reported_at <= tx.now - tx.timing.agent_ttl:
        tx.capacity_changed()
    agent = tx.change(
        agent,
        reported_at=tx.now,
        reported_seq=max(agent.reported_seq, done_seq),
        counts_by=said.incarnation,
        epoch=max(agent.epoch, said.epoch),
    )
    for lease in in_force_of(tx, agent):
        worker = alive.get(lease.id)
        if worker is not None and worker.epoch == lease.epoch:
            _note(tx, lease, worker, name)
    confirm(tx, agent, done_seq, alive)
    _alarm(tx, agent, said.outside)
    strangers = tuple(sorted(worker.id for worker in alive.values() if not _belongs(tx, worker, name)))
    tx.when_committed(lambda: tx.strangers.__setitem__(name, strangers))


def reporting(tx: Transaction, name: str, *, owner: str, boot_id: str) -> Agent:
    """The agent, if this process of it still is the one. Raises ``UnknownAgent``, ``AgentReplaced``."""
    agent = tx.book.agents.get(name)
    if agent is None or agent.owner != owner:
        raise UnknownAgent(f"There is no agent {name} of yours in the pool; register it first.")
    if agent.boot_id != boot_id:
        raise AgentReplaced(
            f"Another agent process has registered as {name} since; this one must serve nothing any more.",
            details={"agent": name},
        )
    return agent


def _belongs(tx: Transaction, worker: LiveLease, agent: str) -> bool:
    """Whether what lives there holds slices there; what does not is on its way out, or should never be.

    Reports may overtake each other: what was freed only just now may still be named by an older one.
    """
    lease = tx.book.leases.get(worker.id)
    if lease is None or lease.agent_name != agent or worker.epoch != lease.epoch:
        return False
    return lease.state in HOLDING or (lease.ended_at or 0) > tx.now - tx.timing.agent_ttl


def _note(tx: Transaction, lease: Lease, worker: LiveLease, agent: str) -> None:
    told: dict[str, Any] = {
        "used_mib": worker.used_mib,
        "sessions": worker.sessions,
        "launches": worker.launches,
        "peak_mib": max(lease.peak_mib, worker.peak_mib),
    }
    if lease.state == State.RESERVED and worker.state == WORKING:
        lease = move(
            tx, lease, State.ACTIVE, who=Who.AGENT, actor=agent, active_at=tx.now, busy_at=tx.now, **told
        )
        for part in tx.book.parts(lease):
            tx.change(part, active_at=tx.now)
        return
    if lease.launches != worker.launches:
        told["busy_at"] = tx.now
    if any(getattr(lease, name) != value for name, value in told.items()):
        tx.change(lease, **told)


def _alarm(tx: Transaction, agent: Agent, outside: Sequence[OutsideMemory]) -> None:
    """Note memory used outside all leases, once for each GPU until it is gone or has doubled."""
    gpus = tx.book.gpus_of.of(agent.name)
    told = tx.alarms.get(agent.name, {})
    now = {item.gpu: item.mib for item in outside if item.gpu in gpus and item.mib > 0}
    noted = {}
    for uuid, mib in sorted(now.items()):
        noted[uuid] = told.get(uuid, 0)
        if mib >= 2 * noted[uuid]:
            noted[uuid] = mib
            tx.event(agent.name, "outside_memory", uuid, {"mib": mib, "agent": agent.name})
    if noted != told:
        tx.when_committed(lambda: tx.alarms.__setitem__(agent.name, noted))
