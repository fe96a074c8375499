"""``jupyter gpu tokens``: the token file of a controller without a hub, on the controller's own machine."""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpu_kernels.cli.tables import table
from gpu_kernels.errors import GPUKernelsError, InvalidRequest
from gpu_kernels.exits import Exit
from gpu_kernels.private_file import new_private_file, write_private

COLUMNS = ("name", "groups", "scopes", "expires")
USE = "custom:gpu:use"
RANDOM_BYTES = 32
EPILOG = """\
examples:
  jupyter gpu tokens add ana --group ml101
  jupyter gpu tokens add iris --group ml101-instructors --file /root/iris.token
  jupyter gpu tokens add admin --scope custom:gpu:admin:pool --scope custom:gpu:admin:quota
  jupyter gpu tokens list
  jupyter gpu tokens remove ana

The controller reads the file again when it changes. Under a hub the hub knows the tokens, and this file is
not read. GPU servers get theirs from the controller: jupyter gpu agents add NAME.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Makes and removes people's tokens, on the machine of a controller without a hub."
    parser.epilog = EPILOG
    parser.add_argument("action", choices=("add", "list", "remove"))
    parser.add_argument("name", metavar="NAME", nargs="?", help="whose token it is")
    parser.add_argument(
        "--group", metavar="GROUP", action="append", default=[], help="add: a group; again for others"
    )
    parser.add_argument(
        "--scope", metavar="SCOPE", action="append", help=f"add: what it allows, instead of {USE}; again"
    )
    parser.add_argument(
        "--file", metavar="PATH", type=Path, help="add: the new file (mode 0600), instead of NAME.token"
    )
    parser.add_argument(
        "--state-dir", metavar="FOLDER", type=Path, default=Path("gpu-pool"), help="the controller's"
    )


def execute(options: argparse.Namespace) -> int:
    if options.action != "list" and not options.name:
        raise InvalidRequest(f"Say whose token it is: jupyter gpu tokens {options.action} NAME.")
    try:
        options.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _entries(options.state_dir / "tokens.json") as entries:
            if options.action == "add":
                _add(entries, options)
            elif options.action == "remove":
                _remove(entries, options.name)
            else:
                print(table(COLUMNS, (_row(entry) for entry in entries.values())))
    except FileExistsError:
        raise InvalidRequest(
            f"{_path(options)} exists already, and no token was made.\n"
            "Choose another file with --file, or remove this one."
        ) from None
    except OSError as error:
        raise InvalidRequest(f"{error.filename}: {error.strerror}.") from None
    return Exit.OK


@contextmanager
def _entries(path: Path) -> Iterator[dict[str, Any]]:
    """What the token file says; what the block makes of it is written when it ends well. One at a time."""
    lock = os.open(
        path.with_name(".tokens.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
    )
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            entries = json.loads(path.read_text()) if path.exists() else {}
        except ValueError as error:
            raise InvalidRequest(f"{path} is no JSON ({error}); nothing was changed.") from None
        if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
            raise InvalidRequest(f"{path} is no file of tokens; nothing was changed.")
        before = dict(entries)
        yield entries
        if entries != before:
            write_private(path, json.dumps(entries, indent=2) + "\n")
    finally:
        os.close(lock)


def _add(entries: dict[str, Any], options: argparse.Namespace) -> None:
    path, token = _path(options), secrets.token_hex(RANDOM_BYTES)
    with new_private_file(path) as file:
        file.write(token + "\n")
    entries[hashlib.sha256(token.encode()).hexdigest()] = {
        "name": options.name,
        "groups": options.group,
        "scopes": options.scope or [USE],
    }
    print(f"{path} holds the token of {options.name}. The controller knows its SHA-256 only.")


def _path(options: argparse.Namespace) -> Path:
    return options.file or Path(f"{options.name}.token")


def _remove(entries: dict[str, Any], name: str) -> None:
    found = [digest for digest, entry in entries.items() if entry.get("name") == name]
    if not found:
        raise NoToken(f"{name} has no token here.")
    for digest in found:
        del entries[digest]
    print(f"{len(found)} token(s) of {name} revoked.")


def _row(entry: dict[str, Any]) -> tuple[str, str, str, str]:
    groups, scopes = (" ".join(entry.get(key, ())) for key in ("groups", "scopes"))
    return str(entry.get("name", "")), groups, scopes, str(entry.get("expires_at") or "")


class NoToken(GPUKernelsError):
    """Nobody of this name has a token."""

    code = "no_token"
