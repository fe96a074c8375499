"""The documents as data: their links, and their commands block by block."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def links(document: Path) -> list[str]:
    """Targets of Markdown links and images that are files of this repository, without fragments."""
    text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.M | re.S)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    return [target.split("#")[0] for target in targets if "://" not in target and not target.startswith("#")]


def blocks(document: Path) -> list[str]:
    """The fenced blocks without a language: what a reader types or sees."""
    return code(document, "")


def code(document: Path, wanted: str) -> list[str]:
    """The fenced blocks of a language."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", document.read_text(), re.M | re.S)
    return [text for language, text in fenced if language == wanted]


def commands(document: Path) -> list[str]:
    """Each line of the blocks that is a command of this project."""
    lines = (
        re.sub(r"^(GPU_KERNELS_\w+=\S+ )+", "", line.strip())
        for block in blocks(document)
        for line in block.splitlines()
    )
    return [line for line in lines if re.match(r"(\.venv/bin/)?jupyter gpu |make \w", line)]
