"""The predictions that were made last. They cost much more than a decision, and may be a little old."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FRESH = 5
"""Milliseconds for each that waits for which predictions are not made anew, whoever comes or goes."""
STALE = 15_000
"""Milliseconds after which predictions are made anew, even if nobody came or went."""


@dataclass(slots=True)
class Forecasts:
    """``starts``: the predicted start of each waiting request that has one, as of ``made_at``, when the line
    was ``line``.
    """

    made_at: int = 0
    line: tuple[str, ...] = ()
    starts: Mapping[str, int] | None = None
