"""Texts of the code as Markdown, for the reference pages that are made from it."""

from __future__ import annotations

import re


def cell(text: str) -> str:
    """A help text as a cell of a table: one line, and what would be an HTML tag as it stands."""
    line = " ".join(text.replace("%%", "%").split()).replace("|", "\\|")
    outside_code = re.split(r"(`[^`]*`)", line)
    outside_code[::2] = [part.replace("<", "&lt;") for part in outside_code[::2]]
    return "".join(outside_code)
