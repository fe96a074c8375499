"""The policies of the paper, as its simulator has them, in NumPy: random, best fit, FGD.

FGD's score of a server is the integer part of ``100 * sigmoid((F before - F after) / 1000)``, where F is the
sum over the typical pods of their popularity times the free thousandths that each cannot use; typical are
the most frequent shapes that make up 95 % of the pods. Ties go to the best fit (see the trace's README).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.openb.trace import WHOLE, Node, Pod

MOST_GPUS = 8
MOST_CPU = 128_000
TYPICAL = 0.95
Spot = tuple[int, tuple[int, ...]]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Published:
    """What the policies share: the servers' free amounts, and who can take a pod."""

    def __init__(self, nodes: Sequence[Node], known: Sequence[Pod], seed: int) -> None:
        self.cpu: Ints = np.array([node.cpu for node in nodes])
        self.memory: Ints = np.array([node.memory for node in nodes])
        self.gpus: Ints = np.array([[WHOLE] * n.gpus + [0] * (MOST_GPUS - n.gpus) for n in nodes])
        self.models = np.array([node.model for node in nodes])
        self.random = np.random.default_rng(seed)
        self.changes: list[int] = []

    def settle(self) -> None:
        """Nothing is prepared."""

    def place(self, pod: Pod, among: Callable[[int], bool] | None = None) -> Spot | None:
        """Place the pod on one of these servers and take what it asks for, or None."""
        able = np.flatnonzero(self._able(pod))
        if among is not None:
            able = np.array([node for node in able if among(int(node))], dtype=np.int64)
        if able.size == 0:
            return None
        node, gpu = self.choose(pod, able)
        gpus: tuple[int, ...] = ()
        if pod.gpus == 1 and pod.milli < WHOLE:
            gpus = (gpu,)
        elif pod.gpus:
            gpus = tuple(int(i) for i in np.flatnonzero(self.gpus[node] == WHOLE)[: pod.gpus])
        self._use(pod, (node, gpus), -1)
        return node, gpus

    def release(self, pod: Pod, spot: Spot) -> None:
        self._use(pod, spot, 1)

    @staticmethod
    def gpus_of(spot: Spot) -> tuple[int, ...]:
        """The numbers of the server's GPUs that the pod uses."""
        return spot[1]

    def choose(self, pod: Pod, able: Ints) -> tuple[int, int]:
        """One of the servers that are able, and one of its GPUs where the pod asks for a part."""
        raise NotImplementedError

    def _use(self, pod: Pod, spot: Spot, sign: int) -> None:
        node, gpus = spot
        self.cpu[node] += sign * pod.cpu
        self.memory[node] += sign * pod.memory
        for gpu in gpus:
            self.gpus[node, gpu] += sign * pod.milli
        self.changes.append(node)

    def _able(self, pod: Pod) -> NDArray[np.bool_]:
        able = (self.cpu >= pod.cpu) & (self.memory >= pod.memory)
        if pod.gpus:
            able &= (self.gpus >= pod.milli).sum(axis=1) >= pod.gpus
        if pod.models:
            able &= np.isin(self.models, sorted(pod.models))
        return np.asarray(able)

    def _left_over(self, pod: Pod, nodes: Ints) -> Floats:
        cpu = (self.cpu[nodes] - pod.cpu) / MOST_CPU
        gpu = (self.gpus[nodes].sum(axis=1) - pod.demand) / (MOST_GPUS * WHOLE)
        return np.asarray(0.5 * cpu + 0.5 * gpu)

    def _tightest(self, pod: Pod, node: int) -> int:
        free = self.gpus[node]
        return int(np.argmin(np.where(free >= max(1, pod.milli), free, WHOLE + 1)))


class Random(Published):
    def choose(self, pod: Pod, able: Ints) -> tuple[int, int]:
        node = int(self.random.choice(able))
        fitting = np.flatnonzero(self.gpus[node] >= max(1, pod.milli))
        return node, int(self.random.choice(fitting)) if pod.gpus == 1 else 0


class BestFit(Published):
    def choose(self, pod: Pod, able: Ints) -> tuple[int, int]:
        score = np.floor(100 * (1 - self._left_over(pod, able)))
        node = int(able[np.argmax(score)])
        return node, self._tightest(pod, node)


