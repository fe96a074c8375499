"""``jupyter gpu grade``: run students' notebooks, each on a slice of its own, charged to the course's grading
account.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpu_kernels.cli.foreground import unwinding
from gpu_kernels.client import PoolClient
from gpu_kernels.durations import duration
from gpu_kernels.errors import GPUKernelsError, InvalidRequest, UnknownCourse
from gpu_kernels.exits import Exit
from gpu_kernels.extras import how_to_install
from gpu_kernels.grading.runner import Runner
from gpu_kernels.grading.submissions import LATER, Report, Submission, Verdict, of_assignment, of_notebooks
from gpu_kernels.identity import printable
from gpu_kernels.kernelspecs import install, spec_name
from gpu_kernels.remoting.environment import COURSE, without_gpu
from gpu_kernels.resources.courses import Course
from gpu_kernels.units import THOUSANDTHS, Size, parse_size
from gpu_kernels.vocabulary.roles import graded_course, grading_account

DESCRIPTION = """\
Runs the notebooks of a course's students, each on a slice of its own, charged to the course's grading
account: that has a limit and a budget of its own, and is used by who teaches the course.

Either executes NOTEBOOKS and writes what they show below --output, or autogrades an assignment with nbgrader.
What is done already is left alone, so the same command goes on where one has stopped.
"""
EPILOG = f"""\
examples:
  jupyter gpu grade --course ml101 --size "0.02 V100" submitted/*/ps1/*.ipynb --output graded
  jupyter gpu grade --course ml101 --nbgrader ps1
  jupyter gpu grade --course ml101 --nbgrader ps1 --student ada --again

Submissions run as you: do it on an account that holds nothing else (docs/how-to/grade.md).

exit status:
  {Exit.OK}   all were run
  {Exit.FAILED}   some could not be run, or took too long; each is named
  {Exit.TEMPORARY}  some had no slice, or lost it: the same command does those later
"""
DEFAULT_PARALLEL = 4
MOST_PARALLEL = 64
LARGEST_NAMED = 10


class NoGradingAccount(GPUKernelsError):
    """The course has none."""

    code = "no_grading_account"


class NothingToGrade(GPUKernelsError):
    """Something that it takes is missing. ``str()`` says what."""

    code = "nothing_to_grade"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    what = parser.add_argument_group("what")
    what.add_argument("notebooks", nargs="*", metavar="NOTEBOOK", help="notebooks to execute")
    what.add_argument("--output", metavar="DIR", help="where the executed ones go")
    what.add_argument("--nbgrader", metavar="ASSIGNMENT", help="autograde this, in nbgrader's course folder")
    what.add_argument(
        "--student", action="append", default=[], metavar="NAME", help="only this one's, again for more"
    )
    what.add_argument("--folder", default=".", metavar="DIR", help="nbgrader's course folder (default: here)")
    what.add_argument("--again", action="store_true", help="also what is done already")
    how = parser.add_argument_group("how")
    how.add_argument("--course", help="the course (default: GPU_KERNELS_COURSE)")
    how.add_argument(
        "--size", metavar="TEXT", help="slice of each; default: the kernel that a notebook names"
    )
    how.add_argument(
        "--parallel", type=_whole, default=DEFAULT_PARALLEL, metavar="N",
        help=f"how many at once, as far as the account has room (default: {DEFAULT_PARALLEL})",
    )  # fmt: skip
    how.add_argument(
        "--wait",
        type=_whole,
        default=300,
        metavar="S",
        help="how long one waits for its slice (default: 300)",
    )
    how.add_argument(
        "--timeout", type=_whole, metavar="S", help="for a cell (default: 600, or nbgrader's own)"
    )
    how.add_argument(
        "--longest", type=_whole, default=3600, metavar="S", help="for a submission (default: 3600)"
    )
    how.add_argument("--logs", metavar="DIR", help="keep what each run said")


def _whole(text: str) -> int:
    number = int(text)
    if not 0 < number < 10**7:
        raise ValueError
    return number


def execute(options: argparse.Namespace) -> int:
    _check(options)
    size = None if options.size is None else parse_size(options.size)
    with PoolClient.from_environment() as client:
        account = _account(client, options.course)
        parallel = min(options.parallel, MOST_PARALLEL, _fits(account, size))
    with tempfile.TemporaryDirectory(prefix="gpu-grade-") as scratch, unwinding():
        kernel, environment = "", _environment(account.name)
        if size is not None:
            install(prefix=scratch, sizes=[str(size)], plain=False)
            kernel = spec_name(str(size))
            paths = [f"{scratch}/share/jupyter", environment.get("JUPYTER_PATH", "")]
            environment["JUPYTER_PATH"] = os.pathsep.join(path for path in paths if path)
        runner = Runner(environment, options.longest, options.logs and Path(options.logs))
        submissions = _submissions(options, runner, kernel, account.name)
        number = len(submissions)
        print(f"{number} to run, {min(parallel, number)} at once, charged to {account.name}")
        report = runner.run(submissions, parallel, _Teller(number), options.again)
    return _close(report)


def _check(options: argparse.Namespace) -> None:
    if bool(options.notebooks) == bool(options.nbgrader):
        raise InvalidRequest("Name notebooks with --output, or an assignment with --nbgrader.")
    if options.notebooks and not options.output:
        raise InvalidRequest("Say with --output where the executed notebooks go.")
    if options.notebooks and options.student:
        raise InvalidRequest("--student goes with --nbgrader.")
    if options.notebooks and importlib.util.find_spec("nbclient") is None:
        raise NothingToGrade(
            f"Notebooks are executed by nbclient, which is not installed. {how_to_install('grading')}"
        )


def _account(client: PoolClient, named: str | None) -> Course:
    """The grading account as the controller tells it. Raises what it refuses, or ``NoGradingAccount``."""
    course = named or os.environ.get(COURSE)
    if not course:
        raise InvalidRequest("Say which course: --course ml101.")
    name = course if graded_course(course) else grading_account(course)
    try:
        return client.course(name)
    except UnknownCourse:
        raise NoGradingAccount(
            f"{graded_course(name)} has no grading account.\n"
            "The hub's administrator makes it with the property gpu_grading of the course's group, "
            "for example gpu_grading = V100: 0.1."
        ) from None


def _fits(account: Course, size: Size | None) -> int:
    """How many of a size the account may hold; at least one, which then waits or is refused with the reason.

    Where the size does not say how much of a GPU it is, nobody knows before.
    """
    if size is None or size.gpus is None:
        return MOST_PARALLEL
    each = max(1, int(size.gpus * THOUSANDTHS))
    rooms: list[int] = [
        (standing.room or 0) // each
        for gpu_class, standing in account.quota.items()
        if size.gpu_class in (None, gpu_class)
    ]
    return max(1, max(rooms, default=1))


def _environment(account: str) -> dict[str, str]:
    """Of the workers: the pool and who asks, the account, and nothing of a kernel that this is typed in."""
    environment = without_gpu(os.environ) | {COURSE: account, "GPU_KERNELS_START": "patient"}
    for name in ("JPY_SESSION_NAME", "JPY_PARENT_PID"):
        environment.pop(name, None)
    # nbgrader starts alembic by its name, and nobody needs to have activated the environment of this Python.
    commands = [os.path.dirname(sys.executable), environment.get("PATH", os.defpath)]
    environment["PATH"] = os.pathsep.join(commands)
    return environment


def _submissions(
    options: argparse.Namespace, runner: Runner, kernel: str, account: str
) -> Sequence[Submission]:
    told: dict[str, Any] = {
        "kernel": kernel,
        "config": {
            "GPUSliceProvisioner": {
                "start": "patient",
                "wait_s": options.wait,
                "course": account,
                "gives_token": False,
                "keeps_size": True,
            }
        },
    }
    if options.notebooks:
        told["timeout"] = options.timeout or 600
        return of_notebooks([Path(name) for name in options.notebooks], Path(options.output), **told)
    folder = Path(options.folder).resolve()
    answer = runner.ask(
        {"kind": "students", "assignment": options.nbgrader, "folder": str(folder)}, "students"
    )
    if "error" in answer:
        raise NothingToGrade(answer["error"])
    there = answer["students"]
    if missing := [name for name in options.student if name not in there]:
        raise NothingToGrade(
            f"Nothing of {options.nbgrader} was handed in by {', '.join(missing)} in {folder}."
        )
    if not there:
        raise NothingToGrade(f"Nothing of {options.nbgrader} was handed in, in {folder}.")
    told |= {"timeout": options.timeout, "again": options.again}
    return of_assignment(options.nbgrader, options.student or there, folder, **told)


class _Teller:
    """A line for each verdict, as it comes."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._told = 0

    def __call__(self, submission: Submission, verdict: Verdict) -> None:
        self._told += 1
        lines = [printable(line) for line in _text(verdict).splitlines()]  # a submission may have written it
        print(f"[{self._told}/{self._number}] {printable(submission.name)}: {lines[0]}", flush=True)
        for line in lines[1:]:
            print(f"    {line}", flush=True)


def _text(verdict: Verdict) -> str:
    if verdict.result == "skipped":
        return "done before"
    if verdict.result == "done":
        cells = {0: "", 1: ", one cell with an error"}.get(
            verdict.errors, f", {verdict.errors} cells with an error"
        )
        return f"done in {duration(verdict.seconds)}{cells}"
    return f"{verdict.result}: {verdict.text}"


def _close(report: Report) -> int:
    later, failed = report.count(*LATER), report.count("failed")
    print(f"{report.count('done', 'skipped')} done, {later} to do later, {failed} failed")
    for word, results in (("to do later", LATER), ("failed", ("failed",))):
        names = [printable(name) for name, verdict in report.verdicts.items() if verdict.result in results]
        if names:
            more = f" and {len(names) - LARGEST_NAMED} more" if len(names) > LARGEST_NAMED else ""
            print(f"{word}: {', '.join(names[:LARGEST_NAMED])}{more}", file=sys.stderr)
    if failed:
        return Exit.FAILED
    return Exit.TEMPORARY if later else Exit.OK
