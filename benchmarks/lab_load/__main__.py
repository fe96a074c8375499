"""``python -m benchmarks.lab_load --students 100 --within 180``: see the package.

Exits with 1 if somebody was refused or lost, or something is left.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.figures import add_options, emit
from benchmarks.lab_load import big_lab, loops, report
from benchmarks.lab_load.plan import Plan, folder_of_loops
from benchmarks.lab_load.shares import Shares
from benchmarks.lab_load.visits import Visits


def run(plan: Plan, state: Path) -> report.Outcome:
    """Starts a lab, lets the students of the plan visit it, and stops it."""
    with big_lab.running(plan, state) as lab, Shares(lab.settings.marker) as shares:
        begun = time.monotonic()
        visits = Visits(lab.settings.url, plan.logins(), plan.arrivals, partial(big_lab.abort_kernels, lab))
        visits.run()
        seconds = time.monotonic() - begun
        lab.check_alive()
        left = big_lab.leftovers(lab)
    # Only now: the end of a server is the hub's work, too.
    seen = loops.read(folder_of_loops(lab.settings))
    return report.Outcome(
        visits.visits, seconds, left + lab.problems, shares.by_kind(), shares.most_memory, seen
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lab_load", description=__doc__)
    parser.add_argument("--students", type=int, default=100)
    parser.add_argument("--within", type=float, default=180, help="seconds in which they all arrive")
    parser.add_argument("--seed", type=int, help="when each arrives; by default new")
    parser.add_argument("--keep", type=Path, help="an empty folder for the lab's state and logs")
    add_options(parser)
    arguments = parser.parse_args()
    if arguments.smallest:
        arguments.students, arguments.within = 1, 0.0
    seed = secrets.randbelow(2**31) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", file=sys.stderr, flush=True)
    plan = Plan.of(arguments.students, arguments.within, seed)
    with tempfile.TemporaryDirectory(prefix="gpu-kernels-load-") as folder:
        outcome = run(plan, arguments.keep or Path(folder))
    emit(report.figures(outcome), arguments.json)
    if arguments.json != "-":
        for part in (report.stages(outcome.visits), report.processors(outcome), report.loops(outcome)):
            print(f"\n{part}")
    for text in outcome.failures:
        print(f"FAILED {text}", file=sys.stderr)
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
