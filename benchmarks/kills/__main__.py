"""``python -m benchmarks.kills --kills 200 --store sqlite``: see the package.

Exits with 1 for a violation.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figures import Figure, add_options, emit
from benchmarks.kills.run import Outcome, run


def figures(store: str, outcome: Outcome) -> list[Figure]:
    found = [
        Figure(f"{store}: violations", len(outcome.violations), "", "lower", 0),
        Figure(f"{store}: pool_ledger_mismatch at the end", outcome.mismatch, "", "lower", 0),
        Figure(f"{store}: SIGKILLs", sum(outcome.kills.values()), "", "higher"),
    ]
    found += [Figure(f"{store}: of a {kind}", n, "", "higher") for kind, n in sorted(outcome.kills.items())]
    found += [
        Figure(f"{store}: SIGSTOPs beyond the time to live, of a {kind}", n, "", "higher")
        for kind, n in sorted(outcome.stops.items())
    ]
    found += [
        Figure(f"{store}: terms of controllers", outcome.terms, "", "higher"),
        Figure(f"{store}: leases granted", outcome.grants, "", "higher"),
        Figure(f"{store}: workers that lived", outcome.workers, "", "higher"),
        Figure(f"{store}: servers freed by their promise", outcome.fenced, "", "higher"),
        Figure(f"{store}: duration", outcome.seconds, "s", "lower"),
    ]
    asked = sorted(outcome.requests.items())
    return found + [Figure(f"{store}: client's {what}", n, "", "higher") for what, n in asked]


@contextmanager
def database(store: str) -> Iterator[str]:
    """An empty database of that kind."""
    if store == "sqlite":
        with tempfile.TemporaryDirectory(prefix="kills-db-", ignore_cleanup_errors=True) as folder:
            yield f"sqlite:///{Path(folder) / 'ledger.sqlite'}"
        return
    from tests.pool.stores.postgresql import running_server

    with running_server() as server:
        yield server.new_database()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--seed", type=int, help="which moments; by default new ones")
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="an empty folder for logs and histories")
    add_options(parser)
    arguments = parser.parse_args()
    if arguments.smallest:
        arguments.kills, arguments.clients = 1, 1
    seed = secrets.randbelow(2**31) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", file=sys.stderr, flush=True)
    with database(arguments.store) as url:
        outcome = run(arguments.kills, url, seed=seed, clients=arguments.clients, keep=arguments.keep)
    emit(figures(arguments.store, outcome), arguments.json)
    for text in outcome.violations:
        print(f"VIOLATION {text}", file=sys.stderr)
    sys.exit(1 if outcome.violations else 0)


if __name__ == "__main__":
    main()
