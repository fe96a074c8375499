"""Who talks to the controllers: GPU servers' agents, and clients with their keepers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.simulation.controllers import LEASE_TTL, Pool
from benchmarks.simulation.server import Report, Server
from benchmarks.simulation.world import World
from gpu_kernels.errors import AgentReplaced, NotActive, Refused, UnknownAgent
from gpu_kernels.pool.ledger import Transaction
from gpu_kernels.pool.ledger.commands import agent_reports, registration, release, reservation
from gpu_kernels.pool.ledger.commands.renewal import Renewal, keep_waiting, renew
from gpu_kernels.pool.ledger.queries import agent_views
from gpu_kernels.pool.ledger.state.rows import Lease
from gpu_kernels.resources.agents import Assignment, Registration
from gpu_kernels.units import parse_size

GIVE_UP = 5.0
"""Seconds after which an agent or a client takes an answer for lost."""
FENCES_AFTER = 20.0
SIZES = ("0.02 V100", "0.1 V100", "0.25 V100", "0.5 V100", "1 V100", "2 V100", "4096 MiB")


class Caller:
    """Asks the controllers in turn, one request at a time, and takes only answers to its newest request."""

    def __init__(self, world: World, pool: Pool, name: str) -> None:
        self.world, self.pool, self.name = world, pool, name
        self._request = 0
        self._controller = 0

    def ask(self, work: Any, then: Callable[[Any, Exception | None], None]) -> None:
        """``then`` hears the answer, or a ``TimeoutError`` when none has come."""
        self._request += 1
        number = self._request

        def answer(result: Any, error: Exception | None) -> None:
            if number != self._request:
                return  # given up, or answered before
            self._request += 1
            if isinstance(error, NotActive | TimeoutError):
                self._controller += 1
            then(result, error)

        self.pool.ask(self.name, self._controller, work, answer)
        self.world.after(GIVE_UP, lambda: answer(None, TimeoutError()))


class Agent(Caller):
    """A server's agent process, over and over. Its clock goes faster or slower by ``drift``."""

    def __init__(self, world: World, pool: Pool, server: Server) -> None:
        super().__init__(world, pool, server.name)
        self.server = server
        self.off_until = 0.0
        self.paused_until = 0.0
        self.drift = world.chance.uniform(-0.05, 0.05)
        self._busy = False
        world.every(1.0, 3.0, self._report)
        world.every(0.1, 0.3, self._fence)

    def clock(self) -> float:
        return self.world.now * (1 + self.drift)

    def pauses(self, seconds: float) -> None:
        self.paused_until = self.world.now + seconds

    def is_killed(self) -> None:
        self.server.is_killed()
        self._request += 1  # nobody waits for what it had asked
        self._busy = False
        for worker in list(self.server.workers):
            self._dies_soon(worker)

    def machine_is_off(self, seconds: float) -> None:
        self.is_killed()
        self.server.workers.clear()
        self.off_until = self.world.now + seconds

    def _dies_soon(self, worker: Any) -> None:
        self.world.after(
            self.world.chance.expovariate(1 / 0.2),
            lambda: self.server.workers.remove(worker) if worker in self.server.workers else None,
        )

    def _fence(self) -> None:
        server = self.server
        dying = [worker for worker in server.workers if worker.dying]
        server.paused = self.world.now < self.paused_until
        server.time_passes(self.clock())
        for worker in server.workers:
            if worker.dying and worker not in dying:
                self._dies_soon(worker)

    def _report(self) -> None:
        server, world = self.server, self.world
        if world.now < self.off_until or world.now < self.paused_until or self._busy:
            return
        if server.boot is None and not server.starts():
            return
        self._busy = True
        if not server.registered:
            self.ask(partial(self._register, said=server.registration()), self._registered)
            return
        report = server.report(self.clock())
        self.ask(partial(take_report, report=report), partial(self._told, report))

    def _register(self, tx: Transaction, said: Registration) -> None:
        registration.register(tx, self.server.name, said, owner="gpu-server")

    def _registered(self, result: Any, error: Exception | None) -> None:
        self._busy = False
        if error is None and self.server.boot is not None:
            self.server.registered = True
            self.server.grants.forget_sequence()

    def _told(self, report: Report, told: Assignment | None, error: Exception | None) -> None:
        self._busy = False
        server = self.server
        if server.boot != report.said.boot_id:
            return
        if isinstance(error, AgentReplaced):
            server.is_replaced()
        elif isinstance(error, UnknownAgent):
            server.registered = False
        elif told is not None:
            if self.world.now < self.paused_until:
                self.world.at(self.paused_until, partial(self._told, report, told, error))
                return
            server.hears(told, report, self.clock())
        for worker in server.workers:
            if worker.dying:
                self._dies_soon(worker)

    def connected(self, lease: str, epoch: int) -> bool:
        """A client's connection arrives."""
        if self.world.now < max(self.off_until, self.paused_until):
            return False
        return self.server.serves(lease, epoch, self.clock())


