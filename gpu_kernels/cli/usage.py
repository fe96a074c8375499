"""``jupyter gpu usage``: who used how much."""

from __future__ import annotations

import argparse
import sys

from gpu_kernels.cli.tables import json_text, table
from gpu_kernels.client import PoolClient
from gpu_kernels.exits import Exit
from gpu_kernels.resources.usage import DIMENSIONS

EPILOG = """\
examples:
  jupyter gpu usage                                      your own, in the last 30 days
  jupyter gpu usage --course ml101 --by user             for its instructors
  jupyter gpu usage --from 2026-10-01 --to 2026-11-01 --csv > october.csv

'used' counts from a slice's first program to its end, 'held' from the grant; both times its share of the GPU.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows GPU-hours: your own, a course's for its instructors, everyone's for admins."
    parser.epilog = EPILOG
    parser.add_argument("--from", dest="since", metavar="DATE", help="begin, such as 2026-10-01")
    parser.add_argument("--to", dest="until", metavar="DATE", help="end, not included (default: now)")
    parser.add_argument("--course", help="only this course")
    parser.add_argument("--user", help="only this user")
    parser.add_argument(
        "--by",
        action="append",
        choices=DIMENSIONS,
        help="what to sum by; again for more (default: course and gpu_class)",
    )
    parser.add_argument("--zone", default="UTC", help="time zone of dates and weeks (default: UTC)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="for programs: JSON on standard output")
    form.add_argument("--csv", action="store_true", help="one line a slice, for spreadsheets")


def execute(options: argparse.Namespace) -> int:
    asked = {
        "since": options.since,
        "until": options.until,
        "course": options.course,
        "user": options.user,
        "time_zone": options.zone,
    }
    by = tuple(dict.fromkeys(options.by or ("course", "gpu_class")))
    with PoolClient.from_environment() as client:
        if options.csv:
            sys.stdout.write(client.usage_table(**asked))
            return Exit.OK
        usage = client.usage(**asked, by=by)
    if options.json:
        print(json_text(usage))
        return Exit.OK
    rows = [
        [
            *(str(getattr(row, name)) for name in by),
            str(row.leases),
            f"{row.gpu_hours:.2f}",
            f"{row.held_gpu_hours:.2f}",
        ]
        for row in usage.sums
    ]
    print(table([*(name.replace("_", " ") for name in by), "leases", "GPU-hours used", "held"], rows))
    return Exit.OK
