"""The agents' part of the API: registration and reports."""

from __future__ import annotations

import re
import time

from msgspec.structs import replace

from gpu_kernels.errors import (
    AddressRefused,
    AgentElsewhere,
    AgentReplaced,
    Conflict,
    Forbidden,
    InvalidRequest,
    LedgerUnavailable,
    PoolError,
    PoolUnavailable,
    TooMany,
    UnknownAgent,
)
from gpu_kernels.pool.ledger.commands import agent_reports, registration, servers
from gpu_kernels.pool.ledger.queries import agent_views
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.addresses import Addresses
from gpu_kernels.pool.service.accounting import instant
from gpu_kernels.pool.service.base import Handler
from gpu_kernels.pool.service.identity import ADMIN_POOL, AGENT
from gpu_kernels.pool.service.operations import operation
from gpu_kernels.pool.service.schemas import agents as schemas
from gpu_kernels.pool.service.waiting import agent_topic
from gpu_kernels.resources import agents as resources

LEDGER_COUNTS_BY = 0.001
"""Seconds; its clock shows whole ones of them, so that an `expires_in` may be one too long."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def checked_name(name: str) -> str:
    """A GPU server's name. Raises ``InvalidRequest``."""
    if not NAME.fullmatch(name):
        raise InvalidRequest(
            f"An agent's name has up to 64 letters, digits, '.', '_', '-'; not {name[:70]!r}."
        )
    return name


def address_refused(addresses: Addresses, name: str, address: str) -> AddressRefused | None:
    """Why no GPU server may be at this address, where none may."""
    wrong = addresses.refusal(address)
    if wrong is None:
        return None
    return AddressRefused(
        f"The GPU server {name} may not announce {address}: {wrong}.\n"
        "The pool's administrator lists where its GPU servers are: PoolController.agent_networks.",
        details={"agent": name, "address": address},
    )


class AgentHandler(Handler):
    def own_name(self, name: str) -> str:
        """The name, if the token is bound to it. Raises ``InvalidRequest``, ``Forbidden``."""
        name = checked_name(name)
        if not self.identity.speaks_for(name):
            raise Forbidden(
                f"This token of {self.identity.name} is not bound to the GPU server {name}: it may not "
                "register or report under that name.\n"
                f"An admin makes one that is: jupyter gpu agents add {name}",
                details={"scope": f"{AGENT}!server={name}"},
            )
        return name


class Agents(Handler):
    """``/agents``"""

    @operation("List GPU servers", scope=ADMIN_POOL, answers={200: resources.AgentList})
    async def get(self) -> None:
        """All agents, and how long each has been silent."""
        self.answer(await self.service.desk.read(agent_views.agents))


class OneAgent(AgentHandler):
    """``/agents/NAME``"""

    vital = True

    @operation(
        "Register a GPU server",
        scope=AGENT,
        body=resources.Registration,
        answers={200: resources.Registered},
        errors=[AddressRefused, AgentElsewhere, Conflict],
    )
    async def put(self, name: str, *, body: resources.Registration) -> None:
        """Another `boot_id` than before says that nothing of the last process lives: its `active` leases are
        taken back. The token must be bound to the name. While the server answers, nobody registers as it from
        another address or by another token: `agent_elsewhere` says until when. The setting `agent_networks`
        says which addresses there may be. The admin is told of both refusals.
        """
        name = self.own_name(name)
        owner = self.identity.name
        wrong = address_refused(self.service.addresses, name, body.address)

        def register(tx: Transaction) -> int | PoolError:
            """A refusal is written down too, so it is no error of the ledger's."""
            refusal: PoolError | None = wrong
            if refusal is None:
                try:
                    return registration.register(tx, name, body, owner=owner).target_seq
                except AgentElsewhere as error:
                    refusal = error
            registration.note_refused(tx, name, owner=owner, address=body.address, why=refusal.code)
            return refusal

        done = await self.service.desk.write(register)
        if isinstance(done, PoolError):
            self.service.metrics.registrations_refused.labels(name, done.code).inc()
            raise done
        self.answer(resources.Registered(name, done, self.report_within()))

    def report_within(self) -> float:
        """Seconds of silence that an agent should stay well below."""
        return self.service.desk.ledger.timing.agent_ttl / 3000


