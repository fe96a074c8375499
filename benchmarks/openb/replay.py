"""Arrivals without departures, as the paper replays them: how much of the GPUs is allocated."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.openb import published
from benchmarks.openb.product import Product
from benchmarks.openb.trace import Node, Pod, arrivals, capacity

DEMANDS = (80, 95, 100, 130)
"""Per cent of the capacity that has been asked for when the allocation is read."""


class Decider(Protocol):
    """A policy with the servers that it decides about."""

    def settle(self) -> None: ...
    def place(self, pod: Pod, among: Callable[[int], bool] | None = None) -> Any: ...
    def release(self, pod: Pod, spot: Any) -> None: ...
    def gpus_of(self, spot: Any) -> tuple[int, ...]: ...


Maker = Callable[[Sequence[Node], Sequence[Pod], int], Decider]
POLICIES: dict[str, Maker] = {
    "random": published.Random,
    "best_fit": published.BestFit,
    "fgd": published.Fgd,
    "ours": Product,
}
PUBLISHED = {"random": "01-Random", "best_fit": "05-BestFit", "fgd": "06-FGD"}


@dataclass(frozen=True, slots=True)
class Replay:
    """``allocated``: per cent of the GPUs, by per cent of demand. ``seconds``: of each decision.
    ``refused``: pods placed nowhere, by kind, up to 100 per cent of demand, and ``asked`` all until then.
    """

    allocated: dict[int, float]
    seconds: list[float]
    refused: Counter[str]
    asked: Counter[str]


def replay(nodes: Sequence[Node], pods: Sequence[Pod], policy: str, seed: int) -> Replay:
    total = capacity(nodes)
    decider = POLICIES[policy](nodes, pods, seed)
    decider.settle()
    allocated: dict[int, float] = {}
    seconds: list[float] = []
    refused: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    demand = used = 0
    for pod in arrivals(pods, max(DEMANDS) / 100 * total, seed):
        demand += pod.demand
        start = time.thread_time()
        spot = decider.place(pod)
        seconds.append(time.thread_time() - start)
        used += pod.demand if spot is not None else 0
        if 100 not in allocated:
            asked[pod.kind] += 1
            refused[pod.kind] += spot is None
        for percent in DEMANDS:
            if percent not in allocated and demand * 100 >= percent * total:
                allocated[percent] = 100 * used / total
        if len(allocated) == len(DEMANDS):
            break
    return Replay(allocated, seconds, refused, asked)
