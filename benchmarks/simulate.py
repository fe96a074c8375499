"""``python -m benchmarks.simulate --hours N [--seed S]``: the pool on virtual time under seeded faults.

Runs of one simulated hour each, with seeds from S on; a seed that is printed replays exactly. Exits with 1
for a violation.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time
from collections import Counter

from benchmarks.figures import Figure, add_options, emit
from benchmarks.simulation.run import Result, simulate

HOUR = 3600.0


def figures(results: list[Result], seconds: float) -> list[Figure]:
    faults: Counter[str] = Counter()
    for result in results:
        faults += result.faults
    violations = sum(len(result.violations) for result in results)
    return [
        Figure("violations", violations, "", "lower", 0),
        Figure("simulated hours", len(results), "h", "higher"),
        Figure("steps", sum(result.steps for result in results), "", "higher"),
        Figure("steps a second", sum(result.steps for result in results) / seconds, "1/s", "higher"),
        Figure("leases granted", sum(result.grants for result in results), "", "higher"),
        Figure("leases that were used", sum(result.workers for result in results), "", "higher"),
        Figure("terms of controllers", sum(result.terms for result in results), "", "higher"),
        *(Figure(f"faults: {kind}", number, "", "higher") for kind, number in sorted(faults.items())),
    ]


def main() -> None:
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is a part of what must replay
        os.execve(
            sys.executable,
            [sys.executable, "-m", "benchmarks.simulate", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="simulated time in all")
    parser.add_argument("--seed", type=int, help="of the first run; by default a new one")
    add_options(parser)
    arguments = parser.parse_args()
    first = secrets.randbelow(2**31) if arguments.seed is None else arguments.seed
    results, started, left = [], time.perf_counter(), 60.0 if arguments.smallest else arguments.hours * HOUR
    while left > 0:
        result = simulate(first + len(results), min(left, HOUR))
        results.append(result)
        left -= HOUR
        print(
            f"seed {result.seed}: {result.steps} steps, {sum(result.faults.values())} faults, "
            f"{len(result.violations)} violations, trace {result.trace}",
            file=sys.stderr,
            flush=True,
        )
        for text in result.violations:
            print(f"VIOLATION (seed {result.seed}) {text}", file=sys.stderr)
    emit(figures(results, time.perf_counter() - started), arguments.json)
    sys.exit(1 if any(result.violations for result in results) else 0)


if __name__ == "__main__":
    main()
