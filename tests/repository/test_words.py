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
    r"Has more at": "Resets at",
    r"\bunused for so long\b|\bends after so long\b|\blaunched for so long\b": "idle time, longest time",
    r"confirmed anew\.": "every meeting has all of its seats",
    r"above the course stands|What stands above can\b": "an account above the course sets",
    r"_\(\"(Heard of|Lies on|Over at|Asked for at)\"": "Last report, Placed on, Ended at, Requested at",
    r"Only those that live|It is gone for good": "active leases, the server is lost",
    r"[Bb]y the clock of %": "Time zone: ...",
    r"As for everyone again|empty is as for everyone": "the course's rules",
    r"(is|are) good for nothing any more": "is revoked",
    r"wait at most so many seconds \(": "wait at most S seconds",
    r"\ba slice lasts no longer\b": "then it reaches its time limit",
    r"\bspeak our language\b": "the protocol of this version",
    r"by what is known now; earlier": "by the present forecast",
    r"GPU.s memory goes\b": "you lose what is in the GPU's memory",
    r"; without that it would end in\b": "renewed while this kernel runs",
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
