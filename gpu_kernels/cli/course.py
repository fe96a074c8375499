"""``jupyter gpu course``: what a course holds and may hold, and for its instructor: setting that."""

from __future__ import annotations

import argparse

from gpu_kernels.cli.exits import Exit
from gpu_kernels.cli.status import COURSE_COLUMNS, course_rows
from gpu_kernels.cli.tables import table
from gpu_kernels.client import PoolClient
from gpu_kernels.units import parse_thousandths

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
            limit = {name: share["thousandths"] for name, share in course["limit"].items()}
            limit.update({gpu_class: thousandths for thousandths, gpu_class in wanted})
            course = client.set_limit(options.name, limit)
    print(table(COURSE_COLUMNS, course_rows([course])))
    return Exit.OK
