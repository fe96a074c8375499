"""The product's placement on the trace's servers: ``placement.Index`` decides, this only translates.

A server of the trace has CPU and memory besides GPUs; the index takes them as host amounts. Its GPUs say
nothing of their memory, so that each has 1000 MiB of which a slice takes its thousandths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from benchmarks.openb.trace import WHOLE, Node, Pod
from gpu_kernels.pool.policy.model import Gpu, Placement
from gpu_kernels.pool.policy.placement import Catalogue, Index, Shape
from gpu_kernels.units import Size

PLENTY = 10**9


class Product:
    """``policy``: one of the product's. ``known``: the pods whose shapes are the catalogue."""

    def __init__(self, nodes: Sequence[Node], known: Sequence[Pod], seed: int, policy: str = "fgd") -> None:
        gpus: list[Gpu] = []
        self.models = {node.name: node.model for node in nodes}
        self.numbers: dict[str, range] = {}
        for node in nodes:
            self.numbers[node.name] = range(len(gpus), len(gpus) + node.gpus)
            gpus += [
                Gpu(number, node.name, index, node.model, WHOLE)
                for index, number in enumerate(self.numbers[node.name])
            ]
        counts = sorted(Counter(known).items(), key=lambda entry: _order(entry[0]))
        shapes = tuple(
            Shape(_size(pod), count, (pod.cpu, pod.memory), pod.models or None) for pod, count in counts
        )
        self.index = Index(gpus, catalogue=Catalogue(shapes), policies={"": policy})
        self.capacity = {node.name: (node.cpu, node.memory) for node in nodes}
        self.free = dict(self.capacity)
        for name, amounts in self.capacity.items():
            self.index.put_host(name, amounts, amounts)
        self.sizes = {pod: _size(pod) for pod in set(known)}

    def settle(self) -> None:
        """Find the prices, which is done once and not in a decision."""
        self.index.place(Size(Fraction(1), None, None), room=lambda model: PLENTY)

    def place(self, pod: Pod) -> tuple[str, Placement | None] | None:
        """Place the pod and take what it asks for, or None."""

        def room(model: str) -> int:
            return PLENTY if not pod.models or model in pod.models else 0

        size, host = self.sizes[pod], (pod.cpu, pod.memory)
        placement: Placement | None = None
        if size is None:
            name = self.index.place_host(host, room=room)
        else:
            placement = self.index.place(size, room=room, host=host)
            name = None if placement is None else placement.agent
        if name is None:
            return None
        if placement is not None:
            self.index.take(placement)
        self._use(name, pod, -1)
        return name, placement

    def could(self, pod: Pod, spot: tuple[str, Placement | None]) -> bool:
        """Whether the pod fits on the server of ``spot`` as it is now."""
        name, _ = spot
        cpu, memory = self.free[name]
        if pod.cpu > cpu or pod.memory > memory or (pod.models and self.models[name] not in pod.models):
            return False
        gpus = (self.index.gpu(number) for number in self.numbers[name])
        return sum(gpu is not None and gpu.free_mib >= pod.milli for gpu in gpus) >= pod.gpus

    def release(self, pod: Pod, spot: tuple[str, Placement | None]) -> None:
        name, placement = spot
        if placement is not None:
            self.index.give_back(placement)
        self._use(name, pod, 1)

    def _use(self, name: str, pod: Pod, sign: int) -> None:
        cpu, memory = self.free[name]
        self.free[name] = (cpu + sign * pod.cpu, memory + sign * pod.memory)
        self.index.put_host(name, self.capacity[name], self.free[name])


def _order(pod: Pod) -> tuple[int, int, int, int, tuple[str, ...]]:
    return pod.gpus, pod.milli, pod.cpu, pod.memory, tuple(sorted(pod.models))


def _size(pod: Pod) -> Size | None:
    if pod.gpus == 0:
        return None
    return Size(Fraction(pod.gpus) if pod.milli == WHOLE else Fraction(pod.milli, WHOLE), None, None)
