"""The rate limit of a user's requests that cost much: each grant leaves rows in the ledger, some of them for
good, and each sum over a year reads half a million of them.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from gpu_kernels.durations import duration
from gpu_kernels.errors import TooMany

MOST_USERS = 10_000


class Pace:
    """A bucket a user that holds one minute's requests and fills up evenly."""

    def __init__(self, a_minute: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = a_minute
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, user: str) -> None:
        """Count one request of the user. Raises ``TooMany`` when the minute's are used up."""
        now = self._clock()
        left, at = self._left.get(user, (self._most, now))
        left = min(self._most, left + (now - at) * self._most / 60)
        if left < 1:
            again = max(1.0, (1 - left) * 60 / self._most)
            raise TooMany(
                f"Rate limit: at most {self._most:g} such requests per minute for each user.\n"
                f"This one was not carried out. Try again in {duration(again)}.",
                retry_after=again,
                details={"a_minute": self._most},
            )
        self._left[user] = (left - 1, now)
        self._left.move_to_end(user)
        while len(self._left) > MOST_USERS:
            self._left.popitem(last=False)
