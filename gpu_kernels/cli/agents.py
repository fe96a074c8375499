"""``jupyter gpu agents``: the GPU servers and their tokens, for the pool's admins."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from gpu_kernels.cli.tables import instant_text, json_text, table
from gpu_kernels.client import PoolClient
from gpu_kernels.errors import InvalidRequest, UnknownAgentToken
from gpu_kernels.exits import Exit
from gpu_kernels.private_file import new_private_file
from gpu_kernels.resources.agents import Agent

COLUMNS = ("agent", "address", "version", "is", "standing")
TOKEN_COLUMNS = ("agent", "token", "made by", "made")
EPILOG = """\
examples:
  jupyter gpu agents
  jupyter gpu agents add gpu3                           makes gpu3.token, for that server alone
  jupyter gpu agents tokens                             which server has which token?
  jupyter gpu agents remove-token gpu3                  revokes its tokens
  jupyter gpu agents cordon gpu3                        nothing new is placed there
  jupyter gpu agents drain gpu3 --by 2026-12-01T18:00   and what is there ends by then
  jupyter gpu agents open gpu3 --ends 2027-03-31        open, until the server is given back
  jupyter gpu agents lost gpu3                          the server is lost: free what was on it

'lost' gives the slices of a server to others at once. Say so only of a server on which nothing runs any more:
one that is cut off still computes, and its users and the next ones would use the same GPU.
"""
STANDINGS = {"open": "open", "cordon": "cordoned", "drain": "draining"}
TOKEN_ACTIONS = ("add", "tokens", "remove-token")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Shows the pool's GPU servers, makes their tokens, and says what may be placed on one."
    )
    parser.epilog = EPILOG
    actions = ("list", *TOKEN_ACTIONS, *STANDINGS, "lost")
    parser.add_argument("action", nargs="?", choices=actions, default="list", help="list if left out")
    parser.add_argument("name", metavar="AGENT", nargs="?", help="the server's name")
    parser.add_argument(
        "--file", metavar="PATH", type=Path, help="add: the new file (mode 0600), instead of AGENT.token"
    )
    parser.add_argument("--token", metavar="TOKEN", help="remove-token: this one only, as 'tokens' names it")
    parser.add_argument("--by", metavar="TIME", help="drain: when it must be empty, in UTC")
    parser.add_argument("--ends", metavar="TIME", help="when the server goes away, in UTC")
    parser.add_argument("--json", action="store_true", help="for programs: JSON on standard output")


def execute(options: argparse.Namespace) -> int:
    if options.action not in ("list", "tokens") and options.name is None:
        raise InvalidRequest(f"Name the GPU server: jupyter gpu agents {options.action} AGENT.")
    with PoolClient.from_environment() as client:
        if options.action == "add":
            return _add(client, options.name, options.file or Path(f"{options.name}.token"))
        if options.action == "remove-token":
            return _remove_token(client, options.name, options.token)
        if options.action == "tokens":
            return _show_tokens(client, options)
        if options.action in STANDINGS:
            standing = STANDINGS[options.action]
            client.set_standing(options.name, standing, drain_by=options.by, ends_at=options.ends)
        elif options.action == "lost":
            freed = client.declare_lost(options.name).leases
            print(f"{options.name} is out of the pool; {freed} lease(s) on it are over.")
        agents = [agent for agent in client.agents() if options.name in (None, agent.name)]
    print(json_text(agents) if options.json else table(COLUMNS, map(_row, agents)))
    if not options.json:
        for agent in agents:
            print(_refused(agent), end="")
    return Exit.OK


def _refused(agent: Agent) -> str:
    """Who tried to be this server, for the admin to look after."""
    if (tried := agent.refused) is None:
        return ""
    why = {
        "agent_elsewhere": f"while it answers from {agent.address}",
        "address_refused": "which agent_networks does not list",
    }.get(tried.why, tried.why)
    return (
        f"{agent.name}: {tried.times} registration(s) refused in the last hour, the last "
        f"{tried.ago:.0f} s ago from {tried.address}, {why}\n"
    )


def _add(client: PoolClient, name: str, path: Path) -> int:
    """The file comes first: a token that could not be kept would be one that nobody can use or take back."""
    try:
        with new_private_file(path) as file:
            made = client.add_agent_token(name)
            file.write(made.token + "\n")
    except FileExistsError:
        raise InvalidRequest(
            f"{path} exists already, and no token was made.\n"
            "Choose another file with --file, or remove this one."
        ) from None
    except OSError as error:
        raise InvalidRequest(f"The token cannot be kept in {path}: {error.strerror}.") from None
    print(
        f"{path} holds the token {made.id} of the GPU server {name}. It is told nowhere else.\n"
        f"Bring it to that server, and to no other, with mode 0600; then start the agent there:\n"
        f"  jupyter gpu agent --name {name} --token-file {path.name}"
    )
    return Exit.OK


def _remove_token(client: PoolClient, name: str, token_id: str | None) -> int:
    found = [one.id for one in client.agent_tokens() if one.agent == name and token_id in (None, one.id)]
    if not found:
        raise UnknownAgentToken(
            f"{name} has no {'token' if token_id is None else f'token {token_id[:40]!r}'}."
        )
    for one in found:
        client.remove_agent_token(one)
        print(f"The token {one} of {name} is revoked.")
    print(
        f"Programs on {name} run until it fences itself. To free its slices at once, once nothing runs\n"
        f"there any more: jupyter gpu agents lost {name}"
    )
    return Exit.OK


def _show_tokens(client: PoolClient, options: argparse.Namespace) -> int:
    tokens = [one for one in client.agent_tokens() if options.name in (None, one.agent)]
    rows = ((one.agent, one.id, one.created_by, instant_text(one.created_at)) for one in tokens)
    print(json_text(tokens) if options.json else table(TOKEN_COLUMNS, rows))
    return Exit.OK


def _row(agent: Agent) -> Sequence[str]:
    answers = "answering" if agent.answering else f"silent for {agent.silent_for:.0f} s"
    standing = agent.standing
    if agent.drain_by:
        standing += f", empty by {instant_text(agent.drain_by)}"
    if agent.ends_at:
        standing += f", ends {instant_text(agent.ends_at)}"
    return agent.name, agent.address, agent.version, answers, standing
