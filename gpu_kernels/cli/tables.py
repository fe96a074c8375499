"""Plain tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


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
