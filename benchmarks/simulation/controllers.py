"""Two controllers on one store in memory, active and standby by its term, each of which may die at any
statement, stand still, and come back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.simulation.faulty_store import Died, FaultyStore
from benchmarks.simulation.world import World
from gpu_kernels.errors import LedgerUnavailable, NotActive, PoolError
from gpu_kernels.pool.ledger import ClockGuard, Ledger, Timing, Transaction
from gpu_kernels.pool.ledger.commands.sweep import sweep
from gpu_kernels.pool.ledger.state.rows import Change, Row
from gpu_kernels.pool.ledger.stores import Deposed, Leading
from gpu_kernels.pool.ledger.stores.memory import Disk, MemoryStore

TERM_TTL = 10.0
SWEEP_EVERY = 1.0
LEASE_TTL = 20.0
TIMING = Timing(
    lease_ttl=round(LEASE_TTL * 1000), agent_ttl=15_000, queue_ttl=30_000, swap_rest=200_000,
    remember_ended=600_000,
)  # fmt: skip
COURSES = {"ml101": {"V100": 1700}, "cv202": {"V100": 3000}}
Work = Callable[[Transaction], Any]
Answer = Callable[[Any, Exception | None], None]


class TermStore(MemoryStore):
    """A store in memory whose term ends when nobody renews it, by the store's clock."""

    renewed_at: dict[int, int]

    def __init__(self, world: World, disk: Disk, renewed_at: dict[int, int]) -> None:
        super().__init__(world.store_clock, lambda: f"{world.chance.getrandbits(64):016x}", disk)
        self.renewed_at = renewed_at

    def lead(self, holder: str, address: str, *, alone: bool = False) -> Leading:
        last = self.renewed_at.get(self.disk.term)
        if not alone and last is not None and abs(self._now() - last) <= TERM_TTL * 1000:
            raise Deposed("Another controller has the term.")
        leading = super().lead(holder, address, alone=alone)
        self.renewed_at[self.disk.term] = self._now()
        return leading

    def write(self, changes: list[Change]) -> None:  # type: ignore[override]
        super().write(changes)
        self.renewed_at[self.disk.term] = self._now()

    def renew_term(self) -> None:
        self.renewed_at[self.disk.term] = self._now()


class Controller:
    """One controller's host: a process runs on it, or is about to be started again."""

    def __init__(self, world: World, name: str, pool: Pool) -> None:
        self.world, self.name, self.pool = world, name, pool
        self.ledger: Ledger | None = None
        self.store: FaultyStore | None = None
        self.active = False
        self.paused_until = 0.0
        self.boot = 0
        self._start()
        world.every(0.8 * SWEEP_EVERY, 1.2 * SWEEP_EVERY, self._sweep)
        world.every(1.0, 3.0, self._look_at_the_term)

    @property
    def runs(self) -> bool:
        return self.store is not None and self.world.now >= self.paused_until

    def _start(self) -> None:
        self.boot += 1
        self.store = FaultyStore(TermStore(self.world, self.pool.disk, self.pool.renewed_at))
        clock_guard = ClockGuard(SWEEP_EVERY * 1000, TIMING.lease_ttl, lambda: self.world.now)
        self.ledger = Ledger(self.store, TIMING, clock_guard=clock_guard, holder=self.name)
        self.active = False

    def dies(self) -> None:
        """kill -9; something starts it again."""
        if self.store is None:
            return
        self.world.note(self.name, "dies")
        self.store = self.ledger = None
        self.active = False
        self.world.after(self.world.chance.uniform(0.5, 15.0), self._start_again)

    def _start_again(self) -> None:
        if self.store is None:
            self._start()

    def _look_at_the_term(self) -> None:
        if not self.runs or self.ledger is None:
            return
        if self.active:
            self.run(lambda tx: None, lambda result, error: None)
            return
        try:
            self.ledger.start(COURSES, alone=False)
            self.active = True
            self.world.note(self.name, "is active")
        except Died:
            self.dies()
        except (Deposed, NotActive, LedgerUnavailable):
            pass

    def _sweep(self) -> None:
        if self.runs and self.active:
            self.run(sweep, lambda result, error: None)

    def run(self, work: Work, answer: Answer) -> None:
        """One request; nobody is answered by a process that dies over it."""
        if not self.runs or self.ledger is None:
            return
        if not self.active:
            answer(None, NotActive("On standby."))
            return
        result, error = None, None
        try:
            result = self.ledger.write(work)[0]
        except Died:
            self.dies()
            self.pool.checked()
            return
        except (Deposed, NotActive) as failure:
            self.active = False
            self._start()
            error = failure
        except PoolError as failure:
            error = failure
        self.pool.checked()
        answer(result, error)

    def asked(self, client: str, work: Work, answer: Answer) -> None:
        """A request that has arrived over the network; the answer goes the same way back."""
        if self.world.now < self.paused_until:
            self.world.at(self.paused_until, lambda: self.asked(client, work, answer))
            return
        self.run(
            work,
            lambda result, error: self.world.send(self.name, client, lambda: answer(result, error)),
        )


class Pool:
    """The controllers and their store. ``check`` is called after whatever may have changed the store."""

    def __init__(self, world: World, check: Callable[[], None]) -> None:
        self.world = world
        self.disk = Disk()
        self.renewed_at: dict[int, int] = {}
        self.checked = check
        self.controllers = [Controller(world, name, self) for name in ("controller-a", "controller-b")]

    def ask(self, client: str, number: int, work: Work, answer: Answer) -> None:
        """Ask one of the controllers; a client tries them in turn."""
        controller = self.controllers[number % len(self.controllers)]
        self.world.send(client, controller.name, lambda: controller.asked(client, work, answer))

    def active(self) -> Controller | None:
        return next((each for each in self.controllers if each.active and each.runs), None)

    def rows(self, kind: type[Row]) -> Any:
        return self.disk.rows[kind].values()
