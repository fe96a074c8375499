"""``python -m tests.rerun PYTEST-ARGUMENTS``: a run of the suite, and one more of each test that failed.

The second run of a test is after the others, alone, in a process of its own. A test that passes then depends
on what ran beside it: it is named as flaky, and the run counts as good. Whatever else went wrong (a file that
cannot be read, a run that was interrupted, nothing collected) has no second run and is a failure. The last
line tells the counts after the second runs; the exit status is 0 where all passed, pytest's own where the
run did not come to its end, and else 1.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import outcomes

MOST = 20
"""So many tests do not fail by chance; more are not run again."""


@dataclass
class Run:
    """What came of one run of pytest."""

    status: int
    passed: int = 0
    skipped: int = 0
    expected_failures: int = 0
    failed: list[str] = field(default_factory=list)
    not_read: list[str] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        """All that was collected ran, and the failures are known."""
        if self.status == pytest.ExitCode.TESTS_FAILED:
            return bool(self.failed) and not self.not_read
        return self.status == pytest.ExitCode.OK


def pytest_run(*arguments: str) -> Run:
    """Run pytest on these arguments in the current folder, with its output where ours goes."""
    with tempfile.TemporaryDirectory(prefix="gpu-kernels-outcomes-") as folder:
        file = Path(folder) / "outcomes.json"
        plugin = ["-p", outcomes.__name__, "--outcomes", file]
        status = subprocess.run([sys.executable, "-m", "pytest", *plugin, *arguments], check=False).returncode
        if not file.exists():  # ended by a signal, by a fault of pytest, or by words that it cannot read
            return Run(status or pytest.ExitCode.INTERNAL_ERROR)
        told = json.loads(file.read_text(encoding="utf-8"))
    return Run(
        status, told["passed"], told["skipped"], told["expected failures"], told["failed"], told["not read"]
    )


def heading(text: str) -> None:
    print(f"\n==== {text} ====", flush=True)


def main(arguments: Sequence[str]) -> int:
    run = pytest_run(*arguments)
    failed, flaky = run.failed, []
    if run.ended and 0 < len(failed) <= MOST:
        for name in run.failed:
            heading(f"again, by itself: {name}")
            again = pytest_run(name)
            if again.status == pytest.ExitCode.OK and again.passed:
                flaky.append(name)
        failed = [name for name in failed if name not in flaky]
    return closing_lines(run, failed, flaky)


def closing_lines(run: Run, failed: list[str], flaky: list[str]) -> int:
    """Print what came of all, the counts last; the exit status."""
    heading("in all")
    if not run.ended:
        print(f"the run did not come to its end: pytest's exit status is {run.status}")
    if len(failed) > MOST:
        print(f"more than {MOST} tests failed, so that none was run again")
    for what, names in (("not read", run.not_read), ("failed", failed), ("flaky", flaky)):
        for name in names:
            print(f"{what}: {name}")
    counts = [
        f"{run.passed + len(flaky)} passed",
        f"{len(failed) + len(run.not_read)} failed",
        f"{run.skipped} skipped",
    ]
    if run.expected_failures:
        counts.append(f"{run.expected_failures} xfailed")
    if flaky:
        counts.append(f"{len(flaky)} of the passed flaky")
    print(", ".join(counts), flush=True)
    if not run.ended:
        return run.status or 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
