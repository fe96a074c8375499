"""What the Tab key offers after ``%gpu`` and ``%%gpu``."""

from __future__ import annotations

import os
import time

from gpu_kernels import offer
from gpu_kernels.client import PoolClient
from gpu_kernels.errors import GPUKernelsError

COMMANDS = ("attach", "release", "smi", "status", "usage", "wait")
OPTIONS = {
    "attach": ("--help", "--timeout"),
    "release": ("--help",),
    "smi": ("--help", "-L", "--query-gpu=", "--format=csv"),
    "status": ("--help",),
    "usage": ("--days", "--help", "--plot"),
    "wait": ("--help", "--timeout"),
}
ASK_AGAIN_S = 60.0
TIMEOUT_S = 1.0
"""Somebody waits with a finger on the Tab key."""

_known: tuple[float, tuple[str, ...]] | None = None


def matches(line: str) -> list[str]:
    """The words that may follow ``line``, which ends where the cursor is."""
    words = line.split()
    begun = "" if line.endswith((" ", "\t")) or not words else words.pop()
    if not words:
        return []
    if words[0] == "%%gpu":
        candidates = [*_numbers(), "--help", "--timeout"]
    elif len(words) == 1:
        candidates = [*COMMANDS, "--help"]
    else:
        sizes = _numbers() if words[1] == "attach" and len(words) == 2 else []
        candidates = [*sizes, *OPTIONS.get(words[1], ())]
    return [candidate for candidate in candidates if candidate.startswith(begun)]


def _numbers() -> list[str]:
    """The sizes on offer as one types them: without the class, where the kernel has one of that class."""
    present = (os.environ.get("GPU_KERNELS_SIZE") or "").partition(" ")[2]
    return list(dict.fromkeys(size.removesuffix(f" {present}") if present else size for size in _sizes()))


def _sizes() -> tuple[str, ...]:
    global _known
    if _known is None or time.monotonic() - _known[0] > ASK_AGAIN_S:
        try:
            with PoolClient.from_environment(timeout=TIMEOUT_S) as client:
                told = offer.ask(client, os.environ.get(offer.COURSE_VARIABLE) or None).to_choose()
        except (GPUKernelsError, KeyError, TypeError):
            told = ()
        _known = time.monotonic(), told
    return _known[1]
