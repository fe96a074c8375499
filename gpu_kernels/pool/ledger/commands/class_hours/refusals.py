"""Why a class hour cannot be had: how many seats fit, who is there, and when there would be room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpu_kernels.errors import ClassHourFull
from gpu_kernels.pool.ledger.commands.class_hours.windows import HORIZON
from gpu_kernels.pool.ledger.state.rows import ClassHour
from gpu_kernels.pool.policy.agenda import Agenda
from gpu_kernels.pool.policy.agenda_model import FOREVER, Bench, Demand, Plan, Seating, Span, Stays
from gpu_kernels.vocabulary import calendar

SHOWN, MOST_TIMES = 5, 3
"""So many of the meetings that lack seats, and of the times that would do, are named in a refusal."""
STEP, MOST_STEPS = 30, 8
"""Other times to begin at are looked for in steps of so many minutes."""
LOOK_AROUND = (MOST_STEPS * STEP + 60) * calendar.MINUTE
"""So far from its meetings lies what a refusal looks at; an hour more for a change of clocks."""


@dataclass(slots=True)
class Trial:
    """A copy of the agenda on which a class hour is tried. ``seats``: what windows get, by window."""

    agenda: Agenda
    here: Sequence[Bench]
    there: Stays
    now: int
    seats: dict[str, Mapping[int, Seating]]
    demands: dict[str, Demand]


def full(
    row: ClassHour, trial: Trial, demands: Sequence[Demand], lacking: Mapping[str, Plan]
) -> ClassHourFull:
    """The refusal: how many fit, who is there, and when there would be room."""
    fit = {window: row.seats - plan.short for window, plan in lacking.items()}
    most = min(fit.values())
    for demand in demands:
        trial.agenda.drop_window(demand.span.id)
    others = _other_starts(row, trial, len(demands))
    lines = [
        f"{row.course} cannot have {row.seats} seats of {row.size} "
        f"at {_meetings_text(row, demands, lacking)}.",
        *[_collision_text(row, demand, lacking) for demand in demands if demand.span.id in lacking][:SHOWN],
        _advice(most, row, others),
    ]
    details = {
        "wanted": row.seats,
        "fits": most,
        "meetings": len(demands),
        "short": [
            {
                "date": calendar.wall_text(demand.span.starts_at, row.time_zone)[:10],
                "fits": fit[demand.span.id],
                "courses": sorted({c.course for c in lacking[demand.span.id].collisions}),
            }
            for demand in demands
            if demand.span.id in lacking
        ],
        "starts": list(others),
    }
    return ClassHourFull("\n".join(lines), details=details)


def _meetings_text(row: ClassHour, demands: Sequence[Demand], lacking: Mapping[str, Plan]) -> str:
    if len(demands) == 1:
        return calendar.wall_text(demands[0].span.starts_at, row.time_zone)
    if len(demands) == len(lacking):
        return f"any of its {len(demands)} meetings"
    return f"{len(lacking)} of its {len(demands)} meetings"


def _collision_text(row: ClassHour, demand: Demand, lacking: Mapping[str, Plan]) -> str:
    plan, zone = lacking[demand.span.id], row.time_zone
    date = calendar.wall_text(demand.span.starts_at, zone)[:10]
    text = f"{date}: {row.seats - plan.short} fit"
    for other in plan.collisions[:3]:
        start, end = calendar.clock_text(other.starts_at, zone), calendar.clock_text(other.ends_at, zone)
        text += f"; {other.course} has {other.seats} seats from {start} to {end}"
    if plan.leases and plan.leases_until is not None and plan.leases_until < FOREVER:
        until = calendar.wall_text(plan.leases_until, zone)
        leases = "1 lease" if plan.leases == 1 else f"{plan.leases} leases"
        text += f"; {leases} may run on these GPUs until {until}"
    return f"{text}."


def _advice(most: int, row: ClassHour, others: Sequence[str]) -> str:
    choices = []
    if most:
        choices.append(f"ask for {most} seats")
    choices.append("choose a smaller size")
    if others:
        choices.append(f"begin at {_listed(others)}, when all {row.seats} fit")
    else:
        choices.append("choose another day or time")
    return f"You can {', '.join(choices[:-1])}, or {choices[-1]}."


def _listed(texts: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def _other_starts(row: ClassHour, trial: Trial, meetings: int) -> Sequence[str]:
    """Times near the wanted one, between 7:00 and 22:00, at which all of so many meetings would have all
    seats.
    """
    found: list[str] = []
    first = int(row.start[:2]) * 60 + int(row.start[3:])
    nearest_first = sorted(range(-MOST_STEPS, MOST_STEPS + 1), key=abs)[1:]
    for by in nearest_first:
        begins = first + by * STEP
        if begins < 7 * 60 or begins + row.minutes > 22 * 60:
            continue
        start = f"{begins // 60:02d}:{begins % 60:02d}"
        if _fits_as(replace(row, start=start), trial, meetings):
            found.append(start)
            if len(found) == MOST_TIMES:
                break
    return sorted(found)


def _fits_as(row: ClassHour, trial: Trial, meetings: int) -> bool:
    to_come = [m for m in calendar.meetings(row, trial.now, trial.now + HORIZON) if trial.now < m.late_at]
    if len(to_come) < meetings:
        return False
    for meeting in to_come:
        span = Span("", row.course, meeting.starts_at, meeting.ends_at, meeting.lead_at, (trial.now, ""))
        plan = trial.agenda.plan(Demand(span, row.size, row.seats), trial.here, trial.there, now=trial.now)
        if plan.short:
            return False
    return True
