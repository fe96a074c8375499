"""An agent registers: what its server brings into the pool, and who may speak for the server.

A token is bound to its server's name, so whoever registers from elsewhere has that server's token: it has
been moved, or the token was taken. Moved, the old one falls silent, and the new one is let in a moment later;
taken, the old one goes on, keeps its place, and the admin hears of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpu_kernels.durations import duration
from gpu_kernels.errors import AgentElsewhere, Conflict
from gpu_kernels.pool.ledger.commands.termination import ASK_ANEW, revoke
from gpu_kernels.pool.ledger.queries.agent_views import REMEMBERED
from gpu_kernels.pool.ledger.queries.leases import in_force_of
from gpu_kernels.pool.ledger.state.capacity import adopted, takes_slices
from gpu_kernels.pool.ledger.state.rows import Agent, Gpu
from gpu_kernels.pool.ledger.state.states import State, Who
from gpu_kernels.pool.ledger.transaction import RefusedRegistration, Transaction
from gpu_kernels.resources.agents import OfferedGpu, Registration

RESTARTED = f"The GPU server restarted; what ran on it is lost.\n{ASK_ANEW}"
GPU_GONE = f"The GPU is gone from its server.\n{ASK_ANEW}"
TOLD_EVERY = 60_000
"""Of one name: an agent that is refused tries again every few seconds, for as long as it is left running."""
MOST_REMEMBERED = 1000


def register(tx: Transaction, name: str, said: Registration, *, owner: str) -> Agent:
    """Take an agent and its GPUs into the pool, or take note that it is another process now.

    A new boot has no workers, so what was active under the last one is lost and is taken back; its slices
    are free once the new boot reports. Raises ``AgentElsewhere`` while the last boot answers from another
    address or by another token, ``Conflict`` when one of the GPUs is another agent's.
    """
    known = tx.book.agents.get(name)
    if known is not None:
        check_place(tx, known, owner, said.address)
    _check_claims(tx, name, said.gpus)
    agent = known or Agent(
        name=name, owner=owner, boot_id="", address="", version="", registered_at=tx.now, reported_at=tx.now
    )
    rebooted = known is not None and known.boot_id != said.boot_id
    agent = tx.change(
        agent,
        owner=owner,
        boot_id=said.boot_id,
        address=said.address,
        version=said.version,
        registered_at=tx.now,
        reported_at=tx.now,
        fences_after=round(said.fences_after * 1000) or None,
    )
    present = _offer(tx, agent, said.gpus)
    for lease in in_force_of(tx, agent):
        if rebooted and lease.state == State.ACTIVE:
            revoke(tx, lease, who=Who.DECISION, actor=name, reason=RESTARTED)
    for lease in in_force_of(tx, agent):
        if any(part.gpu_id not in present for part in tx.book.parts(lease)):
            revoke(tx, lease, who=Who.DECISION, actor=name, reason=GPU_GONE)
    tx.event(owner, "registered", name, {"boot_id": said.boot_id, "gpus": len(said.gpus)})
    tx.agent_changed(name)
    tx.capacity_changed()
    return tx.book.agents[name]


def _check_claims(tx: Transaction, name: str, gpus: Sequence[OfferedGpu]) -> None:
    """Refuse a GPU that is there already: sold by two agents, its memory would be promised twice."""
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


def check_place(tx: Transaction, known: Agent, owner: str, address: str) -> None:
    """Refuse a registration from another address, or by another token's owner, while the agent answers.
    A controller that has just started, or stood still, does not know yet who is silent.
    """
    heard = max(known.reported_at, tx.watched_since)
    left = heard + tx.timing.agent_ttl - tx.now
    if not known.boot_id or left <= 0 or (known.owner, known.address) == (owner, address):
        return
    seconds = tx.timing.agent_ttl / 1000
    differs = f"from {address}" if known.address != address else f"by a token of {owner}"
    raise AgentElsewhere(
        f"The GPU server {known.name} answers from {known.address}: it cannot be registered {differs}.\n"
        f"If it was moved, stop its agent there; this one is let in {duration(seconds)} after the last "
        "report of that one, or once an admin says that nothing runs there: "
        f"jupyter gpu agents lost {known.name}\n"
        f"If it was not, its token is in other hands: jupyter gpu agents remove-token {known.name}",
        log_message=f"{known.name} answers from {known.address}; refused {address} by {owner}",
        retry_after=max(1.0, left / 1000),
        details={"agent": known.name, "address": known.address, "refused": address},
    )


def note_refused(tx: Transaction, name: str, *, owner: str, address: str, why: str) -> None:
    """Tell the admin of a registration that was refused; ``why`` is the refusal's code."""
    before = tx.refused.get(name)
    if before is None or before.at < tx.now - REMEMBERED:
        before = RefusedRegistration(tx.now, address, why, 0)
    now = replace(before, at=tx.now, address=address, why=why, times=before.times + 1)
    if tx.now - before.told_at >= TOLD_EVERY:
        tx.event(owner, "registration_refused", name, {"address": address, "why": why, "times": now.times})
        now = replace(now, told_at=tx.now)

    def keep() -> None:
        tx.refused[name] = now
        while len(tx.refused) > MOST_REMEMBERED:
            del tx.refused[min(tx.refused, key=lambda known: tx.refused[known].at)]

    tx.when_committed(keep)