def take_report(tx: Transaction, report: Report) -> Assignment:
    agent_reports.report(tx, report.agent, report.said, owner="gpu-server")
    return agent_views.agent_told(tx, report.agent, report.said)


class Client(Caller):
    """A user's kernel after another: asks, uses, renews, gives back; or dies and gives nothing back."""

    def __init__(
        self, world: World, pool: Pool, name: str, course: str, servers: dict[str, Agent],
        promised: dict[str, float],
    ) -> None:  # fmt: skip
        super().__init__(world, pool, name)
        self._course, self._servers, self._promised = course, servers, promised
        self._keys = 0
        self.stopping = False
        self.grants = 0
        world.after(world.chance.uniform(0, 20), self._begin)

    def crashes(self) -> None:
        """The whole Jupyter server is gone; another kernel is asked for later."""
        self._request += 1
        self._keys += 1
        self.world.after(self.world.chance.uniform(1, 30), self._begin)

    def _begin(self) -> None:
        if self.stopping:
            return
        self._keys += 1
        self._ask_for(self._keys, self.world.chance.choice(SIZES), self.world.chance.choice((0, 20_000)))

    def _again(self, life: int) -> None:
        if life == self._keys:
            self.world.after(self.world.chance.expovariate(1 / 8.0), self._begin)

    def _ask_for(self, life: int, size: str, wait: int) -> None:
        path = f"{life % 3}.ipynb"
        key = f"{self.name}-{life}"
        request = reservation.LeaseRequest(
            self.name, [self._course], None, parse_size(size), key, "", path, key, wait, {}
        )

        def then(lease: Lease | None, error: Exception | None) -> None:
            if life != self._keys:
                return
            if lease is not None:
                self._has(life, lease)
            elif isinstance(error, Refused):
                self._again(life)
            else:  # nobody knows: the same again
                self.world.after(0.5, lambda: life == self._keys and self._ask_for(life, size, wait))

        self.ask(lambda tx: reservation.reserve(tx, request), then)

    def _has(self, life: int, lease: Lease) -> None:
        if lease.state == "queued":
            self.world.after(3.0, lambda: self._look(life, lease))
        elif lease.state in ("reserved", "active"):
            self.grants += 1
            until = self.world.now + self.world.chance.expovariate(1 / 30.0)
            self._keep(life, lease, until)
            self._connect(life, lease)
        else:
            self._again(life)

    def _look(self, life: int, lease: Lease) -> None:
        if life != self._keys or self.stopping:
            return

        def then(found: Lease | None, error: Exception | None) -> None:
            if life == self._keys:
                self._has(life, found if found is not None else lease)

        self.ask(lambda tx: keep_waiting(tx, self.name, lease.id), then)

    def _connect(self, life: int, lease: Lease) -> None:
        """The kernel's calls: they reach the server, and are made again when a worker is gone."""
        if life != self._keys or self.stopping:
            return
        agent = self._servers[lease.agent_name or ""]
        self.world.send(self.name, agent.name, lambda: agent.connected(lease.id, lease.epoch))
        self.world.after(self.world.chance.uniform(1.0, 6.0), lambda: self._connect(life, lease))

    def _keep(self, life: int, lease: Lease, until: float) -> None:
        if life != self._keys:
            return
        if self.world.now >= until or self.stopping:
            self._release(life, lease)
            return
        started = self.world.now

        def then(renewal: Renewal | None, error: Exception | None) -> None:
            if life != self._keys:
                return
            if renewal is not None and lease.id in renewal.left:
                good = started + renewal.left[lease.id]
                self._promised[lease.id] = max(good, self._promised.get(lease.id, 0.0))
            elif renewal is not None:
                self._again(life)
                return
            self.world.after(LEASE_TTL / 4, lambda: self._keep(life, lease, until))

        self.ask(lambda tx: renew(tx, self.name, [(lease.id, lease.epoch)]), then)

    def _release(self, life: int, lease: Lease) -> None:
        def then(result: Any, error: Exception | None) -> None:
            if life != self._keys:
                return
            if error is not None and self.world.chance.random() < 0.9:
                self.world.after(0.5, lambda: self._release(life, lease))
            else:
                self._again(life)

        self.ask(lambda tx: release.release(tx, self.name, lease.id, lease.holder), then)
