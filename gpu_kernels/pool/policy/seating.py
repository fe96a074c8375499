"""Planning seats anew: when GPUs come and go, and when a new window needs others to move.

``replan`` and ``make_room`` work on a copy of the agenda and answer with all seats of each window.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gpu_kernels.pool.policy.agenda import Agenda
from gpu_kernels.pool.policy.agenda_model import Bench, Demand, Seating, Stays, no_stays

Seats = Mapping[int, Seating]


def replan(
    agenda: Agenda,
    demands: Collection[Demand],
    benches: Collection[Bench],
    stays: Stays = no_stays,
    *,
    now: int = 0,
) -> dict[str, Seats]:
    """Every demand's planned and held seats by number, on the GPUs that there are now.

    Seats stay where they are as far as they can. Where capacity lacks, the latest confirmed windows lose
    seats: a window is short only if it would be without all that were confirmed after it.
    """
    trial = agenda.copy(*((demand.span.starts_at, demand.span.ends_at) for demand in demands))
    settle(trial, demands, benches, stays, now=now)
    return {demand.span.id: dict(trial.seats(demand.span.id)) for demand in demands}


def settle(
    trial: Agenda,
    demands: Collection[Demand],
    benches: Collection[Bench],
    stays: Stays = no_stays,
    *,
    now: int = 0,
) -> None:
    """``replan`` on the agenda itself."""
    by_rank = sorted(demands, key=lambda demand: demand.span.rank)
    here = {bench.id: bench for bench in benches}
    for demand in by_rank:
        _drop_unusable(trial, demand, here)
    _drop_overfull(trial, reversed(by_rank), here, stays, now)
    for demand in by_rank:
        _seat(trial, demand, trial.plan(demand, benches, stays, now=now).seats)
    for demand in by_rank:
        if _lacks(trial, demand):
            _displace(trial, demand, by_rank, here, stays, now)


def _displace(
    trial: Agenda,
    demand: Demand,
    by_rank: Collection[Demand],
    here: Mapping[int, Bench],
    stays: Stays,
    now: int,
) -> None:
    """Give a window what it lacks, at the cost of as few of the latest confirmed as that takes."""
    _seat(trial, demand, trial.plan(demand, here.values(), stays, now=now).seats)
    later = [other for other in by_rank if other.span.rank > demand.span.rank]
    for other in sorted(later, key=lambda other: other.span.rank, reverse=True):
        if not _lacks(trial, demand):
            return
        if other.span.meets(demand.span):
            plan = trial.plan(demand, here.values(), stays, now=now, before=other.span.rank)
            _seat(trial, demand, plan.seats)
            _drop_overfull(trial, reversed(later), here, stays, now)


def make_room(
    agenda: Agenda,
    wanted: Collection[Demand],
    movable: Collection[Demand],
    benches: Collection[Bench],
    stays: Stays = no_stays,
    *,
    now: int = 0,
) -> dict[str, Seats] | None:
    """All seats of ``wanted`` beside all of ``movable``, which may move; None where that cannot be found.

    Large seats are placed first, since small ones fit around them and not the other way round.
    """
    trial = agenda.copy(*((demand.span.starts_at, demand.span.ends_at) for demand in (*wanted, *movable)))
    both = [*wanted, *(demand for demand in movable if any(demand.span.meets(w.span) for w in wanted))]
    for demand in both:
        for number in list(trial.seats(demand.span.id)):
            trial.drop_seat(demand.span.id, number)
        trial.put_window(demand.span)
    for demand in sorted(both, key=lambda demand: (-_weight(demand, benches), demand.span.rank)):
        plan = trial.plan(demand, benches, stays, now=now)
        if plan.short:
            return None
        _seat(trial, demand, plan.seats)
    return {demand.span.id: dict(trial.seats(demand.span.id)) for demand in both}


def _weight(demand: Demand, benches: Iterable[Bench]) -> int:
    """The largest part of a GPU, in thousandths of memory or compute, that one of its seats takes."""
    parts = ((bench, bench.seat(demand.size)) for bench in benches)
    return max((max(p.thousandths, p.mib * 1000 // b.mib) for b, p in parts if p is not None), default=0)


def _lacks(trial: Agenda, demand: Demand) -> bool:
    return len(trial.seats(demand.span.id)) + len(demand.taken) < demand.seats


def _seat(trial: Agenda, demand: Demand, seats: Iterable[Seating]) -> None:
    window = demand.span.id
    used = demand.taken | trial.seats(window).keys()
    free = (number for number in range(1, demand.seats + 1) if number not in used)
    for seating, number in zip(seats, list(free), strict=False):
        trial.put_seat(window, number, seating.gpu_id, seating.part)


def _drop_unusable(trial: Agenda, demand: Demand, here: Mapping[int, Bench]) -> None:
    """Seats on GPUs that are gone, end too early, or have another size now, and those of more than are
    wanted.
    """
    window = demand.span.id
    for number, seating in list(trial.seats(window).items()):
        bench = here.get(seating.gpu_id)
        if bench is None or bench.until < demand.span.ends_at or bench.seat(demand.size) != seating.part:
            trial.drop_seat(window, number)
    too_many = len(trial.seats(window)) + len(demand.taken) - demand.seats
    for number in sorted(trial.seats(window), reverse=True)[: max(0, too_many)]:
        trial.drop_seat(window, number)


def _drop_overfull(
    trial: Agenda, latest_first: Iterable[Demand], here: Mapping[int, Bench], stays: Stays, now: int
) -> None:
    for demand in latest_first:
        window = demand.span.id
        for gpu_id in sorted({seating.gpu_id for seating in trial.seats(window).values()}):
            over = trial.overfull(window, here[gpu_id], stays, now=now)
            there = [number for number, s in trial.seats(window).items() if s.gpu_id == gpu_id]
            for number in sorted(there, reverse=True)[:over]:
                trial.drop_seat(window, number)
