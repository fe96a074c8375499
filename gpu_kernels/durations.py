"""How long something takes, for people."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """``40 s``, ``5 min``, ``2.5 h``: as exact as a forecast is."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f}".removesuffix(".0") + " h"
