"""``jupyter gpu agents``: the GPU servers, for the pool's admins."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_kernels.cli.exits import Exit
from gpu_kernels.cli.tables import instant_text, table
from gpu_kernels.client import PoolClient
from gpu_kernels.errors import InvalidRequest

COLUMNS = ("agent", "address", "version", "is", "standing")
EPILOG = """\
examples:
  jupyter gpu agents
  jupyter gpu agents cordon gpu3                        nothing new is placed there
  jupyter gpu agents drain gpu3 --by 2026-12-01T18:00   and what is there ends by then
  jupyter gpu agents open gpu3 --ends 2027-03-31        open, until the server is given back
  jupyter gpu agents lost gpu3                          it is gone for good: free what was on it

'lost' gives the slices of a server to others at once. Say so only of a server on which nothing runs any more:
one that is cut off still computes, and its users and the next ones would use the same GPU.
"""
STANDINGS = {"open": "open", "cordon": "cordoned", "drain": "draining"}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows the pool's GPU servers, and says what may be placed on one."
    parser.epilog = EPILOG
    parser.add_argument(
        "action", nargs="?", choices=("list", *STANDINGS, "lost"), default="list", help="list if left out"
    )
    parser.add_argument("name", metavar="AGENT", nargs="?", help="the server's name")
    parser.add_argument("--by", metavar="TIME", help="drain: when it must be empty, in UTC")
    parser.add_argument("--ends", metavar="TIME", help="when the server goes away, in UTC")
    parser.add_argument("--json", action="store_true", help="for programs: JSON on standard output")


def execute(options: argparse.Namespace) -> int:
    if options.action != "list" and options.name is None:
        raise InvalidRequest(f"Name the GPU server: jupyter gpu agents {options.action} AGENT.")
    with PoolClient.from_environment() as client:
        if options.action in STANDINGS:
            standing = STANDINGS[options.action]
            client.set_standing(options.name, standing, drain_by=options.by, ends_at=options.ends)
        elif options.action == "lost":
            freed = client.declare_lost(options.name)["leases"]
            print(f"{options.name} is out of the pool; {freed} lease(s) on it are over.")
        agents = [agent for agent in client.agents() if options.name in (None, agent["name"])]
    print(json.dumps(agents, indent=2) if options.json else table(COLUMNS, map(_row, agents)))
    return Exit.OK


def _row(agent: Mapping[str, Any]) -> Sequence[str]:
    answers = "answering" if agent["answering"] else f"silent for {agent['silent_for']:.0f} s"
    standing = agent["standing"]
    if agent["drain_by"]:
        standing += f", empty by {instant_text(agent['drain_by'])}"
    if agent["ends_at"]:
        standing += f", ends {instant_text(agent['ends_at'])}"
    return agent["name"], agent["address"], agent["version"], answers, standing
