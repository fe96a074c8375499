"""What class hours hold on which GPU, and when.

A *window* is one meeting of a class hour; its *seats* are slices of one size on named GPUs, held from its
start to its end. Everything here follows from one sentence:

    On each GPU and at each instant from now on, the seats of the windows that are open then, and the leases
    that may still be there then, fit together.

A lease may be on its GPU until its longest life ends, or until it must make way, whichever comes first: it
was told either when it was granted, and is never told an earlier time. So seats are planned beside leases
as they stand, and leases are granted beside seats as they are planned (``held_for``, ``preempt_at``).
What a seat gives to its own lease counts as that lease, not as a seat.

The object is an index of the book's windows and seats, kept up with each change and its undoing. Asking it
costs what the windows of the asked time cost, and nothing where there is none.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from gpu_kernels.pool.policy.agenda_model import (
    FOREVER,
    Bench,
    Collision,
    Demand,
    Plan,
    Rank,
    Seating,
    Span,
    Stay,
    Stays,
    no_stays,
)  # fmt: skip
from gpu_kernels.units import Slice

NOTHING: Mapping[int, Slice] = MappingProxyType({})


@dataclass(slots=True)
class _Sum:
    """The seats of one window on one GPU, added up."""

    mib: int = 0
    thousandths: int = 0
    seats: int = 0


@dataclass(slots=True)
class _Entry:
    span: Span
    seats: dict[int, Seating] = field(default_factory=dict)
    load: dict[int, _Sum] = field(default_factory=dict)

    def take_over(self, other: _Entry) -> None:
        self.seats = dict(other.seats)
        self.load = {gpu: _Sum(load.mib, load.thousandths, load.seats) for gpu, load in other.load.items()}


class Agenda:
    """Windows and their seats. ``put_*`` and ``drop_*`` are called for each change of a row, and for its
    undoing, in any order: a seat may come before its window.
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._early: dict[str, dict[int, Seating]] = {}
        self._by_start: list[tuple[int, str]] = []
        self._longest = self._longest_lead = 0
        """No window lasts longer, or leads longer: what a search by starts has to look at beside."""

    def __len__(self) -> int:
        return len(self._entries)

    def copy(self, *times: tuple[int, int]) -> Agenda:
        """One to try changes on, with the windows that are open at some instant of ``times``; with all of
        them where none is given.
        """
        other = Agenda()
        for since, until in times or ((0, FOREVER),):
            for entry in self._near(since, until):
                if entry.span.id not in other._entries:
                    other.put_window(entry.span)
                    other._entries[entry.span.id].take_over(entry)
        return other

    # Keeping it up to date

    def put_window(self, span: Span) -> None:
        """A window that is planned or open."""
        old = self._entries.get(span.id)
        seats = self._early.pop(span.id, {}) if old is None else old.seats
        if old is not None:
            self._unlist(old.span)
        entry = _Entry(span)
        self._entries[span.id] = entry
        insort(self._by_start, (span.starts_at, span.id))
        self._longest = max(self._longest, span.ends_at - span.starts_at)
        self._longest_lead = max(self._longest_lead, span.starts_at - span.lead_at)
        for number, seating in seats.items():
            _add(entry, number, seating)

    def drop_window(self, window: str) -> None:
        """It is over, cancelled, or undone. Its seats count no more."""
        entry = self._entries.pop(window, None)
        if entry is not None:
            self._unlist(entry.span)
            if entry.seats:
                self._early[window] = entry.seats

    def _unlist(self, span: Span) -> None:
        del self._by_start[bisect_left(self._by_start, (span.starts_at, span.id))]
        if not self._by_start:
            self._longest = self._longest_lead = 0

    def put_seat(self, window: str, number: int, gpu_id: int, part: Slice) -> None:
        """A seat that is planned or held."""
        self.drop_seat(window, number)
        entry = self._entries.get(window)
        if entry is None:
            self._early.setdefault(window, {})[number] = Seating(gpu_id, part)
        else:
            _add(entry, number, Seating(gpu_id, part))

    def drop_seat(self, window: str, number: int) -> None:
        """It was taken (its lease counts from now on), returned, or undone."""
        entry = self._entries.get(window)
        if entry is None:
            waiting = self._early.get(window, {})
            waiting.pop(number, None)
            if not waiting:
                self._early.pop(window, None)
        else:
            _take(entry, number)

    # Asking

    def span(self, window: str) -> Span | None:
        entry = self._entries.get(window)
        return None if entry is None else entry.span

    def spans(self, since: int = 0, until: int = FOREVER) -> Iterator[Span]:
        """The windows that are open at some instant of ``[since, until)``, in the order of their starts."""
        for entry in self._near(since, until):
            yield entry.span

    def started(self, now: int) -> list[Span]:
        """The windows whose start has come, also those that should have been closed since."""
        starts = self._by_start[: bisect_left(self._by_start, (now + 1, ""))]
        return [self._entries[window].span for _, window in starts]

    def in_lead(self, now: int) -> Iterator[Span]:
        """The windows whose lead time has come and that are not over."""
        for entry in self._near(now, now + self._longest_lead + 1):
            if entry.span.lead_at <= now:
                yield entry.span

    def seats(self, window: str) -> Mapping[int, Seating]:
        """The window's planned and held seats by number."""
        entry = self._entries.get(window)
        return MappingProxyType({}) if entry is None else MappingProxyType(entry.seats)

    def free_seat(self, window: str, usable: Callable[[Seating], bool]) -> int | None:
        """The number of a seat that a member may have now; ``usable``: its slice is really free on its GPU
        (an ended lease's may not be confirmed yet).
        """
        entry = self._entries.get(window)
        seats = {} if entry is None else entry.seats
        return next((number for number in sorted(seats) if usable(seats[number])), None)

    def held_at(self, gpu_id: int, at: int) -> Slice:
        """What the seats of windows that are open then hold on the GPU."""
        loads = [entry.load[gpu_id] for entry in self._near(at, at + 1) if gpu_id in entry.load]
        return Slice(sum(load.mib for load in loads), sum(load.thousandths for load in loads))

    def held_for(
        self, now: int, until: int, stays: Stays = no_stays, *, preemptible: bool = False
    ) -> Mapping[int, Slice]:
        """What a new lease with that life must leave alone on each GPU beyond what is in use there now.

        ``preemptible``: it agrees to make way (``preempt_at`` says when), so only windows whose lead time
        has come, or that are open, count. GPUs that are not named hold nothing back.
        """
        if not self._entries:
            return NOTHING
        held: dict[int, Slice] = {}
        for gpu_id, loads in self._loads(now, until, preemptible=preemptible).items():
            most = _most(loads, tuple(stays(gpu_id)), now)
            if most.mib or most.thousandths:
                held[gpu_id] = most
        return held

    def preempt_at(
        self,
        gpu_id: int,
        part: Slice,
        free: Slice,
        now: int,
        until: int,
        stays: Stays = no_stays,
        *,
        seated: bool = False,
    ) -> int | None:
        """The instant at which a new lease of ``part`` on that GPU would have to make way; None: not
        before ``until``. ``now``: it cannot be there at all.

        ``free``: what nothing uses there now. ``seated``: it takes a seat that has just left the agenda, so
        that nothing which is open now, or soon, stands against its start.
        """
        if not _fits(part, free):
            return now
        if not self._entries:
            return None
        loads = self._loads(now, until, gpu_id=gpu_id).get(gpu_id, [])
        there = tuple(stays(gpu_id))
        for begins, span, _ in sorted(loads, key=lambda load: (load[0], load[1].id)):
            if seated and begins <= now:
                continue
            extra = _at(loads, there, begins, now)
            if not _fits(part, Slice(free.mib - extra.mib, free.thousandths - extra.thousandths)):
                return now if span.lead_at <= now and not seated else begins
        return None

    def plan(
        self,
        demand: Demand,
        benches: Collection[Bench],
        stays: Stays = no_stays,
        *,
        now: int = 0,
        before: Rank | None = None,
    ) -> Plan:
        """Where the seats that the window lacks can go, beside all that is planned already.

        ``before``: as if windows of that rank or a later one were not there. The answer does not hang on the
        order of ``benches`` or of what was planned; GPUs without long leases come first, then those that
        take the most of its seats.
        """
        span = demand.span
        lacks = max(0, demand.seats - len(demand.taken) - len(self.seats(span.id)))
        near = list(self._near(max(now, span.starts_at), span.ends_at))
        rooms: list[tuple[int, int, int, Slice]] = []
        leases, leases_until = 0, 0
        for bench in benches if lacks else ():
            part = bench.seat(demand.size)
            if part is None or bench.until < span.ends_at:
                continue
            there = tuple(stays(bench.id))
            staying = [stay.until for stay in there if stay.until > max(now, span.starts_at)]
            leases, leases_until = leases + len(staying), max(leases_until, *staying, 0)
            beside = [e for e in near if bench.id in e.load and (before is None or e.span.rank < before)]
            number = _room(span, bench, part, beside, there, now)
            if number > 0:
                rooms.append((len(staying), -number, bench.id, part))
        seats: list[Seating] = []
        for _, less, gpu_id, part in sorted(rooms, key=lambda entry: entry[:3]):
            seats += [Seating(gpu_id, part)] * min(-less, lacks - len(seats))
        if len(seats) == lacks:
            return Plan(tuple(seats), lacks)
        collisions = self._collisions(demand, near, benches)
        return Plan(tuple(seats), lacks, collisions, leases, leases_until or None)

    def overfull(self, window: str, bench: Bench, stays: Stays = no_stays, *, now: int = 0) -> int:
        """How many of the window's seats on that GPU are too many there."""
        entry = self._entries[window]
        if bench.id not in entry.load:
            return 0
        part = next(seating.part for seating in entry.seats.values() if seating.gpu_id == bench.id)
        near = self._near(max(now, entry.span.starts_at), entry.span.ends_at)
        beside = [other for other in near if bench.id in other.load]
        over = -_room(entry.span, bench, part, beside, tuple(stays(bench.id)), now)
        return min(max(0, over), entry.load[bench.id].seats)

    def _collisions(
        self, demand: Demand, near: Iterable[_Entry], benches: Iterable[Bench]
    ) -> tuple[Collision, ...]:
        ids = {bench.id for bench in benches if bench.seat(demand.size) is not None}
        found = []
        for entry in near:
            span = entry.span
            seats = sum(load.seats for gpu_id, load in entry.load.items() if gpu_id in ids)
            if seats and span.id != demand.span.id:
                found.append(Collision(span.course, span.starts_at, span.ends_at, seats))
        return tuple(found)

    # Inside

    def _near(self, since: int, until: int) -> Iterator[_Entry]:
        """The windows that are open at some instant of ``[since, until)``."""
        for place in range(bisect_left(self._by_start, (since - self._longest, "")), len(self._by_start)):
            starts_at, window = self._by_start[place]
            if starts_at >= until:
                return
            entry = self._entries[window]
            if entry.span.ends_at > since:
                yield entry

    def _loads(
        self, now: int, until: int, *, gpu_id: int | None = None, preemptible: bool = False
    ) -> dict[int, list[_Load]]:
        """By GPU, what windows hold there in ``[now, until)``, and from when on.

        A window whose lead time has come counts however soon ``until`` is: nothing is placed on its seats.
        """
        loads: dict[int, list[_Load]] = defaultdict(list)
        in_lead = now + self._longest_lead + 1
        for entry in self._near(now, in_lead if preemptible else max(until, in_lead)):
            span = entry.span
            if span.lead_at > now and (preemptible or span.starts_at >= until):
                continue
            begins = max(now, span.starts_at)
            for each in entry.load if gpu_id is None else (gpu_id,):
                if each in entry.load:
                    loads[each].append((begins, span, entry.load[each]))
        return loads


