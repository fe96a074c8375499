"""Logging what strangers say: bounded in length and rate, and nothing in it but printable text."""

from __future__ import annotations

import logging
import time

LINES_AT_ONCE = 20
LINES_A_SECOND = 2.0
LONGEST_LINE = 500


class LimitedLog:
    """A token bucket before a logger. What was dropped is counted and told with the next line."""

    def __init__(self, log: logging.Logger, subject: str, *, at_once: int = LINES_AT_ONCE) -> None:
        self._log = log
        self._subject = subject
        self._most = float(at_once)
        self._left = float(at_once)
        self._filled_at = time.monotonic()
        self._dropped = 0

    def line(self, level: int, text: str) -> None:
        now = time.monotonic()
        self._left = min(self._most, self._left + (now - self._filled_at) * LINES_A_SECOND)
        self._filled_at = now
        if self._left < 1:
            self._dropped += 1
            return
        self._left -= 1
        if self._dropped:
            self._log.log(level, "%s: %d lines left out", self._subject, self._dropped)
            self._dropped = 0
        self._log.log(level, "%s: %s", self._subject, printable(text))


def printable(text: str) -> str:
    """``text`` without control characters, so that nobody writes lines into the log that are not his."""
    cut = text if len(text) <= LONGEST_LINE else text[:LONGEST_LINE] + "..."
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in cut)
