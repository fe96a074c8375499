"""Agents: what each brings into the pool, and its word on what lives there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpu_kernels.errors import AgentReplaced, Conflict, InvalidRequest, UnknownAgent
from gpu_kernels.pool.ledger.capacity import adopted, takes_slices
from gpu_kernels.pool.ledger.ending import ASK_ANEW, confirm, ended_of, free_all, revoke
from gpu_kernels.pool.ledger.registrations import check_place
from gpu_kernels.pool.ledger.rows import Agent, Gpu, Lease
from gpu_kernels.pool.ledger.states import HOLDING, State, Who, move
from gpu_kernels.pool.ledger.sweeping import in_force_of
from gpu_kernels.pool.ledger.transaction import Transaction

RESTARTED = f"The GPU server restarted; what ran on it is lost.\n{ASK_ANEW}"
GPU_GONE = f"The GPU is gone from its server.\n{ASK_ANEW}"
GONE = f"Its GPU server is lost.\n{ASK_ANEW}"
STANDINGS = ("open", "cordoned", "draining")
JUST_NOW = 120_000
"""A time so short ago is the present one, typed or sent a moment ago."""
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


@dataclass(frozen=True, slots=True)
class Outside:
    """Memory of a GPU that processes outside all leases use."""

    gpu: str
    mib: int


def register(
    tx: Transaction,
    name: str,
    *,
    owner: str,
    boot_id: str,
    address: str,
    version: str,
    gpus: Sequence[OfferedGpu],
    fences_after: int | None = None,
) -> Agent:
    """Take an agent and its GPUs into the pool, or take note that it is another process now.

    A new boot has no workers, so what was active under the last one is lost and is taken back; its slices
    are free once the new boot reports. ``fences_after`` is in milliseconds. Raises ``AgentElsewhere`` while
    the last boot answers from another address or by another token, ``Conflict`` when one of the GPUs is
    another agent's.
    """
    known = tx.book.agents.get(name)
    if known is not None:
        check_place(tx, known, owner, address)
    _check_claims(tx, name, gpus)
    agent = known or Agent(
        name=name, owner=owner, boot_id="", address="", version="", registered_at=tx.now, reported_at=tx.now
    )
    rebooted = known is not None and known.boot_id != boot_id
    agent = tx.change(
        agent,
        owner=owner,
        boot_id=boot_id,
        address=address,
        version=version,
        registered_at=tx.now,
        reported_at=tx.now,
        fences_after=fences_after or None,
    )
    present = _offer(tx, agent, gpus)
    for lease in in_force_of(tx, agent):
        if rebooted and lease.state == State.ACTIVE:
            revoke(tx, lease, who=Who.DECISION, actor=name, reason=RESTARTED)
    for lease in in_force_of(tx, agent):
        if any(part.gpu_id not in present for part in tx.book.parts(lease)):
            revoke(tx, lease, who=Who.DECISION, actor=name, reason=GPU_GONE)
    tx.event(owner, "registered", name, {"boot_id": boot_id, "gpus": len(gpus)})
    tx.agent_changed(name)
    tx.capacity_changed()
    return tx.book.agents[name]


def _check_claims(tx: Transaction, name: str, gpus: Sequence[OfferedGpu]) -> None:
    """Refuse a GPU that is there twice: sold by two agents, its memory would be promised twice."""
    if len({gpu.uuid for gpu in gpus}) != len(gpus):
        raise Conflict("Two of the GPUs have the same UUID.")
    for gpu in gpus:
        for other in tx.book.claims.of(gpu.uuid).values():
            if other.agent_name != name:
                raise Conflict(
                    f"GPU {gpu.uuid} is in the pool already, as one of agent {other.agent_name}.\n"
                    f"Let only one agent serve it: stop {other.agent_name}, or leave the GPU out here; an "
                    f"admin can declare {other.agent_name} lost if it is gone.",
                    details={"gpu": gpu.uuid, "agent": other.agent_name},
                )


def _offer(tx: Transaction, agent: Agent, gpus: Sequence[OfferedGpu]) -> set[int]:
    """Bring the agent's GPUs up to date; the ids of those it offers."""
    offered = {gpu.uuid: gpu for gpu in gpus}
    rows = dict(tx.book.gpus_of.of(agent.name))
    for uuid, row in rows.items():
        if uuid not in offered and row.offered:
            tx.change(row, offered=False)
    present = set()
    for uuid, gpu in offered.items():
        row = rows.get(uuid) or _new_gpu(tx, agent.name, gpu)
        row = tx.put(
            adopted(
                row,
                index=gpu.index,
                device=gpu.device,
                name=gpu.name,
                total_mib=gpu.total_mib,
                offered_mib=gpu.allocatable_mib,
                offered_class=gpu.gpu_class,
                offered=True,
            )
        )
        if takes_slices(row):
            present.add(row.id)
    return present


def _new_gpu(tx: Transaction, agent: str, gpu: OfferedGpu) -> Gpu:
    return Gpu(
        id=max(tx.book.gpus, default=0) + 1,
        agent_name=agent,
        uuid=gpu.uuid,
        index=gpu.index,
        gpu_class=gpu.gpu_class,
        device=gpu.device,
        name=gpu.name,
        total_mib=gpu.total_mib,
        offered=True,
        offered_class=gpu.gpu_class,
        offered_mib=gpu.allocatable_mib,
        allocatable_mib=gpu.allocatable_mib,
    )


def report(
    tx: Transaction,
    name: str,
    *,
    owner: str,
    boot_id: str,
    done_seq: int,
    alive: Mapping[str, Alive],
    counts_by: str,
    epoch: int = 0,
    outside: Sequence[Outside] = (),
) -> None:
    """Take an agent's word: what it has carried out, what lives, and what uses its GPUs beside that.

    ``counts_by`` is the incarnation of the ledger that ``done_seq`` belongs to; ``epoch`` the highest that
    the agent has ever seen. Raises ``UnknownAgent`` before its registration, ``AgentReplaced`` from an
    older process of that name.
    """
    agent = reporting(tx, name, owner=owner, boot_id=boot_id)
    if done_seq > agent.target_seq or counts_by != tx.counts_by:
        done_seq = 0  # it counts by another ledger (one restored, or new): it has done nothing of this one
    if agent.reported_at <= tx.now - tx.timing.agent_ttl:
        tx.capacity_changed()
    agent = tx.change(
        agent,
        reported_at=tx.now,
        reported_seq=max(agent.reported_seq, done_seq),
        counts_by=counts_by,
        epoch=max(agent.epoch, epoch),
    )
    for lease in in_force_of(tx, agent):
        worker = alive.get(lease.id)
        if worker is not None and worker.epoch == lease.epoch:
            _note(tx, lease, worker, name)
    confirm(tx, agent, done_seq, alive)
    _alarm(tx, agent, outside)
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


def _belongs(tx: Transaction, worker: Alive, agent: str) -> bool:
    """Whether what lives there holds slices there; what does not is on its way out, or should never be.

    Reports may overtake each other: what was freed only just now may still be named by an older one.
    """
    lease = tx.book.leases.get(worker.id)
    if lease is None or lease.agent_name != agent or worker.epoch != lease.epoch:
        return False
    return lease.state in HOLDING or (lease.ended_at or 0) > tx.now - tx.timing.agent_ttl


def _note(tx: Transaction, lease: Lease, worker: Alive, agent: str) -> None:
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


def _alarm(tx: Transaction, agent: Agent, outside: Sequence[Outside]) -> None:
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


def utc_text(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


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
