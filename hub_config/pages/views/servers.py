"""The pool as a picture: each GPU a bar, cut into slices by course."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from gpu_kernels.resources.accounts import Account, Said
from gpu_kernels.resources.class_hours import ClassHour
from gpu_kernels.resources.leases import Lease, LeaseSlice
from gpu_kernels.resources.pool import Pool, PoolGpu
from gpu_kernels.units import THOUSANDTHS

COLOURS = 8
"""So many the style sheet has; courses beyond share them, and are told apart by their names."""
BAR = 1000.0
"""A bar's length in the picture's own unit: a thousandth of a GPU is one."""
LETTER, BESIDE = 22.0, 20.0
"""What a letter takes of that on the narrowest screen, and what is beside a name."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A slice on a bar."""

    lease: str
    course: str
    user: str
    state: str
    colour: int
    begin: float
    length: float
    thousandths: int
    mib: int


@dataclass(frozen=True, slots=True)
class Name:
    """A course's name on a bar, where its slices are wide enough for it."""

    course: str
    begin: float


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU and the slices that lie on it. ``other``: in use by what is no lease that the visitor sees."""

    server: str
    index: int
    uuid: str
    gpu_class: str
    name: str
    available: bool
    used: int
    used_mib: int
    total_mib: int
    pieces: tuple[Piece, ...]
    names: tuple[Name, ...]
    by_course: tuple[tuple[str, int], ...]
    other: int


@dataclass(frozen=True, slots=True)
class Legend:
    course: str
    colour: int
    thousandths: int
    leases: int


def colour(course: str) -> int:
    """A course's own colour, on every page and after every restart."""
    return zlib.crc32(course.encode()) % COLOURS


def colours(courses: Iterable[str]) -> dict[str, int]:
    """Each course's colour in one picture: its own, or the next that is free while there are any."""
    found: dict[str, int] = {}
    for course in sorted(set(courses)):
        mine = colour(course)
        free = [c for shift in range(COLOURS) if (c := (mine + shift) % COLOURS) not in found.values()]
        found[course] = free[0] if free else mine
    return found


def gpus(pool: Pool, leases: Sequence[Lease]) -> list[Gpu]:
    """All GPUs by server and number, with their slices by course. ``leases``: all that there are, also for a
    picture of some GPUs, so that a course has one colour in both.
    """
    colour_of = colours(lease.course for lease in leases if lease.slices)
    lying: dict[str, list[tuple[Lease, LeaseSlice]]] = defaultdict(list)
    for lease in leases:
        for part in lease.slices:
            lying[part.gpu].append((lease, part))
    found = [_gpu(gpu, lying.get(gpu.uuid, ()), colour_of) for gpu in pool.gpus]
    return sorted(found, key=lambda gpu: (gpu.server, gpu.index, gpu.uuid))


def _gpu(
    gpu: PoolGpu,
    lying: Sequence[tuple[Lease, LeaseSlice]],
    colour_of: Mapping[str, int],
) -> Gpu:
    pieces, at = [], 0.0
    by_course: dict[str, int] = defaultdict(int)
    for lease, part in sorted(lying, key=lambda pair: (pair[0].course, pair[0].user, pair[0].id)):
        share, course = part.thousandths, lease.course
        by_course[course] += share
        length = min(float(share), max(0.0, BAR - at))
        pieces.append(
            Piece(
                lease.id,
                course,
                lease.user,
                lease.state,
                colour_of[course],
                at,
                length,
                share,
                part.mib,
            )
        )
        at += length
    return Gpu(
        gpu.agent,
        gpu.index,
        gpu.uuid,
        gpu.gpu_class,
        gpu.name,
        gpu.available,
        gpu.used_thousandths,
        gpu.used_mib,
        gpu.allocatable_mib,
        tuple(pieces),
        tuple(_names(pieces)),
        tuple(sorted(by_course.items())),
        max(0, min(THOUSANDTHS, gpu.used_thousandths) - sum(by_course.values())),
    )


def _names(pieces: Iterable[Piece]) -> Iterator[Name]:
    """A course's slices lie side by side, and have one name."""
    for course, its in groupby(pieces, key=lambda piece: piece.course):
        own = list(its)
        if len(course) * LETTER + BESIDE <= sum(piece.length for piece in own):
            yield Name(course, own[0].begin)


def legend(bars: Iterable[Gpu]) -> list[Legend]:
    """The courses that hold something, the largest first."""
    shares: dict[str, int] = defaultdict(int)
    colour_of: dict[str, int] = {}
    leases: dict[str, set[str]] = defaultdict(set)
    for gpu in bars:
        for piece in gpu.pieces:
            shares[piece.course] += piece.thousandths
            leases[piece.course].add(piece.lease)
            colour_of[piece.course] = piece.colour
    found = [
        Legend(course, colour_of[course], share, len(leases[course])) for course, share in shares.items()
    ]
    return sorted(found, key=lambda entry: (-entry.thousandths, entry.course))


def conflicts(accounts: Iterable[Account]) -> list[str]:
    """What is promised and cannot be kept as it stands, in the controller's words; each once."""
    standings = (standing for account in accounts for standing in account.classes.values())
    return list(dict.fromkeys(note for standing in standings for note in standing.notes))


def short_meetings(hours: Iterable[ClassHour]) -> list[tuple[str, str, str, int]]:
    """Meetings of class hours that lack seats: course, size, when, how many."""
    return [
        (hour.course, hour.size, meeting.starts_at, meeting.short)
        for hour in hours
        for meeting in hour.meetings
        if meeting.short
    ]


def faults(accounts: Iterable[Account]) -> list[Said]:
    """Properties of the hub's groups that cannot be carried out."""
    return [said for account in accounts for said in account.properties if said.fault]
