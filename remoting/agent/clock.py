"""The agent's clock."""

from __future__ import annotations

import time


def clock() -> float:
    """Seconds that never go back, and go on while the machine sleeps: a grant must not outlive its lease by
    that."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
