"""Logging what strangers cause: bounded in length and rate, and nothing in it but printable text.

``RateLimitedLogger`` is for the lines of one subject. ``RateLimit`` is for whole processes: it bounds what
each place in the code may say, other people's libraries included, so that a flood of one line neither fills
the disk nor hides the other lines.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable

from gpu_kernels.limits.rates import TokenBucket

LINES_AT_ONCE = 20
LINES_A_SECOND = 2.0
LONGEST_LINE = 500
OF_A_PLACE_AT_ONCE = 200
"""A class of two hundred that begins leaves each of its lines."""
MOST_PLACES = 4096


class RateLimitedLogger:
    """A token bucket before a logger. What was left out is counted and told with the next line."""

    def __init__(
        self,
        log: logging.Logger,
        subject: str,
        *,
        at_once: int = LINES_AT_ONCE,
        a_second: float = LINES_A_SECOND,
    ) -> None:
        self._log = log
        self._subject = subject
        self._bucket = TokenBucket(at_once, a_second)
        self._left_out = 0

    def line(self, level: int, text: str) -> None:
        if self._bucket.take():
            self._left_out += 1
            return
        if self._left_out:
            self._log.log(level, "%s: %d lines left out", self._subject, self._left_out)
            self._left_out = 0
        self._log.log(level, "%s: %s", self._subject, printable(text))


def printable(text: str) -> str:
    """``text`` without control characters, so that nobody writes lines into the log that are not his."""
    cut = text if len(text) <= LONGEST_LINE else text[:LONGEST_LINE] + "..."
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in cut)


class RateLimit(logging.Filter):
    """Of a log's handler: so many lines of each place in the code at once, and so many a second from then on.

    A line that passes says how many of its place were left out before it. Any thread may log.
    """

    def __init__(self, at_once: int = OF_A_PLACE_AT_ONCE, a_second: float = LINES_A_SECOND) -> None:
        super().__init__()
        self._at_once, self._a_second = at_once, a_second
        self._places: dict[tuple[str, int], tuple[TokenBucket, list[int]]] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "_rate_limited", None) is self:
            return True  # another handler of the same log has asked
        with self._lock:
            bucket, left_out = self._place(record)
            if bucket.take():
                left_out[0] += 1
                return False
            missing, left_out[0] = left_out[0], 0
        record._rate_limited = self
        if missing:
            record.msg = f"{record.getMessage()} ({missing} lines like this one were left out)"
            record.args = None
        return True

    def _place(self, record: logging.LogRecord) -> tuple[TokenBucket, list[int]]:
        where = (record.pathname, record.lineno)
        if where not in self._places:
            if len(self._places) >= MOST_PLACES:
                self._places.pop(next(iter(self._places)))
            self._places[where] = (TokenBucket(self._at_once, self._a_second), [0])
        return self._places[where]


def limit_rate(handlers: Iterable[logging.Handler]) -> None:
    """Bound the rate of these handlers, once. Called at the start of a process that listens."""
    limit = RateLimit()
    for handler in handlers:
        if not any(isinstance(known, RateLimit) for known in handler.filters):
            handler.addFilter(limit)
