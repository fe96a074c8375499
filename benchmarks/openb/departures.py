"""Arrivals with departures and a queue: how long pods wait, and how much of the GPUs is allocated meanwhile.

The trace's own load keeps 14 of 6,212 GPUs busy on average, so nobody would wait for anything. The replay
keeps every ``every``-th server and superposes copies of the trace, each turned by a random time, until they
ask for ``load`` times the capacity on average. How long each pod runs is as in the trace.

Waiting pods are tried first come, first served; one that fits may overtake one that does not, until the
oldest that asks for GPUs has waited for ``PATIENCE``: the server where it will fit first is then kept for it.
One server at a time is kept, and all policies play by the same rules.
"""

from __future__ import annotations

import copy
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.openb.replay import POLICIES, Decider
from benchmarks.openb.trace import WHOLE, Node, Pod, Stay, capacity, superposed

PATIENCE = 3600
"""Seconds after which a pod is promised a server."""
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
class _Server:
    """What is free of a server, kept beside the policy's own books to see who could fit."""

    cpu: int
    memory: int
    gpus: list[int]
    model: str

    def use(self, pod: Pod, gpus: Sequence[int], sign: int) -> None:
        self.cpu += sign * pod.cpu
        self.memory += sign * pod.memory
        for gpu in gpus:
            self.gpus[gpu] += sign * pod.milli

    def fits(self, pod: Pod) -> bool:
        if pod.cpu > self.cpu or pod.memory > self.memory or (pod.models and self.model not in pod.models):
            return False
        return sum(free >= pod.milli for free in self.gpus) >= pod.gpus


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
    return _Run(decider, kept, order, window).outcome()


class _Run:
    def __init__(self, decider: Decider, nodes: Sequence[Node], order: Sequence[Stay], window: int) -> None:
        self.decider, self.order, self.window = decider, order, window
        self.total = capacity(nodes)
        self.servers = [_Server(node.cpu, node.memory, [WHOLE] * node.gpus, node.model) for node in nodes]
        self.line = _Line()
        self.clock = _Clock(int(WARM_UP * window))
        self.leaving: list[tuple[int, int, Pod, Any]] = []
        self.numbers = itertools.count()
        self.used = 0
        self.waits: list[int] = []
        self.promise: tuple[Pod, int] | None = None

    def outcome(self) -> Outcome:
        for number, stay in enumerate(self.order):
            self._leave_until(stay.came)
            self._advance(stay.came)
            if stay.pod in self.line.shapes or not self._start(stay, self._open):
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

    def _open(self, server: int) -> bool:
        return self.promise is None or server != self.promise[1]

    def _leave_until(self, time: int) -> None:
        while self.leaving and self.leaving[0][0] <= time:
            now = self.leaving[0][0]
            self._advance(now)
            freed: set[int] = set()
            while self.leaving and self.leaving[0][0] == now:
                _, _, pod, spot = heapq.heappop(self.leaving)
                self.decider.release(pod, spot)
                self.servers[spot[0]].use(pod, self.decider.gpus_of(spot), 1)
                self.used -= pod.demand
                freed.add(spot[0])
            self._keep_promises()
            for pod in self.line.in_turn():
                self._admit(pod, freed)

    def _admit(self, pod: Pod, freed: set[int]) -> None:
        """Start who waits for this shape on servers that somebody just left; elsewhere it did not fit."""
        while pod in self.line.shapes:
            if not any(self._open(server) and self.servers[server].fits(pod) for server in freed):
                return
            if not self._start(self.line.shapes[pod][0][1], self._open):
                return
            self.line.first(pod)

    def _keep_promises(self) -> None:
        while True:
            if self.promise is None:
                self.promise = self._promised()
            if self.promise is None:
                return
            pod, server = self.promise
            if pod in self.line.shapes:
                if not self._start(self.line.shapes[pod][0][1], frozenset((server,)).__contains__):
                    return
                self.line.first(pod)
            self.promise = None

    def _promised(self) -> tuple[Pod, int] | None:
        """The oldest that has waited for too long, and where it will fit first if nobody else comes."""
        waiting = [pod for pod in self.line.in_turn() if pod.gpus]
        if not waiting or self.clock.now - self.line.shapes[waiting[0]][0][1].came <= PATIENCE:
            return None
        pod = waiting[0]
        servers = copy.deepcopy(self.servers)
        for at, server in enumerate(servers):
            if server.fits(pod):
                return pod, at
        for _, _, other, spot in sorted(self.leaving, key=lambda entry: entry[:2]):
            servers[spot[0]].use(other, self.decider.gpus_of(spot), 1)
            if servers[spot[0]].fits(pod):
                return pod, spot[0]
        return None

    def _start(self, stay: Stay, among: Callable[[int], bool]) -> bool:
        spot = self.decider.place(stay.pod, among if self.promise is not None else None)
        if spot is None:
            return False
        now = self.clock.now
        heapq.heappush(self.leaving, (now + stay.ran, next(self.numbers), stay.pod, spot))
        self.servers[spot[0]].use(stay.pod, self.decider.gpus_of(spot), -1)
        self.used += stay.pod.demand
        self._note(stay, now)
        return True

    def _note(self, stay: Stay, now: int) -> None:
        if stay.came >= self.clock.warm:
            self.waits.append(now - stay.came)

    def _advance(self, time: int) -> None:
        waiting = any(pod.gpus for pod in self.line.shapes)
        self.clock.advance(time, self.used, waiting)
