"""The product's placement on the trace's servers: ``placement.Index`` decides, this only translates.

A server of the trace has CPU and memory besides GPUs; the index takes them as host amounts. Its GPUs say
nothing of their memory, so that each has 1000 MiB of which a slice takes its thousandths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction

from benchmarks.openb.trace import WHOLE, Node, Pod
from gpu_kernels.pool.policy.model import Gpu, Placement
from gpu_kernels.pool.policy.placement import Catalogue, Index, Shape
from gpu_kernels.units import Size

PLENTY = 10**9
Spot = tuple[int, Placement | None]
"""The server's place in the list, and what is used of its GPUs."""


class Product:
    """``policy``: one of the product's. ``known``: the pods whose shapes are the catalogue."""

    def __init__(self, nodes: Sequence[Node], known: Sequence[Pod], seed: int, policy: str = "fgd") -> None:
        gpus: list[Gpu] = []
        self.nodes = list(nodes)
        self.at = {node.name: at for at, node in enumerate(nodes)}
        for node in nodes:
            first = len(gpus)
            gpus += [Gpu(first + index, node.name, index, node.model, WHOLE) for index in range(node.gpus)]
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

    def place(self, pod: Pod, among: Callable[[int], bool] | None = None) -> Spot | None:
        """Place the pod on one of these servers and take what it asks for, or None."""

        def room(model: str) -> int:
            return PLENTY if not pod.models or model in pod.models else 0

        def shut(gpu: Gpu) -> bool:
            return among is not None and not among(self.at[gpu.agent])

        size, host = self.sizes[pod], (pod.cpu, pod.memory)
        closed = None if among is None else shut
        placement: Placement | None = None
        if size is None:
            name = self.index.place_host(host, room=room, shut=closed)
        else:
            placement = self.index.place(size, room=room, host=host, shut=closed)
            name = None if placement is None else placement.agent
        if name is None:
            return None
        if placement is not None:
            self.index.take(placement)
        self._use(name, pod, -1)
        return self.at[name], placement

    def release(self, pod: Pod, spot: Spot) -> None:
        at, placement = spot
        if placement is not None:
            self.index.give_back(placement)
        self._use(self.nodes[at].name, pod, 1)

    @staticmethod
    def gpus_of(spot: Spot) -> tuple[int, ...]:
        """The numbers of the server's GPUs that the pod uses."""
        return () if spot[1] is None else tuple(gpu.index for gpu, _ in spot[1].parts)

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
