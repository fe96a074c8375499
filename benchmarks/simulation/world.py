"""Virtual time, chance, and the network between the parts: everything that a seed decides."""

from __future__ import annotations

import hashlib
import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from benchmarks.simulation.faulty_store import Fault


@dataclass(frozen=True)
class Chances:
    """How often what goes wrong. Of messages: parts of all; of the rest: times an hour."""

    lost: float = 0.02
    repeated: float = 0.02
    slow: float = 0.03
    partitions: float = 40.0
    crashes: float = 60.0
    statements: float = 120.0
    pauses: float = 30.0
    machines_lost: float = 6.0
    clock_steps: float = 12.0
    client_crashes: float = 60.0


@dataclass
class World:
    """The time is in seconds; ``at`` and ``after`` let something happen. ``faults`` counts by kind."""

    seed: int
    chances: Chances = field(default_factory=Chances)
    now: float = 1000.0
    clock_offset: float = 1_800_000_000.0
    steps: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    calm: bool = False
    """No new faults, and the network is whole: for the end."""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._cut: dict[frozenset[str], float] = {}
        self._trace = hashlib.sha256()

    def store_clock(self) -> int:
        """The database's clock, in milliseconds; it may be set."""
        return round((self.now + self.clock_offset) * 1000)

    def at(self, time: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (max(time, self.now), next(self._numbers), what))

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        self.at(self.now + seconds, what)

    def every(self, low: float, high: float, what: Callable[[], None]) -> None:
        """Again and again, with pauses between these bounds."""

        def again() -> None:
            what()
            self.after(self.chance.uniform(low, high), again)

        self.after(self.chance.uniform(0, high), again)

    def happens(self, an_hour: float, what: Callable[[], None]) -> None:
        """So many times an hour, at random moments, until calm."""

        def strike() -> None:
            if self.calm:
                return
            what()
            self.after(self.chance.expovariate(an_hour / 3600), strike)

        if an_hour:
            self.after(self.chance.expovariate(an_hour / 3600), strike)

    def run_until(self, end: float) -> None:
        while self._events and self._events[0][0] <= end:
            self.now, _, what = heapq.heappop(self._events)
            self.steps += 1
            what()
        self.now = end

    def note(self, *facts: Any) -> None:
        """Something that a replay must repeat exactly."""
        self._trace.update(repr((round(self.now, 6), *facts)).encode())

    def trace(self) -> str:
        """A digest of all that was noted."""
        return self._trace.hexdigest()[:16]

    # --- the network

    def send(self, source: str, target: str, deliver: Callable[[], None]) -> None:
        """A message on its way: lost, repeated, slow, overtaken, or as it should be."""
        if self._is_cut(source, target):
            self.faults["message into a partition"] += 1
            return
        copies = 1
        if not self.calm:
            if self.chance.random() < self.chances.lost:
                self.faults["message lost"] += 1
                return
            if self.chance.random() < self.chances.repeated:
                self.faults["message repeated"] += 1
                copies = 2
        for _ in range(copies):
            delay = self.chance.expovariate(1 / 0.02)
            if not self.calm and self.chance.random() < self.chances.slow:
                self.faults["message slow"] += 1
                delay += self.chance.expovariate(1 / 4.0)
            self.after(delay, deliver)

    def cut(self, one: str, other: str, seconds: float) -> None:
        self.faults["partition"] += 1
        self._cut[frozenset((one, other))] = self.now + seconds

    def _is_cut(self, one: str, other: str) -> bool:
        return not self.calm and self._cut.get(frozenset((one, other)), 0.0) > self.now

    def any_fault(self) -> Fault:
        return self.chance.choice(list(Fault))
