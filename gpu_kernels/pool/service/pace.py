"""How often one user may ask for leases: each grant leaves rows in the ledger, some of them for good."""

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
                f"You asked the GPU pool for this more than {self._most:g} times in a minute, and nobody may "
                f"oftener.\nNothing was done this time. Try again in {duration(again)}.",
                retry_after=again,
                details={"a_minute": self._most},
            )
        self._left[user] = (left - 1, now)
        self._left.move_to_end(user)
        while len(self._left) > MOST_USERS:
            self._left.popitem(last=False)
