"""The GPUs of one class on one server, as a request sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gpu_kernels.pool.policy.model import Gpu, Placement
from gpu_kernels.units import THOUSANDTHS, Size, Slice, slice_of

Host = tuple[int, ...]
Key = tuple[object, ...]
State = tuple[object, ...]
Unit = tuple[str, str]
"""An agent and a GPU class: what one placement stays within."""


@dataclass(slots=True)
class Want:
    """What is to be placed: a size, and host amounts. ``parts`` remembers its slice by allocatable MiB."""

    size: Size | None
    host: Host = ()
    parts: dict[int, Slice] = field(default_factory=dict)

    def part(self, allocatable_mib: int) -> Slice:
        part = self.parts.get(allocatable_mib)
        if part is None:
            assert self.size is not None
            part = self.parts[allocatable_mib] = slice_of(self.size, allocatable_mib)
        return part


@dataclass(frozen=True, slots=True)
class View:
    """One server's GPUs of one class, lowest index first, with what is free of each for this request.

    ``gaps``: the thousandths of each GPU that can be used, the lesser of its free compute and memory.
    ``state``: all that a policy looks at, the same for servers that differ in their names only.
    """

    unit: Unit
    gpus: tuple[Gpu, ...]
    mib: tuple[int, ...]
    thousandths: tuple[int, ...]
    empty: tuple[bool, ...]
    gaps: tuple[int, ...]
    host: Host
    state: State

    def fitting(self, want: Want, most: int | None) -> list[tuple[int, Slice]]:
        """Positions of GPUs that a part fits, one of each kind of gap, with its slice. ``most``: the
        thousandths that may be taken, None for no limit.
        """
        found: list[tuple[int, Slice]] = []
        seen: set[tuple[int, int, int]] = set()
        for position, gpu in enumerate(self.gpus):
            mib, thousandths = self.mib[position], self.thousandths[position]
            alike = (mib, thousandths, gpu.allocatable_mib)
            if alike in seen:
                continue
            seen.add(alike)
            part = want.part(gpu.allocatable_mib)
            fits = 1 <= part.mib <= mib and 1 <= part.thousandths <= thousandths
            if fits and (most is None or part.thousandths <= most):
                found.append((position, part))
        return found

    def empties(self) -> list[int]:
        return [position for position, empty in enumerate(self.empty) if empty]

    def host_suffices(self, want: Want) -> bool:
        return all(have >= need for have, need in zip(self.host, want.host, strict=False))


def view(
    unit: Unit,
    gpus: Sequence[Gpu],
    host: Host,
    held: Mapping[int, Slice],
    shut: Callable[[Gpu], bool] | None,
) -> View:
    """The server less what is ``held``, without the GPUs that are ``shut`` or silent."""
    usable = tuple(gpu for gpu in gpus if gpu.answering and not (shut is not None and shut(gpu)))
    none = Slice(0, 0)
    parts = [held.get(gpu.id, none) for gpu in usable]
    mib = tuple(max(0, gpu.free_mib - part.mib) for gpu, part in zip(usable, parts, strict=True))
    thousandths = tuple(
        max(0, gpu.free_thousandths - part.thousandths) for gpu, part in zip(usable, parts, strict=True)
    )
    empty = tuple(gpu.empty and part == none for gpu, part in zip(usable, parts, strict=True))
    allocatable = tuple(gpu.allocatable_mib for gpu in usable)
    gaps = tuple(map(gap, mib, thousandths, allocatable))
    state = (mib, thousandths, allocatable, empty, host)
    return View(unit, usable, mib, thousandths, empty, gaps, host, state)


def gap(free_mib: int, free_thousandths: int, allocatable_mib: int) -> int:
    """The share of a GPU that slices of equal shares of memory and compute can still use."""
    return min(free_thousandths, free_mib * THOUSANDTHS // allocatable_mib)


@dataclass(frozen=True, slots=True)
class Score:
    """What a policy thinks of one server: the positions of the GPUs that it would take, and how that compares
    with other servers (the least ``rank`` is the best). ``left_over`` compares across policies.

    It depends on the server's ``state`` alone, not on its name.
    """

    rank: tuple[float, ...]
    left_over: tuple[int, int]
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """The best place on one server. ``key`` orders those of one policy, and is never the same for two."""

    key: Key
    left_over: tuple[int, int]
    view: View
    positions: tuple[int, ...]

    @classmethod
    def of(cls, view: View, score: Score) -> Candidate:
        gpus = [view.gpus[position] for position in score.positions[:1]]
        key = (*score.rank, view.unit[0], *((gpu.index, gpu.id) for gpu in gpus))
        return cls(key, score.left_over, view, score.positions)

    def placement(self, want: Want, current: Mapping[int, Gpu]) -> Placement:
        """The placement, on the GPUs as they are."""
        agent, gpu_class = self.view.unit
        gpus = [current[self.view.gpus[position].id] for position in self.positions]
        return Placement(agent, gpu_class, tuple((gpu, want.part(gpu.allocatable_mib)) for gpu in gpus))
