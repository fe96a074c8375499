"""The figures of a siege: what became of the students, and what was taken beside what may be taken."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.figures import Figure
from benchmarks.siege.plan import Phase
from benchmarks.siege.watch import MIB, Watch, Worker

RENEWAL_P99_S = 1.0
REPORTS_MISSED = 3
CONTROLLER_MIB = 512
AGENT_MIB = 256
CODE_MIB = 128
"""What a worker has before any client: code, the runtime's tables, stacks."""
LOG_MIB = 10.0
DESCRIPTORS_LEFT = 64


@dataclass(frozen=True)
class Outcome:
    """``students``: what each student's process told; ``in_force``: (lease, epoch) that the pool knows at the
    end, and that did not end in between."""

    students: Sequence[dict[str, Any]]
    in_force: set[tuple[str, int]]
    phases: Sequence[Phase]
    began: float
    watch: Watch
    tally: Counter[str]
    report_every: float

    def lost(self) -> list[str]:
        """A line for each student whose lease is not what it was."""
        return [
            f"{each['lease']}: {each['lost'] or 'not in force at the end'}"
            for each in self.students
            if each["lost"] or (each["lease"], each["epoch"]) not in self.in_force
        ]

    def ended_kernels(self) -> list[str]:
        return [each["kernel_ended"] for each in self.students if each["kernel_ended"] is not None]


def figures(outcome: Outcome) -> list[Figure]:
    """All of them; those with an aim say whether the pool stood."""
    return [
        Figure("leases of students", len(outcome.students), "leases", "higher"),
        Figure("leases lost", len(outcome.lost()), "leases", "lower", 0),
        Figure("kernels whose GPU work ended", len(outcome.ended_kernels()), "kernels", "lower", 0),
        *_renewals(outcome),
        *_steps(outcome),
        *_servers(outcome),
        *_workers(outcome.watch),
        *(Figure(f"attack {name}", count, "", "higher") for name, count in sorted(outcome.tally.items())),
    ]


def quantile(samples: Sequence[float], thousandths: int) -> float:
    """The sample that so many thousandths do not exceed; 0 of none."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, len(ordered) * thousandths // 1000)] if ordered else 0.0


def _renewals(outcome: Outcome) -> list[Figure]:
    renewals = [renewal for student in outcome.students for renewal in student["renewals"]]
    seconds = [taken for _, taken, _ in renewals]
    refused = sum(bool(error) for _, _, error in renewals)
    found = [
        Figure("renewals", len(renewals), "calls", "higher"),
        Figure("renewals refused or unanswered", refused, "calls", "lower", 0),
        Figure("renewal, p50", statistics.median(seconds or [0.0]), "s", "lower"),
        Figure("renewal, p99", quantile(seconds, 990), "s", "lower", RENEWAL_P99_S),
        Figure("renewal, longest", max(seconds, default=0.0), "s", "lower"),
    ]
    for phase in outcome.phases:
        within = [
            taken for at, taken, _ in renewals if phase.start <= at - outcome.began < phase.end
        ]  # fmt: skip
        found.append(Figure(f"renewal, p99, {phase.name}", quantile(within, 990), "s", "lower"))
    return found


def _steps(outcome: Outcome) -> list[Figure]:
    seconds = [taken for student in outcome.students for at, taken in student["steps"] if at >= outcome.began]
    return [
        Figure("GPU steps", len(seconds), "steps", "higher"),
        Figure("GPU step, p50", statistics.median(seconds or [0.0]), "s", "lower"),
        Figure("GPU step, p99", quantile(seconds, 990), "s", "lower"),
        Figure("GPU step, longest", max(seconds, default=0.0), "s", "lower"),
    ]


def _servers(outcome: Outcome) -> list[Figure]:
    watch = outcome.watch
    logged = watch.logged / MIB
    found = [
        Figure(
            "agent silent, longest", watch.silent_for, "s", "lower", REPORTS_MISSED * outcome.report_every
        ),
        Figure("admin's questions unanswered", watch.unanswered, "calls", "lower", 0),
        Figure("logs written", logged, "MiB", "lower", LOG_MIB),
        *(
            Figure(f"processors busy: {name}", busy / watch.seconds, "cores", "lower")
            for name, busy in watch.busy.items()
        ),
    ]
    for name, bound in (("controller", CONTROLLER_MIB), ("agent", AGENT_MIB)):
        found.append(Figure(f"memory of the {name}, peak", watch.peaks[name], "MiB", "lower", bound))
        left = watch.limits[name] - DESCRIPTORS_LEFT
        found.append(Figure(f"descriptors of the {name}, most", watch.descriptors[name], "", "lower", left))
    return found


def _workers(watch: Watch) -> list[Figure]:
    return [
        _worker("memory of a student's worker, peak", watch.largest(of_students=True)),
        _worker("memory of the attacker's worker, peak", watch.largest(of_students=False)),
    ]


def _worker(name: str, worker: Worker | None) -> Figure:
    """Beside what its command line lets it have, its slice on a software GPU included."""
    if worker is None:
        return Figure(name, 0.0, "MiB", "lower")
    return Figure(name, worker.peak, "MiB", "lower", worker.own_limit + worker.slice_mib + CODE_MIB)
