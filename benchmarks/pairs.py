"""A benchmark beside itself in another checkout: whether a change made it slower.

The two run in turns on one machine, so that what drifts (other work, heat, clock rates) meets both, and only
the ratio of the two runs of a pair is used. Ratios are skewed and have outliers, so what is quoted is their
median with the interval that the sign test gives, which supposes nothing of their distribution.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.figures import Figure, median

CONFIDENCE = 0.95
FEWEST = 6
"""Of fewer pairs not even the smallest and the largest ratio make an interval of 95 %."""

Run = dict[str, Figure]
"""The figures of one run by name."""


def interval(samples: Iterable[float]) -> tuple[float, float]:
    """Between which two samples the median of all that could be drawn lies; ValueError for too few."""
    ordered = sorted(samples)
    count = len(ordered)
    outside, rank = 0.0, -1  # how probable it is that the median lies outside of rank and its mirror image
    while (more := outside + 2 * math.comb(count, rank + 1) / 2**count) <= 1 - CONFIDENCE:
        outside, rank = more, rank + 1
    if rank < 0:
        raise ValueError(
            f"{count} pairs give no interval of {CONFIDENCE:.0%}; {FEWEST} are the fewest that do"
        )
    return ordered[rank], ordered[-1 - rank]


def over(pairs: list[tuple[Run, Run]]) -> list[Figure]:
    """Of pairs (here, before), for each figure that both have and that is always above zero: the median of
    here over before, and from where to where it lies with a confidence of 95 %.
    """
    figures = []
    for name, figure in pairs[0][0].items():
        values = [(here[name].value, before[name].value) for here, before in pairs if name in before]
        if len(values) < len(pairs) or min(map(min, values)) <= 0:
            continue
        each = [here / before for here, before in values]
        low, high = interval(each)
        for what, ratio in (("", median(each)), (", 95 % from", low), (", 95 % to", high)):
            figures.append(Figure(f"{name}, here over before{what}", ratio, "ratio", figure.better))
    return figures


def run_in_pairs(benchmark: str, here: Path, before: Path, count: int) -> list[Figure]:
    """``python -m BENCHMARK`` in both checkouts, each by its own .venv, taking turns in being first."""
    interval(range(count))  # refuses too few before time is spent
    pairs = []
    for number in range(count):
        order = (here, before) if number % 2 else (before, here)
        runs = {checkout: _run(benchmark, checkout) for checkout in order}
        pairs.append((runs[here], runs[before]))
        print(f"pair {number + 1} of {count}", file=sys.stderr)
    return over(pairs)


def _run(benchmark: str, checkout: Path) -> Run:
    command = [checkout / ".venv/bin/python", "-m", benchmark, "--json", "-"]
    done = subprocess.run(command, cwd=checkout, stdout=subprocess.PIPE, text=True, check=True)
    return {row["name"]: Figure(**row) for row in json.loads(done.stdout)}
