"""What free room is worth: how much of the expected demand it can still serve, and at which prices.

The pool is to hold as large a multiple of the catalogue's mix as it can. In the optimum of that problem
each shape has a *price*, the part of the pool's capacity that one more of it costs: a shape that fills what
others leave over is cheap, one that spoils a GPU for others is dear. Where GPU servers have another amount
that leases take (``host``: cores, say), that has a price of its own on each server, which depends on how much
of it is left beside the GPUs.

The prices are found by multiplicative weights: price the shapes, let each kind of server take the best it
can at these prices, raise what was served too little, lower what was served too much, and take the mean of
the later rounds. Then the *worth* of a gap (the free thousandths of one GPU) is the dearest set of shapes
that fits into it, and the worth of a server is the least, over host prices m, of ``m * host left + the sum
of its gaps' worths at m``: an upper bound on what it can still serve, by Lagrange.

All is a function of the catalogue and of the kinds of servers alone, computed once for both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpu_kernels.units import THOUSANDTHS

ROUNDS = 200
LEARNING_RATE = 0.05
SLOWING = 0.01
OVERSUPPLY = 3.0
"""A shape served more than this many times too much lowers its price no further in one round."""
HOST_PRICES = (0.0, *(4.0 * 0.75**power for power in range(10, -1, -1)))
"""Prices tried for the host amount; at 1, the mean host amount of a GPU is worth a whole GPU."""
NOTICEABLE = 1e-12


@dataclass(frozen=True, slots=True)
class Kind:
    """Servers that are alike: ``host`` for each of their GPUs, in units of the pool's mean. ``share``: their
    part of the pool's GPUs, or in proportion to it.
    """

    gpu_class: str
    host: float
    share: float


@dataclass(frozen=True, slots=True)
class Wish:
    """A shape as one GPU sees it. ``thousandths``: what it takes of it, by the classes where it may go;
    none for what takes host alone. ``host``: in units of the pool's mean for a GPU. ``weight``: how often.
    """

    thousandths: Mapping[str, int]
    host: float
    weight: float


@dataclass(frozen=True, slots=True)
class Worth:
    """The worth of free room in GPUs. ``rows``: by class, for each gap in ``step`` thousandths, its worth at
    each of ``host_prices``.
    """

    step: int
    host_prices: tuple[float, ...]
    rows: Mapping[str, tuple[tuple[float, ...], ...]]

    def of_gap(self, gpu_class: str, gap: int) -> tuple[float, ...]:
        return self.rows[gpu_class][gap // self.step]

    def of_gaps(self, gpu_class: str, gaps: Sequence[int]) -> tuple[float, ...]:
        """The sum of the gaps' worths, at each host price."""
        rows, step = self.rows[gpu_class], self.step
        if not gaps:
            return (0.0,) * len(self.host_prices)
        return tuple(map(sum, zip(*[rows[gap // step] for gap in gaps], strict=True)))

    def of_server(self, sums: Sequence[float], host: float) -> float:
        return min([price * host + worth for price, worth in zip(self.host_prices, sums, strict=True)])


Table = tuple[list[float], list[int]]


def worth_of(kinds: Sequence[Kind], wishes: Sequence[Wish]) -> Worth:
    """Price the wishes on these servers. With no wishes, a gap is worth its size."""
    market = _Market(kinds, wishes)
    market.settle()
    return market.worth()


class _Market:
    """The rounds of raising and lowering prices."""

    def __init__(self, kinds: Sequence[Kind], wishes: Sequence[Wish]) -> None:
        self.kinds = kinds
        self.classes = sorted({kind.gpu_class for kind in kinds})
        self.wishes = [wish for wish in wishes if wish.thousandths and wish.weight > 0]
        taken = {part for wish in self.wishes for part in wish.thousandths.values()}
        self.step = math.gcd(THOUSANDTHS, *taken) if taken else 1
        sizes = [sum(wish.thousandths.values()) / len(wish.thousandths) for wish in self.wishes]
        total = sum(wish.weight * size for wish, size in zip(self.wishes, sizes, strict=True))
        per_gpu = THOUSANDTHS / total if total else 0.0
        self.demand = [wish.weight * per_gpu for wish in self.wishes]
        self.prices = [size / THOUSANDTHS for size in sizes]
        self.host_demand = per_gpu * sum(w.weight * w.host for w in wishes if not w.thousandths)
        self.host_floor = 0.02 if self.host_demand else 0.0
        self.hosts = any(wish.host > 0 for wish in wishes)
        self.host_prices = HOST_PRICES if self.hosts else (0.0,)

    def settle(self) -> None:
        later = [0.0] * len(self.prices)
        later_floor = 0.0
        for number in range(ROUNDS if self.wishes else 0):
            self._adjust(LEARNING_RATE / (1 + SLOWING * number))
            if number >= ROUNDS // 2:
                later = [sum(pair) for pair in zip(later, self.prices, strict=True)]
                later_floor += self.host_floor
        if self.wishes:
            counted = ROUNDS - ROUNDS // 2
            self.prices = [price / counted for price in later]
            self.host_floor = later_floor / counted

    def worth(self) -> Worth:
        host_prices = self._offered()
        gaps = range(THOUSANDTHS // self.step + 1)
        rows = {}
        for gpu_class in self.classes:
            if self.wishes:
                tables = [self._table(gpu_class, price)[0] for price in host_prices]
            else:
                tables = [[gap * self.step / THOUSANDTHS for gap in gaps]]
            rows[gpu_class] = tuple(zip(*tables, strict=True))
        return Worth(self.step, host_prices, rows)

    def _offered(self) -> tuple[float, ...]:
        """The host prices that are not below what those pay who want host alone."""
        kept = [price for price in self.host_prices if price >= self.host_floor]
        below = [price for price in self.host_prices if price < self.host_floor]
        return tuple(below[-1:] + kept)

    def _adjust(self, rate: float) -> None:
        served, host_served = self._serve()

        def moved(price: float, supply: float, demand: float) -> float:
            return price * math.exp(-rate * min(OVERSUPPLY, supply / demand - 1))

        self.prices = [
            moved(price, supply, demand)
            for price, supply, demand in zip(self.prices, served, self.demand, strict=True)
        ]
        if self.host_demand:
            self.host_floor = moved(self.host_floor, host_served, self.host_demand)
        spent = sum(price * demand for price, demand in zip(self.prices, self.demand, strict=True))
        scale = 1 / (spent + self.host_floor * self.host_demand)
        self.prices = [price * scale for price in self.prices]
        self.host_floor *= scale

    def _serve(self) -> tuple[list[float], float]:
        """How many of each wish the pool's servers would take at these prices, for each GPU of the pool."""
        served, host_served = [0.0] * len(self.prices), 0.0
        offered = self._offered()
        by_class = {name: [self._table(name, price) for price in offered] for name in self.classes}
        taken = {name: [self._taken(name, table) for table in by_class[name]] for name in self.classes}
        for kind in self.kinds:
            choices = taken[kind.gpu_class]
            used = [sum(self.wishes[i].host * n for i, n in choice.items()) for choice in choices]
            worths = [
                price * kind.host + table[0][-1]
                for price, table in zip(offered, by_class[kind.gpu_class], strict=True)
            ]
            best = min(range(len(offered)), key=worths.__getitem__)
            for number, part in _blend(used, best, kind.host):
                for index, count in choices[number].items():
                    served[index] += kind.share * part * count
                host_served += kind.share * part * max(0.0, kind.host - used[number])
        return served, host_served

    def _table(self, gpu_class: str, host_price: float) -> Table:
        """The dearest filling of each gap, and the wish to take first for it (-1: a step less is as good)."""
        useful: list[tuple[int, float, int]] = []
        for index, wish in enumerate(self.wishes):
            size = wish.thousandths.get(gpu_class)
            price = self.prices[index] - host_price * wish.host
            if size is not None and price > NOTICEABLE:
                useful.append((size // self.step, price, index))
        useful.sort(key=lambda entry: (entry[0], -entry[1], entry[2]))
        dear: list[tuple[int, float, int]] = []
        for entry in useful:
            if not dear or entry[1] > dear[-1][1]:
                dear.append(entry)
        return _fillings(dear, THOUSANDTHS // self.step)

    def _taken(self, gpu_class: str, table: Table) -> dict[int, int]:
        """How many of each wish fill an empty GPU best."""
        _, first = table
        counts: dict[int, int] = {}
        gap = len(first) - 1
        while gap > 0:
            index = first[gap]
            if index < 0:
                gap -= 1
            else:
                counts[index] = counts.get(index, 0) + 1
                gap -= self.wishes[index].thousandths[gpu_class] // self.step
        return counts


def _fillings(items: Sequence[tuple[int, float, int]], gaps: int) -> Table:
    table, first = [0.0] * (gaps + 1), [-1] * (gaps + 1)
    for gap in range(1, gaps + 1):
        best, chosen = table[gap - 1], -1
        for size, price, index in items:
            if size > gap:
                break
            worth = table[gap - size] + price
            if worth > best + NOTICEABLE:
                best, chosen = worth, index
        table[gap], first[gap] = best, chosen
    return table, first


def _blend(used: Sequence[float], best: int, host: float) -> list[tuple[int, float]]:
    """Which fillings a server takes, with their parts, so that its host amount suffices."""
    if used[best] <= host:
        return [(best, 1.0)]
    above = next((number for number in range(best, len(used)) if used[number] <= host), None)
    if above is None:
        return [(len(used) - 1, host / used[-1])]
    part = (host - used[above]) / (used[above - 1] - used[above])
    return [(above - 1, part), (above, 1 - part)]
