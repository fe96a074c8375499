"""What the policy sees: frozen snapshots of GPUs, courses and requests. No clock, no I/O, no database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpu_kernels.errors import Refused
from gpu_kernels.units import THOUSANDTHS, Size, Slice


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of the pool. ``answering``: its agent spoke lately, so that a slice of it can be used at
    all.
    """

    id: int
    agent: str
    index: int
    gpu_class: str
    allocatable_mib: int
    used_mib: int = 0
    used_thousandths: int = 0
    answering: bool = True

    @property
    def free_mib(self) -> int:
        return max(0, self.allocatable_mib - self.used_mib)

    @property
    def free_thousandths(self) -> int:
        return max(0, THOUSANDTHS - self.used_thousandths)

    @property
    def empty(self) -> bool:
        return self.used_mib == 0 and self.used_thousandths == 0

    def could_hold(self, part: Slice) -> bool:
        """Whether the slice would fit if nobody used the GPU."""
        return 1 <= part.mib <= self.allocatable_mib and 1 <= part.thousandths <= THOUSANDTHS

    def holds(self, part: Slice) -> bool:
        """Whether the slice fits now; both memory and share must."""
        fits = part.mib <= self.free_mib and part.thousandths <= self.free_thousandths
        return fits and self.could_hold(part)

    def with_part(self, part: Slice) -> Gpu:
        return replace(
            self,
            used_mib=self.used_mib + part.mib,
            used_thousandths=self.used_thousandths + part.thousandths,
        )

    def without_part(self, part: Slice) -> Gpu:
        return replace(
            self,
            used_mib=max(0, self.used_mib - part.mib),
            used_thousandths=max(0, self.used_thousandths - part.thousandths),
        )


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a lease goes: slices of GPUs of one class on one agent."""

    agent: str
    gpu_class: str
    parts: tuple[tuple[Gpu, Slice], ...]

    @property
    def thousandths(self) -> int:
        return sum(part.thousandths for _, part in self.parts)

    @property
    def mib(self) -> int:
        return sum(part.mib for _, part in self.parts)


@dataclass(frozen=True, slots=True)
class Course:
    """What a course may hold at once and what it holds, in thousandths by GPU class.

    ``settled`` is held by leases in force; a slot counts once, as the larger of its lease and the one it
    replaces. ``ending`` is held by leases that have ended and whose agent has not confirmed it yet.
    """

    name: str
    limit: Mapping[str, int]
    settled: Mapping[str, int] = field(default_factory=dict)
    ending: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for a lease. ``turn`` orders the queue.

    ``replaces`` is what the lease that this one would replace counts in its course, by GPU class: the slot
    counts once, so that much is not counted a second time.
    """

    id: str
    course: str
    size: Size
    turn: tuple[int, str]
    replaces: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Either a placement, or a refusal; ``may_wait`` says that waiting can help."""

    placement: Placement | None = None
    refusal: Refused | None = None
    may_wait: bool = False
