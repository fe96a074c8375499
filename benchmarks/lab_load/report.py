"""What the benchmark prints: times by stage, who was refused or lost, processor time, what held loops up."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.figures import Figure
from benchmarks.lab_load.loops import Block, Loops
from benchmarks.lab_load.visits import STAGES, Visit

LONGEST_TOLD = 5
AIM_OURS_S = 0.1
HUB = "hub"


@dataclass(frozen=True)
class Outcome:
    """What one run showed."""

    visits: list[Visit]
    seconds: float
    leftovers: list[str]
    processors: dict[str, float]
    most_memory: int
    loops: dict[str, Loops]

    @property
    def refused(self) -> list[str]:
        return [f"{visit.name} was refused {visit.refused}" for visit in self.visits if visit.refused]

    @property
    def lost(self) -> list[str]:
        return [f"{visit.name} was lost {visit.lost}" for visit in self.visits if visit.lost]

    @property
    def failures(self) -> list[str]:
        return [*self.refused, *self.lost, *self.leftovers]


def figures(outcome: Outcome) -> list[Figure]:
    cells = sum(visit.ran > 0 for visit in outcome.visits)
    found = [
        Figure("students whose cell ran", cells, "", "higher", len(outcome.visits)),
        Figure("refused", len(outcome.refused), "", "lower", 0),
        Figure("lost", len(outcome.lost), "", "lower", 0),
        Figure("left at the end: leases, workers, memory in use", len(outcome.leftovers), "", "lower", 0),
        Figure("all of it", outcome.seconds, "s", "lower"),
        Figure("memory at the most", outcome.most_memory / 2**30, "GiB", "lower"),
    ]
    for stage in STAGES:
        samples = seconds_of(outcome.visits, stage)
        if samples:
            found += [
                Figure(f"{stage}, {name}", value, "s", "lower") for name, value in spread(samples).items()
            ]
    for kind, loops in outcome.loops.items():
        aim = AIM_OURS_S if kind == HUB else None
        found += [
            Figure(f"{kind}: loop blocked by us, longest", loops.ours, "s", "lower", aim),
            Figure(f"{kind}: loop blocked, longest", loops.longest, "s", "lower"),
            Figure(f"{kind}: loop blocked by who knows, longest", loops.unseen, "s", "lower"),
            Figure(f"{kind}: time with more than 100 ms to wait", 100 * loops.held_up, "%", "lower"),
        ]
    return found


def seconds_of(visits: Sequence[Visit], stage: str) -> list[float]:
    return [visit.seconds[stage] for visit in visits if stage in visit.seconds]


def spread(samples: list[float]) -> dict[str, float]:
    """The middle one, the one that 19 of 20 stay below, and the longest."""
    ordered = sorted(samples)
    return {
        "p50": statistics.median(ordered),
        "p95": ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))],
        "max": ordered[-1],
    }


def stages(visits: Sequence[Visit]) -> str:
    rows = [f"{'stage':14} {'p50':>7} {'p95':>7} {'max':>7}  seconds"]
    for stage, what in STAGES.items():
        samples = seconds_of(visits, stage)
        if samples:
            times = " ".join(f"{value:7.2f}" for value in spread(samples).values())
            rows.append(f"{stage:14} {times}  {what}")
    return "\n".join(rows)


def processors(outcome: Outcome) -> str:
    total = sum(outcome.processors.values())
    rows = [f"{'processor time':30} {'seconds':>8} {'share':>6}"]
    rows += [
        f"{kind:30} {seconds:8.1f} {seconds / total:6.1%}" for kind, seconds in outcome.processors.items()
    ]
    return "\n".join(rows)


def loops(outcome: Outcome) -> str:
    rows = [
        "milliseconds that an event loop stood still, less what it waited for a processor",
        f"{'process':12} {'longest':>8} {'by us':>8} {'unseen':>8} {'> 100 ms wait':>14} {'latest beat':>12}",
    ]
    for kind, each in outcome.loops.items():
        rows.append(
            f"{kind:12} {each.longest * 1000:8.0f} {each.ours * 1000:8.0f} {each.unseen * 1000:8.0f} "
            f"{each.held_up:14.2%} {each.latest * 1000:12.0f}"
        )
    for kind, each in outcome.loops.items():
        by_us = sorted((block for block in each.blocks if block.ours), key=lambda block: -block.ours)
        rows += [f"{kind}, by us: {line(block)}" for block in by_us[:LONGEST_TOLD]]
        longest = sorted(each.blocks, key=lambda block: -block.own)
        rows += [f"{kind}: {line(block)}" for block in longest[:LONGEST_TOLD]]
    return "\n".join(rows)


def line(block: Block) -> str:
    mine = f"{block.ours * 1000:.0f} of " if block.ours else ""
    parts = [
        f"{block.wall * 1000:.0f} by the clock",
        f"{block.cpu * 1000:.0f} computing",
        f"{block.collecting * 1000:.0f} collecting garbage",
    ]
    text = f"{mine}{block.own * 1000:.0f} ms ({', '.join(parts)}) {block.name}"
    return f"{text}\n    {block.where}" if block.where else text
