"""Tokens that the controller itself issues to GPU servers, each for one name: made, listed, taken back, and
known again when a server calls.

No hub is asked about one of them, so a GPU server's right does not depend on a service of the hub that all
servers would share.
"""

from __future__ import annotations

import hashlib
import secrets

from msgspec.structs import asdict

from gpu_kernels.errors import Conflict, UnknownAgentToken
from gpu_kernels.pool.ledger.commands import agent_tokens
from gpu_kernels.pool.ledger.queries import agent_views
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.service.agents import checked_name
from gpu_kernels.pool.service.authentication import TokenSource
from gpu_kernels.pool.service.base import Handler
from gpu_kernels.pool.service.desk import Desk
from gpu_kernels.pool.service.identity import ADMIN_POOL, AGENT, Identity
from gpu_kernels.pool.service.operations import operation
from gpu_kernels.pool.service.schemas import agents as schemas
from gpu_kernels.resources import agents as resources

PREFIX = "gpu-agent-"
"""How each of them begins: by it the source that knows a token is chosen, and whoever finds one knows what
it is.
"""
RANDOM_BYTES = 32


def identity_of(agent: str) -> Identity:
    """Whose token it is: nobody's but that GPU server's, with no other right."""
    return Identity(f"agent:{agent}", frozenset(), frozenset({f"{AGENT}!server={agent}"}))


class IssuedTokens:
    """A source of tokens: those that begin with ``PREFIX`` are the ledger's, all others ``others``'."""

    def __init__(self, desk: Desk, others: TokenSource) -> None:
        self._desk, self._others = desk, others

    async def identify(self, token: str) -> Identity | None:
        if not token.startswith(PREFIX):
            return await self._others.identify(token)
        digest = hashlib.sha256(token.encode()).hexdigest()
        row = await self._desk.read(lambda tx: tx.book.agent_tokens.get(digest))
        return None if row is None else identity_of(row.agent)


class AgentTokens(Handler):
    """``/agent-tokens``"""

    @operation("List GPU servers' tokens", scope=ADMIN_POOL, answers={200: resources.AgentTokenList})
    async def get(self) -> None:
        """By server. No token is told: the controller keeps none, only their SHA-256."""
        self.answer(await self.service.desk.read(agent_views.agent_tokens))

    @operation(
        "Make a GPU server's token",
        scope=ADMIN_POOL,
        body=schemas.NewAgentToken,
        answers={201: resources.MadeAgentToken},
        errors=[Conflict],
    )
    async def post(self, *, body: schemas.NewAgentToken) -> None:
        """With it a server registers under this name, and under no other. This answer is the only place where
        the token is ever told.
        """
        agent, actor = checked_name(body.agent), self.identity.name
        token = PREFIX + secrets.token_hex(RANDOM_BYTES)
        digest = hashlib.sha256(token.encode()).hexdigest()

        def add(tx: Transaction) -> resources.AgentToken:
            return agent_views.agent_token_view(agent_tokens.add(tx, agent, digest, actor=actor))

        made = await self.service.desk.write(add)
        self.answer(resources.MadeAgentToken(**asdict(made), token=token), status=201)


class OneAgentToken(Handler):
    """``/agent-tokens/ID``"""

    @operation(
        "Take a GPU server's token back",
        scope=ADMIN_POOL,
        answers={200: resources.AgentToken},
        errors=[UnknownAgentToken],
    )
    async def delete(self, token_id: str) -> None:
        """At once: the next report with it is refused. What the server serves goes on until it fences itself;
        `POST /agents/{name}/lost` gives its slices to others.
        """
        actor = self.identity.name
        row = await self.service.desk.write(lambda tx: agent_tokens.remove(tx, token_id, actor=actor))
        self.service.authenticator.forget(row.sha256)
        self.answer(agent_views.agent_token_view(row))