class Standing(Handler):
    """``/agents/{name}/standing``"""

    @operation(
        "Open, cordon or drain a GPU server",
        scope=ADMIN_POOL,
        body=schemas.AgentStanding,
        answers={200: resources.Agent},
        errors=[UnknownAgent],
    )
    async def put(self, name: str, *, body: schemas.AgentStanding) -> None:
        """Replaces all three. Times without an offset are in UTC."""
        actor = self.identity.name
        drain_by, ends_at = instant("drain_by", body.drain_by), instant("ends_at", body.ends_at)

        def change(tx: Transaction) -> resources.Agent:
            servers.set_standing(tx, name, body.standing, actor=actor, drain_by=drain_by, ends_at=ends_at)
            return agent_views.agent_view(tx, tx.book.agents[name])

        self.answer(await self.service.desk.write(change))


class Lost(Handler):
    """``/agents/{name}/lost``"""

    @operation(
        "Vouch that a GPU server is gone",
        scope=ADMIN_POOL,
        answers={200: resources.DeclaredLost},
        errors=[UnknownAgent],
    )
    async def post(self, name: str) -> None:
        """Frees everything on it. Whoever says so knows that nothing runs there any more: a server that is
        only cut off still computes for its users, and its slices would be given twice. A server that comes
        back registers anew.
        """
        actor = self.identity.name
        freed = await self.service.desk.write(lambda tx: servers.declare_lost(tx, name, actor=actor))
        self.answer(resources.DeclaredLost(name, freed))


class Report(AgentHandler):
    """``/agents/NAME/report``"""

    vital = True

    @operation(
        "Report what lives on a GPU server",
        scope=AGENT,
        body=resources.AgentReport,
        answers={200: resources.Assignment},
        errors=[AddressRefused, UnknownAgent, AgentReplaced, TooMany],
    )
    async def post(self, name: str, *, body: resources.AgentReport) -> None:
        """The request says which `target_seq` has been carried out, and every lease of which anything lives.
        The answer is everything that the agent should serve. With `wait` it comes when that differs from
        `target_seq`, or after that time (a third of `agent_ttl` at most). An ended lease is freed by a report
        that carries its change out and does not name it.
        """
        name = self.own_name(name)
        seconds = min(body.wait, self.service.desk.ledger.timing.agent_ttl / 3000)
        owner = self.identity.name
        came = looked = time.monotonic()
        end = came + seconds

        def look(tx: Transaction) -> resources.Assignment:
            agent = agent_reports.reporting(tx, name, owner=owner, boot_id=body.boot_id)
            if (wrong := address_refused(self.service.addresses, name, agent.address)) is not None:
                raise wrong  # it registered before the setting was changed
            return agent_views.agent_told(tx, name, body)

        def take(tx: Transaction) -> resources.Assignment:
            look(tx)
            agent_reports.report(tx, name, body, owner=owner)
            return look(tx)

        with self.service.bells.at(agent_topic(name), f"Agent {name} of {owner}") as bell:
            told = await self.service.desk.write(take)
            if seconds > 0:
                self.linger_at(bell)
            while told.target_seq == body.target_seq and (left := end - time.monotonic()) > 0:
                rang = await self.lingered(bell, left)
                if self.gone:
                    break
                # Also when the time is over: leases were renewed meanwhile. The clock is read before the
                # ledger's is, so that the agent is told too little rather than too much.
                at = time.monotonic()
                try:
                    told, looked = await self.service.desk.read(look), at
                except (LedgerUnavailable, PoolUnavailable):
                    if rang:
                        raise
                    break  # nothing has changed, and what was told when the report was taken holds
        held = max(0.0, looked - came - LEDGER_COUNTS_BY)
        name = "leases" if told.in_full else "changes"
        self.answer(replace(told, held=held, **{name: self._proven(told)}))

    def _proven(self, told: resources.Assignment) -> tuple[resources.AssignedLease, ...]:
        """The leases with that by which the agent checks their secrets."""
        digest = self.service.proofs.digest
        return tuple(replace(lease, secret_sha256=digest(lease.id, lease.epoch)) for lease in told.told)
