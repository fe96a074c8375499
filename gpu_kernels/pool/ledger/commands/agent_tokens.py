"""Tokens of GPU servers: each speaks for one name. The ledger keeps their SHA-256 and never a token."""

from __future__ import annotations

from gpu_kernels.errors import Conflict, UnknownAgentToken
from gpu_kernels.pool.ledger.state.rows import AgentToken
from gpu_kernels.pool.ledger.transaction import Transaction

MOST_OF_ONE = 4
"""Tokens of one name: the one in use, and room to bring a server its next one before the old one goes."""
MOST = 2000


def add(tx: Transaction, agent: str, sha256: str, *, actor: str) -> AgentToken:
    """Take a token in. Raises ``Conflict`` where the name has as many as it may have."""
    there = of_agent(tx, agent)
    if len(there) >= MOST_OF_ONE:
        raise Conflict(
            f"{agent} has {len(there)} tokens, and a GPU server may have at most {MOST_OF_ONE}.\n"
            f"Remove those that it does not use: jupyter gpu agents remove-token {agent}",
            details={"agent": agent, "limit": MOST_OF_ONE},
        )
    if len(tx.book.agent_tokens) >= MOST:
        raise Conflict(
            f"The pool keeps {MOST} tokens of GPU servers at most.\n"
            "Remove those of servers that are gone: jupyter gpu agents tokens",
            details={"limit": MOST},
        )
    row = tx.put(AgentToken(sha256=sha256, agent=agent, created_by=actor[:255], created_at=tx.now))
    tx.event(actor, "agent_token_added", agent, {"token": row.id})
    return row


def remove(tx: Transaction, token_id: str, *, actor: str) -> AgentToken:
    """Take a token back; what it registered stays as it is. Raises ``UnknownAgentToken``."""
    for row in tx.book.agent_tokens.values():
        if row.id == token_id:
            tx.drop(row)
            tx.event(actor, "agent_token_removed", row.agent, {"token": token_id})
            return row
    raise UnknownAgentToken(f"There is no token {token_id[:40]!r} of a GPU server.")


def of_agent(tx: Transaction, agent: str) -> list[AgentToken]:
    return [row for row in tx.book.agent_tokens.values() if row.agent == agent]
