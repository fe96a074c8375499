"""The documents as data: their links, and their commands block by block."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def links(document: Path) -> list[str]:
    """Targets of Markdown links and images that are files of this repository, without fragments."""
    targets = re.findall(r"\]\(([^)\s]+)\)", document.read_text())
    return [target.split("#")[0] for target in targets if "://" not in target and not target.startswith("#")]


def blocks(document: Path) -> list[str]:
    """The fenced blocks without a language: what a reader types or sees."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", document.read_text(), re.M | re.S)
    return [text for language, text in fenced if not language]


def commands(document: Path) -> list[str]:
    """Each line of the blocks that is a command of this project."""
    lines = (line.strip() for block in blocks(document) for line in block.splitlines())
    return [line for line in lines if re.match(r"(\.venv/bin/)?jupyter gpu |make \w", line)]
