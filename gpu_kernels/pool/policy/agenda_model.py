"""What the agenda is told and what it answers: windows, GPUs, leases and seats, as frozen values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpu_kernels.units import THOUSANDTHS, Size, Slice, slice_of

FOREVER = 1 << 62
"""An instant after all others: a lease without a longest life is there until then."""

Rank = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Span:
    """A window as the agenda sees it. ``rank``: when its class hour was confirmed, and its id; the latest
    confirmed shrinks first.
    """

    id: str
    course: str
    starts_at: int
    ends_at: int
    lead_at: int
    rank: Rank

    def meets(self, other: Span) -> bool:
        """Whether there is an instant at which both are open."""
        return self.starts_at < other.ends_at and other.starts_at < self.ends_at


@dataclass(frozen=True, slots=True)
class Bench:
    """A GPU on which seats may be. ``until``: its server goes away then."""

    id: int
    gpu_class: str
    mib: int
    thousandths: int = THOUSANDTHS
    until: int = FOREVER

    def seat(self, size: Size) -> Slice | None:
        """What a seat of that size takes here; None where it never fits."""
        if size.gpu_class not in (None, self.gpu_class) or size.count > 1 or self.mib <= 0:
            return None
        part = slice_of(size, self.mib)
        fits = 1 <= part.mib <= self.mib and 1 <= part.thousandths <= self.thousandths
        return part if fits else None


@dataclass(frozen=True, slots=True)
class Stay:
    """A slice that a lease has on a GPU, and the instant from which on it has it no more: its longest
    life's end, or when it makes way.
    """

    part: Slice
    until: int = FOREVER


Stays = Callable[[int], Iterable[Stay]]
"""The leases on a GPU now; those that hold a seat of an open window too."""


def no_stays(_: int) -> Iterable[Stay]:
    return ()


@dataclass(frozen=True, slots=True)
class Seating:
    """A seat on a GPU."""

    gpu_id: int
    part: Slice


@dataclass(frozen=True, slots=True)
class Collision:
    """Another window that is open at the same time: ``seats`` of it lie on GPUs that would do."""

    course: str
    starts_at: int
    ends_at: int
    seats: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Where a window's seats go: as many as fit, at most as many as were wanted. ``fits``: how many that
    were. ``leases``: leases that are in the way, ``leases_until`` the last instant at which one is.
    """

    seats: tuple[Seating, ...]
    wanted: int
    collisions: tuple[Collision, ...] = ()
    leases: int = 0
    leases_until: int | None = None

    @property
    def fits(self) -> int:
        return len(self.seats)

    @property
    def short(self) -> int:
        return self.wanted - len(self.seats)


@dataclass(frozen=True, slots=True)
class Demand:
    """What a window wants: ``seats`` of ``size``; those numbered ``taken`` are their leases' by now."""

    span: Span
    size: Size
    seats: int
    taken: frozenset[int] = frozenset()
