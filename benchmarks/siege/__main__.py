"""``python -m benchmarks.siege [--seconds 600] [--leases 50] [--only idle,tokens]``: see the package.

Exits with 1 if a student lost a lease or the work on the GPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.figures import add_options, emit
from benchmarks.siege.plan import ATTACKS, Plan, Strength
from benchmarks.siege.report import Outcome, figures
from benchmarks.siege.rig import ADMIN, ATTACKER, Rig, students
from benchmarks.siege.watch import Watch
from gpu_kernels.client import PoolClient

SERVERS = 5
TOLD = 10
ENDS_WITHIN_S = 60.0
REPOSITORY = Path(__file__).parents[2]


class Program:
    """A module of this package that is told what to do by JSON, and tells what came of it by JSON."""

    def __init__(self, module: str, told: dict[str, Any], env: dict[str, str]) -> None:
        command = [sys.executable, "-m", f"benchmarks.siege.{module}"]
        self._process = subprocess.Popen(
            command, env=env, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(told) + "\n")
        self._process.stdin.flush()

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def ended(self) -> bool:
        return self._process.poll() is not None

    def outcome(self) -> Any:
        """End it, and read. Raises ``RuntimeError`` where it failed."""
        out, _ = self._process.communicate(timeout=ENDS_WITHIN_S)
        if self._process.returncode != 0:
            raise RuntimeError(f"{self._process.args} failed")
        return json.loads(out)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def run(plan: Plan, folder: Path) -> Outcome:
    """One siege from start to end. The folder keeps logs and the ledger."""
    programs: list[Program] = []
    with Rig(plan, folder) as rig:
        try:
            names = students(plan)
            shares = [names[number::SERVERS] for number in range(min(SERVERS, plan.leases))]
            for share in shares:
                told = {"url": rig.url, "folder": str(folder), "tokens": share}
                programs.append(Program("students", told, rig.environment()))
            for program in programs:
                if program.line() != "ready":
                    raise RuntimeError("the students did not begin to work")
            with Watch(rig) as watch:
                began, tally = _besiege(plan, rig, programs)
            told_by_students = [each for program in programs for each in program.outcome()]
            return Outcome(
                told_by_students, _in_force(rig), plan.phases(), began, watch, tally, plan.report_every
            )
        finally:
            for program in programs:
                program.kill()


def _besiege(plan: Plan, rig: Rig, programs: list[Program]) -> tuple[float, Counter[str]]:
    began = time.monotonic()
    told = {"plan": asdict(plan), "url": rig.url, "token": ATTACKER, "began": began}
    attacker = Program("attacker", told, rig.environment())
    try:
        while (left := began + plan.seconds - time.monotonic()) > 0 and not any(p.ended() for p in programs):
            time.sleep(min(left, 0.5))
        return began, Counter(attacker.outcome())
    finally:
        attacker.kill()


def _in_force(rig: Rig) -> set[tuple[str, int]]:
    with PoolClient(rig.url, ADMIN) as admin:
        leases = admin.list(everyone=True)
    return {(lease.id, lease.epoch) for lease in leases if lease.in_force}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.siege", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--leases", type=int, default=50)
    parser.add_argument("--only", default=",".join(ATTACKS), help=f"of {','.join(ATTACKS)}")
    parser.add_argument("--keep", type=Path, help="an empty folder for logs and state")
    add_options(parser)
    arguments = parser.parse_args()
    plan = Plan(arguments.seconds, arguments.leases, attacks=arguments.only.split(","))
    if arguments.smallest:
        plan = Plan(10.0, 1, lease_ttl=300.0, attacks=["tokens"], strength=Strength.least())
    with tempfile.TemporaryDirectory(prefix="gpu-kernels-siege-") as folder:
        outcome = run(plan, arguments.keep or Path(folder))
    emit(figures(outcome), arguments.json)
    failures = outcome.lost() + outcome.ended_kernels()
    for text in failures[:TOLD]:
        print(f"FAILED {text}", file=sys.stderr)
    if len(failures) > TOLD:
        print(f"FAILED and {len(failures) - TOLD} more", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
