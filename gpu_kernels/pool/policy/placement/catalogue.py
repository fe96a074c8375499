"""What will be asked for next: the popularity of sizes, as the catalogue says or as the leases have shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpu_kernels.units import Size, parse_size


@dataclass(frozen=True, slots=True)
class Shape:
    """What is asked for, and how often; of ``weight`` only ratios count.

    ``host``: other amounts that a lease takes of its GPU server, where servers have such (see
    ``Index.put_host``). ``size`` None: of these alone. ``classes``: where it may go, None for anywhere that
    the size says.
    """

    size: Size | None
    weight: float
    host: tuple[int, ...] = ()
    classes: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The sizes that are asked for. A size without a GPU class counts for every class.

    A catalogue does not change: what depends on it stays valid, and a decision can be repeated from a dump.
    """

    shapes: tuple[Shape, ...] = ()

    @classmethod
    def on_offer(cls, sizes: Iterable[str]) -> Catalogue:
        """The sizes that the kernel specs offer, each as popular as the other. Raises ``InvalidSize``."""
        return cls.learned(dict.fromkeys(sizes, 1))

    @classmethod
    def learned(cls, counts: Mapping[str, float]) -> Catalogue:
        """Sizes, as text, with how often each was asked for. Raises ``InvalidSize``.

        Who calls this does so once a day at most: a popularity that moves with each lease would make
        yesterday's good places today's bad ones.
        """
        weights: dict[str, float] = {}
        for text, count in counts.items():
            if count > 0:
                canonical = str(parse_size(text))
                weights[canonical] = weights.get(canonical, 0.0) + count
        return cls(tuple(Shape(parse_size(text), weight) for text, weight in sorted(weights.items())))
