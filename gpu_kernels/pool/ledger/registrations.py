"""Who may register under a GPU server's name while it answers, and what the admin is told of who may not.

A token is bound to its server's name, so whoever registers from elsewhere has that server's token: it has
been moved, or the token was taken. Moved, the old one falls silent, and the new one is let in a moment later;
taken, the old one goes on, keeps its place, and the admin hears of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpu_kernels.durations import duration
from gpu_kernels.errors import AgentElsewhere
from gpu_kernels.pool.ledger.rows import Agent
from gpu_kernels.pool.ledger.transaction import RefusedRegistration, Transaction

TOLD_EVERY = 60_000
"""Of one name: an agent that is refused tries again every few seconds, for as long as it is left running."""
REMEMBERED = 3_600_000
MOST_REMEMBERED = 1000


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


def refused_view(tx: Transaction, name: str) -> dict[str, Any] | None:
    """The last registration of this name that was refused, for an admin, if that is not long ago."""
    last = tx.refused.get(name)
    if last is None or last.at < tx.now - REMEMBERED:
        return None
    ago = max(0, tx.now - last.at) / 1000
    return {"address": last.address, "why": last.why, "times": last.times, "ago": ago}
