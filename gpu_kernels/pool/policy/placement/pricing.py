"""From the catalogue and the servers to prices: what each shape is on each class of GPU."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from gpu_kernels.pool.policy.placement.catalogue import Catalogue, Shape
from gpu_kernels.pool.policy.placement.policies import Gradient
from gpu_kernels.pool.policy.placement.prices import Kind, Wish, Worth, worth_of
from gpu_kernels.pool.policy.placement.servers import Host
from gpu_kernels.units import THOUSANDTHS, slice_of

Servers = Mapping[tuple[str, int, int, Host], int]
"""How many servers there are, by class, allocatable MiB of a GPU, GPUs, and host capacity."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """What prices depend on besides the catalogue: the kinds of servers and how many there are of each."""

    servers: tuple[tuple[tuple[str, int, int, Host], int], ...]

    @classmethod
    def of(cls, servers: Servers) -> Fleet:
        return cls(tuple(sorted(servers.items())))

    @property
    def gpus(self) -> int:
        return sum(kind[2] * count for kind, count in self.servers)

    def host_capacity(self, at: int) -> int:
        return sum(kind[3][at] * count for kind, count in self.servers if len(kind[3]) > at)


def gradient(catalogue: Catalogue, fleet: Fleet) -> Gradient:
    """The policy at the prices of this catalogue on these servers."""
    at, unit = _scarcest(catalogue, fleet)

    def host(amounts: Host) -> float:
        return amounts[at] / unit if len(amounts) > at else 0.0

    shares: dict[tuple[str, float], float] = defaultdict(float)
    for (gpu_class, _, gpus, capacity), count in fleet.servers:
        shares[gpu_class, host(capacity) / gpus] += count * gpus / fleet.gpus
    wishes: dict[tuple[tuple[tuple[str, int], ...], float], float] = defaultdict(float)
    for shape in catalogue.shapes:
        count = 1 if shape.size is None else shape.size.count
        thousandths = _thousandths(shape, fleet)
        if thousandths or shape.size is None:
            wishes[tuple(sorted(thousandths.items())), host(shape.host) / count] += shape.weight * count
    worth = _worth(tuple(sorted(_steady(shares).items())), tuple(sorted(wishes.items())))
    return Gradient(worth, (at, unit), _several(catalogue, fleet))


def _steady(shares: Mapping[tuple[str, float], float]) -> dict[tuple[str, float], float]:
    """Without host amounts, the classes' shares in steps of a sixth or so: one server more or less then
    changes no price, and nothing has to be computed again.
    """
    if any(host for _, host in shares):
        return dict(shares)
    return {kind: 2.0 ** (round(4 * math.log2(share)) / 4) for kind, share in shares.items()}


@lru_cache(maxsize=64)
def _worth(
    shares: tuple[tuple[tuple[str, float], float], ...],
    wishes: tuple[tuple[tuple[tuple[tuple[str, int], ...], float], float], ...],
) -> Worth:
    total = sum(share for _, share in shares)
    kinds = [Kind(gpu_class, host, share / total) for (gpu_class, host), share in shares]
    return worth_of(kinds, [Wish(dict(parts), host, weight) for (parts, host), weight in wishes])


def _several(catalogue: Catalogue, fleet: Fleet) -> dict[str, dict[int, float]]:
    """By class, which part of the demand for its GPUs wants so many of one server."""
    total: dict[str, float] = defaultdict(float)
    found: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for shape in catalogue.shapes:
        count = 0 if shape.size is None else shape.size.count
        for gpu_class, thousandths in _thousandths(shape, fleet).items():
            total[gpu_class] += shape.weight * count * thousandths
            if count > 1:
                found[gpu_class][count] += shape.weight * count * thousandths
    return {
        gpu_class: {count: demand / total[gpu_class] for count, demand in sorted(counts.items())}
        for gpu_class, counts in found.items()
    }


def _scarcest(catalogue: Catalogue, fleet: Fleet) -> tuple[int, float]:
    """The host amount of which most is asked for what there is, and the pool's mean of it for a GPU."""
    width = max((len(shape.host) for shape in catalogue.shapes), default=0)
    best = (0, 1.0)
    most = 0.0
    for at in range(width):
        capacity = fleet.host_capacity(at)
        asked = sum(shape.weight * shape.host[at] for shape in catalogue.shapes if len(shape.host) > at)
        if capacity > 0 and asked / capacity > most:
            most = asked / capacity
            best = (at, capacity / fleet.gpus)
    return best


def _thousandths(shape: Shape, fleet: Fleet) -> dict[str, int]:
    """What the shape takes of a GPU of each class that has a server where it fits when that is empty."""
    found: dict[str, int] = {}
    if shape.size is None:
        return found
    for (gpu_class, allocatable, gpus, capacity), _ in fleet.servers:
        if shape.size.gpu_class not in (None, gpu_class):
            continue
        if shape.classes is not None and gpu_class not in shape.classes:
            continue
        if shape.size.count > gpus or not all(
            have >= need for have, need in zip(capacity, shape.host, strict=False)
        ):
            continue
        part = slice_of(shape.size, allocatable)
        share = max(part.thousandths, -(-part.mib * THOUSANDTHS // allocatable))
        if 1 <= share <= THOUSANDTHS and part.mib >= 1:
            found[gpu_class] = max(share, found.get(gpu_class, 0))
    return found
