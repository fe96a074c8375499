"""``jupyter gpu course``: what a course holds and may hold, and for its instructor: setting that."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from gpu_kernels.cli.status import COURSE_COLUMNS, course_rows
from gpu_kernels.cli.tables import instant_text, table
from gpu_kernels.client import PoolClient
from gpu_kernels.exits import Exit
from gpu_kernels.resources.courses import Course
from gpu_kernels.units import parse_thousandths
from gpu_kernels.vocabulary.properties import PREFIX, PROPERTIES
from gpu_kernels.vocabulary.rules import hours_text

EPILOG = """\
examples:
  jupyter gpu course ml101
  jupyter gpu course ml101 --limit "0.5 V100"
  jupyter gpu course ml101 --limit "0.5 V100" --limit "2 A100"

A limit that is lowered below what is in use takes nothing away: it holds for the next request.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows what a course holds and may hold at once; its instructors may set that."
    parser.epilog = EPILOG
    parser.add_argument("name", metavar="COURSE", help="the course, by the name of its group in the hub")
    parser.add_argument(
        "--limit",
        metavar="TEXT",
        action="append",
        default=[],
        help="what it may hold at once of a GPU class, such as '0.5 V100'; again for other classes, "
        "and those not named stay as they are",
    )


def execute(options: argparse.Namespace) -> int:
    wanted = [parse_thousandths(text) for text in options.limit]
    with PoolClient.from_environment() as client:
        course = client.course(options.name)
        if wanted:
            limit = course.limits | {gpu_class: thousandths for thousandths, gpu_class in wanted}
            course = client.set_limit(options.name, limit)
    print(table(COURSE_COLUMNS, course_rows([course])))
    for line in _lines(course):
        print(f"  {line}")
    return Exit.OK


def _lines(course: Course) -> Iterator[str]:
    """What else holds for the course, and for its instructors what does not."""
    if course.rules:
        told = ", ".join(f"{name} {PROPERTIES[PREFIX + name].write(v)}" for name, v in course.rules.items())
        yield f"rules: {told}"
    for budget in course.budgets:
        whose = "yours" if budget.whose == "user" else "the course's"
        until = "" if budget.until is None else f", until {instant_text(budget.until)}"
        spent = f"{hours_text(budget.spent)} of {hours_text(budget.most)} GPU-hours spent"
        yield f"budget ({budget.rule}, {whose}): {spent}{until}"
    for stands in course.quota.values():
        yield from (f"note: {note}" for note in stands.notes)
    for said in course.faults:
        yield f"fault: group {said.group}: {said.fault}"
