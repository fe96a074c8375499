"""Words that gave way to those of the field, and commands to right ones: docs/reference/glossary.md has the
words in use.
"""

from __future__ import annotations

import re

import pytest

from tests.repository.test_repository import ROOT, tracked_files

pytestmark = pytest.mark.quick
RETIRED = {
    r"\bload_ahead\b": "preload_httpx",
    r"\bUntilGone\b|\buntil_gone\b": "StreamingHandler",
    r"\blab[./]tied\b": "lab.die_with_parent",
    r"\blab[./]kept\b": "lab.respawn",
    r"\bclient[./](ahead|following)\b": "client.preload, client.event_stream",
    r"[Ww]hoever runs (the (pool|hub|GPU servers)|this installation|it)\b": "an administrator",
    r"pool[./]ledger[./](asking|granting|ending|sweeping|teaching|reading|watch|house)\b": "its rooms",
    r"\boftener\b": "more often",
    r"\bnobody may have more\b": "the limit is",
    r"pip install [^`\n]*\bgpu-kernels\b": "the wheel's file, as gpu_kernels.extras does",
}
HERE = "tests/repository/test_words.py"
"""This list, and what tells of times past, may name them."""
PAST = {HERE, "CHANGELOG.md"}
TEXTS = {".py", ".md", ".html", ".h", ".cc", ".ts", ".tsx", ".toml", ".yml", ".pot"}


def test_retired_words_do_not_come_back() -> None:
    found = []
    for path in tracked_files():
        name = str(path.relative_to(ROOT))
        if name in PAST or path.suffix not in TEXTS:
            continue
        text = path.read_text()
        found += [f"{name}: {word} (say {now})" for word, now in RETIRED.items() if re.search(word, text)]
    assert found == []