@dataclass(slots=True)
class _Known:
    """A shape's scores as of ``seen`` changes."""

    score: Floats
    gpu: Ints
    seen: int = field(default=0)


class Fgd(Published):
    def __init__(self, nodes: Sequence[Node], known: Sequence[Pod], seed: int) -> None:
        super().__init__(nodes, known, seed)
        counts = Counter((pod.cpu, pod.gpus, pod.milli, pod.models) for pod in known)
        typical: list[tuple[tuple[int, int, int, frozenset[str]], int]] = []
        covered = 0
        for shape, count in sorted(counts.items(), key=lambda entry: (-entry[1], _order(entry[0]))):
            if covered >= TYPICAL * len(known):
                break
            typical.append((shape, count))
            covered += count
        self.weight: Floats = np.array([count / covered for _, count in typical])
        self.shape_cpu: Ints = np.array([shape[0] for shape, _ in typical])
        self.shape_gpus: Ints = np.array([shape[1] for shape, _ in typical])
        self.shape_milli: Ints = np.array([shape[2] for shape, _ in typical])
        self.shape_allowed = np.array(
            [[not shape[3] or str(model) in shape[3] for shape, _ in typical] for model in self.models]
        )
        self.known: dict[Pod, _Known] = {}

    def choose(self, pod: Pod, able: Ints) -> tuple[int, int]:
        known = self.known.get(pod)
        if known is None:
            size = len(self.cpu)
            known = self.known[pod] = _Known(np.full(size, -1.0), np.zeros(size, dtype=np.int64))
            changed = np.arange(size)
        else:
            changed = np.unique(np.array(self.changes[known.seen :], dtype=np.int64))
        known.seen = len(self.changes)
        known.score[changed] = -1.0
        stale = able[known.score[able] < 0]
        if stale.size:
            self._score(pod, stale, known)
        best = able[known.score[able] == known.score[able].max()]
        node = int(best[np.argmin(self._left_over(pod, best))])
        return node, int(known.gpu[node])

    def _score(self, pod: Pod, nodes: Ints, known: _Known) -> None:
        before = self._unusable(nodes, self.cpu[nodes], self.gpus[nodes])
        cpu = self.cpu[nodes] - pod.cpu
        if pod.gpus == 1 and pod.milli < WHOLE:
            scores = np.full((len(nodes), MOST_GPUS), -1.0)
            for gpu in range(MOST_GPUS):
                fits = np.flatnonzero(self.gpus[nodes, gpu] >= pod.milli)
                if fits.size:
                    free = self.gpus[nodes[fits]].copy()
                    free[:, gpu] -= pod.milli
                    after = self._unusable(nodes[fits], cpu[fits], free)
                    scores[fits, gpu] = _grade(before[fits] - after)
            known.gpu[nodes] = scores.argmax(axis=1)
            known.score[nodes] = scores.max(axis=1)
            return
        free = self.gpus[nodes].copy()
        if pod.gpus:
            empty = free == WHOLE
            free[empty & (empty.cumsum(axis=1) <= pod.gpus)] = 0
        known.score[nodes] = _grade(before - self._unusable(nodes, cpu, free))

    def _unusable(self, nodes: Ints, cpu: Ints, free: Ints) -> Floats:
        """F: the free thousandths of each server that the typical pods cannot use, by popularity."""
        total = free.sum(axis=1)
        enough = free[:, :, None] >= self.shape_milli[None, None, :]
        usable = (
            (enough.sum(axis=1) >= self.shape_gpus)
            & (cpu[:, None] >= self.shape_cpu)
            & (self.shape_gpus > 0)
            & self.shape_allowed[nodes]
        )
        spoiled = np.where(enough, 0, free[:, :, None]).sum(axis=1)
        return np.asarray(np.where(usable, spoiled, total[:, None]) @ self.weight)


def _grade(gain: Floats) -> Floats:
    return np.floor(100 / (1 + np.exp(-gain / 1000)))


def _order(shape: Any) -> tuple[int, int, int, tuple[str, ...]]:
    return shape[0], shape[1], shape[2], tuple(sorted(shape[3]))
