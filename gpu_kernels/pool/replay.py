"""Replay what the pool decided, from a file and without a pool: ``python -m gpu_kernels.pool.replay FILE``.

The file is what ``GET /api/v1/state`` answers (scope ``custom:gpu:admin:pool``). Without ``--lease`` the line
is printed with what holds each one back; with it, all that was compared for that lease.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpu_kernels.pool.ledger.queries.dump import load
from gpu_kernels.pool.ledger.queries.explanation import explain, starts
from gpu_kernels.pool.ledger.queries.scene import ask, scene_of
from gpu_kernels.pool.ledger.queries.times import iso
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.queue import decide

WIDTH = 110


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0, or 2 for a file that cannot be replayed or a lease that is not in it."""
    parser = argparse.ArgumentParser(prog="python -m gpu_kernels.pool.replay", description=__doc__)
    parser.add_argument("file", type=Path, help="the pool's state, '-' for standard input")
    parser.add_argument("--lease", metavar="ID", help="explain this lease (the beginning of its id will do)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        tx = load(_read(options.file))
    except (OSError, ValueError) as error:
        print(f"{options.file} cannot be replayed: {error}", file=sys.stderr)
        return 2
    if options.lease is None:
        _print(_line(tx), options.json)
        return 0
    found = [lease for lease in tx.book.leases.values() if lease.id.startswith(options.lease)]
    if len(found) != 1:
        print(f"{len(found)} leases of this state have an id that begins so.", file=sys.stderr)
        return 2
    explanation = explain(tx, found[0])
    _print({"text": explanation.text, **(explanation.full or {})}, options.json)
    return 0


def _read(file: Path) -> dict[str, Any]:
    text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    return document


def _line(tx: Transaction) -> dict[str, Any]:
    asks = {lease.id: ask(tx, lease) for lease in tx.book.waiting}
    decision = decide(asks.values(), scene_of(tx), frozenset(asks))
    predicted = starts(tx)
    rows = []
    for lease_id, verdict in decision.verdicts.items():
        request = asks[lease_id]
        rows.append(
            {
                "lease": lease_id,
                "user": request.user,
                "course": request.course,
                "size": str(request.size),
                "granted": verdict.placement is not None,
                "held_by": verdict.held_by or None,
                "facts": [repr(fact) for fact in verdict.facts],
                "promised_for": None if verdict.promise is None else iso(verdict.promise.at),
                "starts_at": iso(predicted[lease_id]) if lease_id in predicted else None,
            }
        )
    return {"now": iso(tx.now), "line": rows}


def _print(document: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(document, indent=1))
        return
    for line in _text(document, 0):
        print(line)


def _text(value: Any, depth: int) -> list[str]:
    """Nested values as indented lines, small ones on one line."""
    lines: list[str] = []
    indent = "  " * depth
    items = value.items() if isinstance(value, dict) else ((f"{n}.", v) for n, v in enumerate(value, start=1))
    for name, item in items:
        flat = item if isinstance(item, str) else json.dumps(item)
        if not isinstance(item, dict | list) or not item or len(flat) + len(indent) < WIDTH - 20:
            lines.append(f"{indent}{name} {flat}")
        else:
            lines.append(f"{indent}{name}")
            lines += _text(item, depth + 1)
    return lines


if __name__ == "__main__":
    sys.exit(main())
