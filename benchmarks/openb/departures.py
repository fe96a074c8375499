"""Arrivals with departures and a queue: how long pods wait, and how much of the GPUs is allocated meanwhile.

The trace's own load keeps 14 of 6,212 GPUs busy on average, so nobody would wait for anything. The replay
keeps every ``every``-th server and superposes copies of the trace, each turned by a random time, until they
ask for ``load`` times the capacity on average. How long each pod runs is as in the trace.

Waiting pods are tried first come, first served; one that fits may overtake one that does not.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.openb.replay import POLICIES, Decider
from benchmarks.openb.trace import Node, Pod, Stay, capacity, superposed

WARM_UP = 0.25
"""The first part of the time, which counts for nothing: the servers fill."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """``waits``: seconds, of all pods that came after the warm-up, until the end where they never started.
    ``allocated``: per cent of the GPUs over time; ``while_waiting``: over the time in which a pod waited that
    asks for GPUs.
    """

    waits: list[int]
    allocated: float
    while_waiting: float
    unstarted: int


@dataclass(slots=True)
class _Clock:
    """Sums the allocation over time."""

    warm: int
    now: int = 0
    area: float = 0.0
    busy_area: float = 0.0
    busy_time: int = 0

    def advance(self, time: int, used: int, waiting: bool) -> None:
        passed = max(0, time - max(self.now, self.warm))
        self.area += used * passed
        if waiting:
            self.busy_area += used * passed
            self.busy_time += passed
        self.now = time


@dataclass(slots=True)
class _Line:
    """Who waits: pods of one shape behind each other, the shapes by their first one's turn."""

    shapes: dict[Pod, deque[tuple[int, Stay]]] = field(default_factory=dict)

    def add(self, number: int, stay: Stay) -> None:
        self.shapes.setdefault(stay.pod, deque()).append((number, stay))

    def first(self, pod: Pod) -> Stay:
        waiting = self.shapes[pod]
        _, stay = waiting.popleft()
        if not waiting:
            del self.shapes[pod]
        return stay

    def in_turn(self) -> list[Pod]:
        return sorted(self.shapes, key=lambda pod: self.shapes[pod][0][0])


def outcome(
    nodes: Sequence[Node], stays: Sequence[Stay], policy: str, seed: int, *, every: int, load: float
) -> Outcome:
    kept = list(nodes)[::every]
    total = capacity(kept)
    largest = max(node.gpus for node in kept)
    able = [stay for stay in stays if stay.pod.gpus <= largest]
    order, window = superposed(able, load * total, seed)
    decider = POLICIES[policy](kept, [stay.pod for stay in stays], seed)
    decider.settle()
    return _Run(decider, order, window, total).outcome()


class _Run:
    def __init__(self, decider: Decider, order: Sequence[Stay], window: int, total: int) -> None:
        self.decider, self.order, self.window, self.total = decider, order, window, total
        self.line = _Line()
        self.clock = _Clock(int(WARM_UP * window))
        self.leaving: list[tuple[int, int, Pod, Any]] = []
        self.numbers = itertools.count()
        self.used = 0
        self.waits: list[int] = []

    def outcome(self) -> Outcome:
        for number, stay in enumerate(self.order):
            self._leave_until(stay.came)
            self._advance(stay.came)
            if stay.pod in self.line.shapes or not self._start(stay):
                self.line.add(number, stay)
        self._leave_until(self.window)
        self._advance(self.window)
        waiting = [stay for line in self.line.shapes.values() for _, stay in line]
        for stay in waiting:
            self._note(stay, self.window)
        measured = (self.window - self.clock.warm) * self.total
        busy = self.clock.busy_time * self.total
        return Outcome(
            self.waits,
            100 * self.clock.area / measured,
            100 * self.clock.busy_area / busy if busy else float("nan"),
            len(waiting),
        )

    def _leave_until(self, time: int) -> None:
        while self.leaving and self.leaving[0][0] <= time:
            now = self.leaving[0][0]
            self._advance(now)
            freed = []
            while self.leaving and self.leaving[0][0] == now:
                _, _, pod, spot = heapq.heappop(self.leaving)
                self.decider.release(pod, spot)
                self.used -= pod.demand
                freed.append(spot)
            for pod in self.line.in_turn():
                while pod in self.line.shapes and any(self.decider.could(pod, spot) for spot in freed):
                    stay = self.line.shapes[pod][0][1]
                    if not self._start(stay):
                        break
                    self.line.first(pod)

    def _start(self, stay: Stay) -> bool:
        spot = self.decider.place(stay.pod)
        if spot is None:
            return False
        now = self.clock.now
        heapq.heappush(self.leaving, (now + stay.ran, next(self.numbers), stay.pod, spot))
        self.used += stay.pod.demand
        self._note(stay, now)
        return True

    def _note(self, stay: Stay, now: int) -> None:
        if stay.came >= self.clock.warm:
            self.waits.append(now - stay.came)

    def _advance(self, time: int) -> None:
        waiting = any(pod.gpus for pod in self.line.shapes)
        self.clock.advance(time, self.used, waiting)
