"""``python -m tests.conformance``: runs a suite, compares it with its list, and says what differs.

The exit status is 0 where every test did what the list says and enough of them passed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from . import expectations
from .places import PLACES
from .runner import Result, Run
from .suite import Suite, numba

ENOUGH = 0.90
"""The part of the counted tests that must pass."""


def main() -> int:
    options = parse()
    suite = numba()
    if suite is None or suite.lacks:
        missing = "numba-cuda" if suite is None else ", ".join(suite.lacks)
        print(f"Not installed: {missing}. Nothing was run.")
        return 1
    begun = time.monotonic()

    def told(path: Path, results: list[Result]) -> None:
        counts = Counter(result.outcome for result in results)
        said = ", ".join(f"{number} {outcome}" for outcome, number in counts.most_common())
        print(f"{time.monotonic() - begun:6.0f} s  {path.relative_to(suite.root)}: {said}", flush=True)

    with PLACES[options.place](options.processes) as process:
        results = Run(suite, process, options.processes, files=tuple(options.files), told=told).results()
    if options.json:
        options.json.write_text(
            json.dumps([asdict(result) for result in results], indent=1), encoding="utf-8"
        )
    known, whole = expectations.read(suite.expectations), not options.files
    if options.update:
        expectations.write(suite.expectations, suite.version, results, known, whole=whole)
        known = expectations.read(suite.expectations)
    print(f"\n{suite.distribution} {suite.version}, {options.place}, {time.monotonic() - begun:.0f} s")
    return report(suite, results, known, whole=whole)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="such as cudadrv/test_linker.py (default: all)"
    )
    parser.add_argument("--place", choices=PLACES, default="forwarded")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--json", type=Path, help="write every test's outcome, reason and time there")
    parser.add_argument(
        "--update", action="store_true", help="rewrite the list by this run; look at it after"
    )
    return parser.parse_args()


def report(suite: Suite, results: list[Result], known: expectations.Expectations, *, whole: bool) -> int:
    """Prints the figures and the differences; the exit status."""
    enough = True
    for folder in suite.folders:
        outcomes = Counter(result.outcome for result in results if result.name.startswith(f"{folder}/"))
        if outcomes:
            print(f"  {folder:13} {figures(outcomes)}")
    counted = [result for result in results if result.name.startswith(suite.counted)]
    if counted and whole:
        outcomes = Counter(result.outcome for result in counted)
        enough = outcomes[expectations.PASSED] >= ENOUGH * len(counted)
        print(f"  {' and '.join(suite.counted)}: {figures(outcomes)}; {ENOUGH:.0%} must pass")
    if known.version != suite.version:
        print(f"The list was made for {suite.distribution} {known.version}: look at it again, then --update.")
    differences = known.differences(results, whole=whole)
    for line in differences:
        print(line)
    print(f"{len(differences)} tests do not do what {suite.expectations.name} says")
    return 0 if enough and not differences else 1


def figures(outcomes: Counter[str]) -> str:
    total = outcomes.total()
    passed = outcomes[expectations.PASSED]
    others = [f"{outcomes[name]} {name}" for name in expectations.OUTCOMES if outcomes[name]]
    return f"{passed} of {total} passed ({passed / total:.1%})" + "".join(f", {other}" for other in others)


if __name__ == "__main__":
    sys.exit(main())
