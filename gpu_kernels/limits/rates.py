"""The token bucket: so many at once, and so many a second from then on."""

from __future__ import annotations

import time
from collections.abc import Callable


class TokenBucket:
    """Full at the beginning. Belongs to one thread, or to whoever holds a lock."""

    def __init__(self, at_once: float, a_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.at_once, self.a_second = at_once, a_second
        self._clock = clock
        self._left, self._filled_at = at_once, clock()

    def take(self) -> float:
        """Take one; the seconds until there will be one where there is none, else 0."""
        now = self._clock()
        self._left = min(self.at_once, self._left + (now - self._filled_at) * self.a_second)
        self._filled_at = now
        if self._left < 1:
            return (1 - self._left) / self.a_second
        self._left -= 1
        return 0.0

    def put_back(self) -> None:
        """What was taken turned out to count for nothing."""
        self._left = min(self.at_once, self._left + 1)

    @property
    def is_full(self) -> bool:
        """Whether it is as good as a new one."""
        return self._left + (self._clock() - self._filled_at) * self.a_second >= self.at_once
