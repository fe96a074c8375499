"""``jupyter gpu why``: what a request waits for, or why a lease is as it is."""

from __future__ import annotations

import argparse

from gpu_kernels.cli.tables import json_text
from gpu_kernels.client import PoolClient
from gpu_kernels.exits import Exit

EPILOG = """\
examples:
  jupyter gpu why                     all of your requests that wait
  jupyter gpu why 0f3a9c…             one lease, by its id from 'jupyter gpu status'
  jupyter gpu why 0f3a9c… --json      for the pool's admins: all that was compared
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Says what a request for a GPU waits for, how long, and what would help."
    parser.epilog = EPILOG
    parser.add_argument("lease", metavar="LEASE", nargs="?", help="a lease's id; by default all that wait")
    parser.add_argument("--json", action="store_true", help="for programs: JSON on standard output")


def execute(options: argparse.Namespace) -> int:
    with PoolClient.from_environment() as client:
        ids = [options.lease] if options.lease else [lease.id for lease in client.list() if lease.queued]
        told = [client.why(lease_id) for lease_id in ids]
    if options.json:
        print(json_text(told[0] if options.lease else told))
    elif not told:
        print("None of your requests waits.")
    else:
        print("\n\n".join(one.text if options.lease else f"{one.id}\n{one.text}" for one in told))
    return Exit.OK
