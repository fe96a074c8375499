"""Agents: what each brings into the pool, and its word on what lives there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import selectinload

from gpu_kernels.errors import AgentReplaced, Conflict, Forbidden, UnknownAgent
from gpu_kernels.pool.ledger.ending import confirm, revoke
from gpu_kernels.pool.ledger.models import Agent, Gpu, Lease
from gpu_kernels.pool.ledger.states import IN_FORCE, State, Who, move
from gpu_kernels.pool.ledger.transaction import Transaction

RESTARTED = "The GPU server restarted; what ran on it is lost. Restart the kernel to get a new slice."
GPU_GONE = "The GPU is gone from its server. Restart the kernel to get a slice of another."
WORKING = "active"
"""The state by which an agent's inventory says that a worker serves the lease."""


@dataclass(frozen=True, slots=True)
class OfferedGpu:
    uuid: str
    index: int
    gpu_class: str
    device: str
    name: str
    total_mib: int
    allocatable_mib: int


@dataclass(frozen=True, slots=True)
class Alive:
    """A lease that an agent's inventory names."""

    id: str
    epoch: int
    state: str
    used_mib: int
    peak_mib: int
    sessions: int
    launches: int


def register(
    tx: Transaction,
    name: str,
    *,
    owner: str,
    may_take_over: bool,
    boot_id: str,
    address: str,
    version: str,
    gpus: Sequence[OfferedGpu],
) -> Agent:
    """Take an agent and its GPUs into the pool, or take note that it is another process now.

    A new boot has no workers, so what was active under the last one is lost and is taken back; its slices
    are free once the new boot reports. Raises ``Forbidden`` when the name belongs to another owner.
    """
    agent = tx.session.get(Agent, name)
    if agent is None:
        agent = Agent(name=name, owner=owner, epoch=0, target_seq=0, reported_seq=0)
        tx.session.add(agent)
    elif agent.owner != owner and not may_take_over:
        raise Forbidden(f"The agent name {name} belongs to another token's owner; choose another name.")
    rebooted = agent.boot_id is not None and agent.boot_id != boot_id
    agent.owner, agent.boot_id, agent.address, agent.version = owner, boot_id, address, version
    agent.registered_at = agent.reported_at = tx.now
    tx.session.flush()
    present = _offer(tx, agent, gpus)
    if rebooted:
        for lease in _in_force(tx, agent):
            if lease.state == State.ACTIVE:
                revoke(tx, lease, who=Who.DECISION, actor=name, reason=RESTARTED)
    for lease in _in_force(tx, agent, slices=True):
        if any(part.gpu_id not in present for part in lease.slices):
            revoke(tx, lease, who=Who.DECISION, actor=name, reason=GPU_GONE)
    tx.event(owner, "registered", name, {"boot_id": boot_id, "gpus": len(gpus)})
    tx.agent_changed(name)
    tx.capacity_changed()
    return agent


def _offer(tx: Transaction, agent: Agent, gpus: Sequence[OfferedGpu]) -> set[int]:
    """Bring the agent's GPUs up to date; the ids of those it offers."""
    rows = {row.uuid: row for row in tx.session.scalars(select(Gpu).where(Gpu.agent_name == agent.name))}
    offered = {gpu.uuid: gpu for gpu in gpus}
    if len(offered) != len(gpus):
        raise Conflict("Two of the GPUs have the same UUID.")
    for uuid, row in rows.items():
        row.offered = uuid in offered
    for uuid, gpu in offered.items():
        row = rows.get(uuid) or Gpu(agent_name=agent.name, uuid=uuid, used_mib=0, used_thousandths=0)
        row.index, row.device, row.name = gpu.index, gpu.device, gpu.name
        row.total_mib, row.offered_mib, row.offered_class = gpu.total_mib, gpu.allocatable_mib, gpu.gpu_class
        row.offered = True
        row.adopt_offer()
        tx.session.add(row)
        rows[uuid] = row
    tx.session.flush()
    return {row.id for row in rows.values() if row.open}


def _in_force(tx: Transaction, agent: Agent, *, slices: bool = False) -> list[Lease]:
    query = select(Lease).where(Lease.agent_name == agent.name, Lease.state.in_(IN_FORCE)).order_by(Lease.id)
    if slices:
        query = query.options(selectinload(Lease.slices))
    return list(tx.session.scalars(query))


def report(
    tx: Transaction, name: str, *, owner: str, boot_id: str, done_seq: int, alive: Mapping[str, Alive]
) -> None:
    """Take an agent's word: what it has carried out, and what lives.

    Raises ``UnknownAgent`` before its registration, ``AgentReplaced`` from an older process of that name.
    """
    agent = tx.session.get(Agent, name)
    if agent is None or agent.owner != owner:
        raise UnknownAgent(f"There is no agent {name} of yours in the pool; register it first.")
    if agent.boot_id != boot_id:
        raise AgentReplaced(
            f"Another agent process has registered as {name} since; this one must serve nothing any more.",
            details={"agent": name},
        )
    if done_seq > agent.target_seq:
        done_seq = 0  # it counts by another ledger (one restored, or new): it has done nothing of this one
    if agent.reported_at <= tx.now - tx.timing.agent_ttl:
        tx.capacity_changed()
    agent.reported_at = tx.now
    agent.reported_seq = max(agent.reported_seq, done_seq)
    for lease in _in_force(tx, agent):
        worker = alive.get(lease.id)
        if worker is not None and worker.epoch == lease.epoch:
            _note(tx, lease, worker, name)
    confirm(tx, agent, done_seq, alive)


def _note(tx: Transaction, lease: Lease, worker: Alive, agent: str) -> None:
    if lease.state == State.RESERVED and worker.state == WORKING:
        move(tx, lease, State.ACTIVE, who=Who.AGENT, actor=agent)
    lease.used_mib, lease.sessions, lease.launches = worker.used_mib, worker.sessions, worker.launches
    lease.peak_mib = max(lease.peak_mib, worker.peak_mib)