_Load = tuple[int, Span, _Sum]


def _room(
    span: Span,
    bench: Bench,
    part: Slice,
    beside: Collection[_Entry],
    there: Collection[Stay],
    now: int,
) -> int:
    """How many more seats of the window the GPU can take over all of the window's time; below 0 where it
    has too many. An ended lease whose server has not confirmed it is on its way out, and does not count.
    """
    begins = max(now, span.starts_at)
    most = 1 << 30
    for at in {begins, *(max(begins, entry.span.starts_at) for entry in beside)}:
        open_then = [entry.load[bench.id] for entry in beside if _open(entry.span, at)]
        staying = [stay.part for stay in there if stay.until > at]
        mib = sum(load.mib for load in open_then) + sum(p.mib for p in staying)
        thousandths = sum(load.thousandths for load in open_then) + sum(p.thousandths for p in staying)
        most = min(most, (bench.mib - mib) // part.mib, (bench.thousandths - thousandths) // part.thousandths)
    return most


def _add(entry: _Entry, number: int, seating: Seating) -> None:
    entry.seats[number] = seating
    load = entry.load.setdefault(seating.gpu_id, _Sum())
    load.mib += seating.part.mib
    load.thousandths += seating.part.thousandths
    load.seats += 1


def _take(entry: _Entry, number: int) -> None:
    seating = entry.seats.pop(number, None)
    if seating is None:
        return
    load = entry.load[seating.gpu_id]
    load.mib -= seating.part.mib
    load.thousandths -= seating.part.thousandths
    load.seats -= 1
    if not load.seats:
        del entry.load[seating.gpu_id]


def _open(span: Span, at: int) -> bool:
    return span.starts_at <= at < span.ends_at


def _stays(stay: Stay, at: int, now: int) -> bool:
    """Whether its slice may still be in use at ``at``: what is in use now is, whatever it should be."""
    return at <= now or stay.until > at


def _fits(part: Slice, free: Slice) -> bool:
    return part.mib <= free.mib and part.thousandths <= free.thousandths


def _at(loads: Iterable[_Load], there: Iterable[Stay], at: int, now: int) -> Slice:
    """What is held at ``at`` beyond what is in use now: seats, less what leases have left by then."""
    gone = [stay.part for stay in there if not _stays(stay, at, now)]
    mib = sum(load.mib for _, span, load in loads if _open(span, at))
    thousandths = sum(load.thousandths for _, span, load in loads if _open(span, at))
    return Slice(mib - sum(p.mib for p in gone), thousandths - sum(p.thousandths for p in gone))


def _most(loads: Iterable[_Load], there: Collection[Stay], now: int) -> Slice:
    """The most of ``_at`` at any instant from now on, at least nothing."""
    mib = thousandths = 0
    for begins, _, _ in loads:
        extra = _at(loads, there, begins, now)
        mib, thousandths = max(mib, extra.mib), max(thousandths, extra.thousandths)
    return Slice(mib, thousandths)
