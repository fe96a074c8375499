"""One simulated pool: what it is made of, what is done to it, and what must hold all the while."""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from benchmarks.simulation.actors import FENCES_AFTER, Agent, Client
from benchmarks.simulation.controllers import LEASE_TTL, TERM_TTL, Pool
from benchmarks.simulation.invariants import (
    FINAL,
    HOLDING,
    Tables,
    check_epochs,
    check_gpus,
    check_quotas,
    check_slots,
)
from benchmarks.simulation.server import MIB, Server
from benchmarks.simulation.world import Chances, World
from gpu_kernels.pool.ledger.commands.termination import NOT_RENEWED
from gpu_kernels.pool.ledger.queries import audit
from gpu_kernels.pool.ledger.state.rows import TABLES, Event, Lease

FLEET = (("one", 2, FENCES_AFTER), ("two", 1, FENCES_AFTER), ("three", 1, 0.0))
USERS = 12
SETTLING = 300.0
WHOLE_CHECK_EVERY = 20
"""The sums of all rows are checked after so many writes; who uses what, after each."""


@dataclass
class Result:
    """What happened under a seed. ``trace``: the same for a replay."""

    seed: int
    steps: int = 0
    grants: int = 0
    workers: int = 0
    terms: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    trace: str = ""


class Simulation:
    def __init__(self, seed: int, chances: Chances | None = None) -> None:
        self.world = World(seed, chances or Chances())
        self.result = Result(seed)
        self.pool = Pool(self.world, self._check)
        self.agents = {
            name: Agent(self.world, self.pool, Server(name, "V100", gpus, fences))
            for name, gpus, fences in FLEET
        }
        self._promised: dict[str, float] = {}
        self.clients = [
            Client(
                self.world, self.pool, f"user-{number}", ("ml101", "cv202")[number % 2], self.agents,
                self._promised,
            )
            for number in range(USERS)
        ]  # fmt: skip
        self._known: dict[str, Lease] = {}
        self._served: set[tuple[str, int]] = set()
        self._before = Tables()
        self._writes = 0
        self._trouble()

    def run(self, seconds: float) -> Result:
        """Let so much time pass under faults; then let all clients go, and see that nothing is left."""
        world = self.world
        world.run_until(world.now + seconds)
        world.calm = True
        for client in self.clients:
            client.stopping = True
        for agent in self.agents.values():
            agent.paused_until = agent.off_until = 0.0
        for controller in self.pool.controllers:
            controller.paused_until = 0.0
            if controller.store is not None:
                controller.store.heal()
        world.run_until(world.now + SETTLING)
        self._check_all()
        self._nothing_is_left()
        self.result.steps, self.result.faults = world.steps, world.faults
        self.result.grants = sum(1 for lease in self.pool.rows(Lease) if lease.epoch)
        self.result.workers, self.result.terms = len(self._served), self.pool.disk.term
        self.result.trace = world.trace()
        return self.result

    # --- faults

    def _trouble(self) -> None:
        world, chances = self.world, self.world.chances
        controllers, agents = self.pool.controllers, list(self.agents.values())

        def count(kind: str) -> None:
            world.faults[kind] += 1
            world.note(kind)

        def controller_dies() -> None:
            count("controller killed")
            world.chance.choice(controllers).dies()

        def agent_dies() -> None:
            count("agent killed")
            world.chance.choice(agents).is_killed()

        def at_a_statement() -> None:
            active = self.pool.active()
            if active is not None and active.store is not None:
                fault = world.any_fault()
                count(f"at a statement: {fault}")
                active.store.strike(fault, world.chance.randrange(30))

        def pauses() -> None:
            seconds = world.chance.choice((3.0, TERM_TTL * 1.5, LEASE_TTL * 2.5))
            if world.chance.random() < 0.5:
                count("controller stopped")
                world.chance.choice(controllers).paused_until = world.now + seconds
            else:
                count("agent stopped")
                world.chance.choice(agents).pauses(seconds + world.chance.choice((0.0, FENCES_AFTER * 2)))

        def machine_lost() -> None:
            count("GPU server off")
            world.chance.choice(agents).machine_is_off(world.chance.uniform(20, 200))

        def clock_set() -> None:
            count("store's clock set")
            world.clock_offset += world.chance.choice((-3600.0, -60.0, -8.0, 8.0, 60.0, 7200.0))

        def partition() -> None:
            names = [each.name for each in (*controllers, *agents, *self.clients)]
            seconds = world.chance.expovariate(1 / 15.0)
            world.cut(world.chance.choice(controllers).name, world.chance.choice(names), seconds)

        def client_dies() -> None:
            count("client killed")
            world.chance.choice(self.clients).crashes()

        world.happens(chances.crashes, controller_dies)
        world.happens(chances.crashes, agent_dies)
        world.happens(chances.statements, at_a_statement)
        world.happens(chances.pauses, pauses)
        world.happens(chances.machines_lost, machine_lost)
        world.happens(chances.clock_steps, clock_set)
        world.happens(chances.partitions, partition)
        world.happens(chances.client_crashes, client_dies)

    # --- what must hold

    def _wrong(self, text: str) -> None:
        if len(self.result.violations) < 100:
            self.result.violations.append(f"at {self.world.now:.3f} s: {text}")

    def _check(self) -> None:
        """After each write: who lives on a server is counted in the ledger, and nobody lost what was
        renewed.
        """
        self._writes += 1
        leases = self.pool.disk.rows[Lease]
        for agent in self.agents.values():
            used: Counter[str] = Counter()
            for worker, part in agent.server.in_use():
                self._served.add((worker.lease, worker.epoch))
                used[part.gpu] += part.mib
                lease = leases.get((worker.lease,))
                if lease is None or lease.state not in HOLDING:  # type: ignore[attr-defined]
                    self._wrong(f"{worker} lives on {agent.name}, and its lease is {lease}")
            for gpu, mib in used.items():
                if mib > MIB[agent.server.gpu_class]:
                    self._wrong(f"{mib} MiB of {gpu} are in use")
        self._check_expiries()
        if self._writes % WHOLE_CHECK_EVERY == 0:
            self._check_all()

    def _check_expiries(self) -> None:
        for lease in self.pool.rows(Lease):
            old = self._known.get(lease.id)
            if old is lease:
                continue
            self._known[lease.id] = lease
            self.world.note(lease.id, lease.state, lease.epoch)
            if lease.reason == NOT_RENEWED and (old is None or old.reason != NOT_RENEWED):
                left = self._promised.get(lease.id, 0.0) - self.world.now
                if left > 0.002:
                    self._wrong(f"{lease.id} expired {left:.3f} s before what its owner was told")

    def _check_all(self) -> None:
        tables = Tables.of(row for kind in TABLES if kind is not Event for row in self.pool.rows(kind))
        try:
            check_gpus(tables)
            check_slots(tables)
            check_epochs(tables, self._before)
            check_quotas(tables, tables)
        except AssertionError as error:
            self._wrong(str(error))
        self._before = tables
        active = self.pool.active()
        if active is not None and active.ledger is not None and active.store is not None:
            with active.store.spared():
                found = active.ledger.read(audit.differences)
            for text in found:
                if not text.startswith("agent "):
                    self._wrong(text)

    def _nothing_is_left(self) -> None:
        for lease in self.pool.rows(Lease):
            if lease.state not in FINAL:
                self._wrong(f"leaked: {lease}")
        for agent in self.agents.values():
            if agent.server.workers:
                self._wrong(f"workers are left on {agent.name}: {agent.server.workers}")


@contextmanager
def chosen_by(seed: int) -> Iterator[None]:
    """Within, what is otherwise random by the system is the seed's choice: ids of leases."""
    chance, real = Random(seed), secrets.token_hex
    secrets.token_hex = lambda count=16: f"{chance.getrandbits(8 * (count or 16)):0{2 * (count or 16)}x}"
    try:
        yield
    finally:
        secrets.token_hex = real


def simulate(seed: int, seconds: float, chances: Chances | None = None) -> Result:
    """A pool under the faults of this seed for so long; exactly the same each time."""
    with chosen_by(seed), _quiet(logging.getLogger("gpu_kernels")):
        return Simulation(seed, chances).run(seconds)


@contextmanager
def _quiet(log: logging.Logger) -> Iterator[None]:
    """Faults are what a simulation is made of: a line for each would be all that there is to read."""
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)
