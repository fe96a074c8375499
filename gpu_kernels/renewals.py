"""When a lease is renewed, and until when it can be relied upon. Times are seconds since the machine's boot.

By itself, and without an import of weight: ``gpu_kernels.runner`` holds a lease with it for as long as a
command runs, in a process that has little more than the interpreter.
"""

from __future__ import annotations

RENEWALS_A_LIFE = 3
"""Two that fail in a row lose nothing."""
RETRIES_A_LIFE = 12
SHORTEST_PERIOD_S = 0.1


class Renewals:
    """``due`` is when the next one is wanted."""

    def __init__(self, trusted_until: float = float("-inf"), due: float = float("inf")) -> None:
        self.trusted_until, self.due = trusted_until, due

    def begin(self, now: float, ttl: float) -> None:
        """One begins now; until it is answered it counts as failed."""
        self.due = now + max(SHORTEST_PERIOD_S, ttl / RETRIES_A_LIFE)

    def answered(self, began: float, ttl: float, expires_in: float) -> None:
        """One that began then was answered: the lease ends in so many seconds from then, or later."""
        self.trusted_until = max(self.trusted_until, began + expires_in)
        self.due = began + max(SHORTEST_PERIOD_S, min(ttl, expires_in) / RENEWALS_A_LIFE)
