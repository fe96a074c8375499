"""A wall clock for tests that must run at any hour: one of a time zone where it is noon or so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def noon_zone() -> str:
    """A zone in which it is between 12:00 and 13:00 now, or was a moment ago."""
    ahead = 12 - datetime.now(UTC).hour
    return "Etc/UTC" if not ahead else f"Etc/GMT{-ahead:+d}"  # the names count the other way round


def wall(zone: str, minutes_from_now: int = 0) -> datetime:
    return datetime.now(ZoneInfo(zone)) + timedelta(minutes=minutes_from_now)
