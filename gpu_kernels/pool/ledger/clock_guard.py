"""Time that nobody could use: the process was stopped, or the database's clock was set.

A lease must end because nobody renewed it, never because nobody could. So whatever the database's clock moved
beyond the time that this process lived through is given back to all that lives, in the first write
afterwards and before its decision.

Why that cannot put an end off for ever: only what lies *beyond* the time lived through is given back, and
between two writes at least the smaller of the time that passed and the sweep's interval counts as lived
through. The sweep writes once an interval. So each round takes a piece of a lease's time that is never given
back, however slow, stopped or jumpy the rest is, and a lease that nobody renews is over after
``lease_ttl / interval`` rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable

STEP_MS = 5_000
"""How far the two clocks may part between two writes before that is taken for a clock that was set."""
PART_OF_TTL = 4
"""Neither a pause nor a step may eat more than this part of a time to live unnoticed; the sweep's interval is
at most as long.
"""


class ClockGuard:
    """Compares the database's clock with this process's own from write to write."""

    def __init__(
        self, interval_ms: float, lease_ttl: int, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval = interval_ms
        self._longest = interval_ms + lease_ttl / PART_OF_TTL
        self._step = min(STEP_MS, lease_ttl / PART_OF_TTL)
        self._monotonic = monotonic
        self._last: tuple[float, int] | None = None

    def begin_anew(self) -> None:
        """Nothing was seen yet: this process was no controller for a while."""
        self._last = None

    def lost(self, now: int) -> int:
        """Milliseconds to give back at the database's time ``now``; less than 0 where its clock was set
        back.
        """
        if self._last is None:
            return 0
        passed = self._here() - self._last[0]
        stopped = passed > self._longest
        lived = self._interval if stopped else passed
        beyond = round(now - self._last[1] - lived)
        return beyond if stopped or abs(beyond) > self._step else 0

    def seen(self, now: int) -> None:
        """A write of the time ``now`` was committed, and with it what was given back."""
        self._last = (self._here(), now)

    def _here(self) -> float:
        return self._monotonic() * 1000
