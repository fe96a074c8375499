"""Plain tables for people, and JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from msgspec import to_builtins


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns padded to their widest cell; ``(none)`` where there is no row."""
    lines = [list(head), *(list(row) for row in rows)]
    if len(lines) == 1:
        return "  (none)"
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def json_text(facts: object) -> str:
    """Of resources, and what is made of them."""
    return json.dumps(to_builtins(facts), indent=2)


def instant_text(instant: str) -> str:
    """An instant of the API's for people: ``2027-03-01 18:00 UTC``."""
    return f"{datetime.fromisoformat(instant).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
