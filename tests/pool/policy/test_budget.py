"""Spending against its definition, and weeks against every time zone's clock changes."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_kernels.pool.policy.budget import WEEK, Spending, week_of
from gpu_kernels.vocabulary.rules import GPU_HOUR, HOUR

pytestmark = pytest.mark.quick


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def test_a_week_begins_on_monday_by_the_wall_clock_of_the_zone() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    start, end = week_of(ms("2026-11-21T15:30+01:00"), berlin)
    assert (start, end) == (ms("2026-11-16T00:00+01:00"), ms("2026-11-23T00:00+01:00"))
    assert week_of(end - 1, berlin) == (start, end)
    assert week_of(end, berlin)[0] == end
    assert week_of(ms("2026-11-22T23:30+01:00"), ZoneInfo("Asia/Tokyo"))[0] == ms("2026-11-23T00:00+09:00")


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-29T12:00+02:00", 167), ("2026-10-25T12:00+01:00", 169), ("2026-07-01", 168)]
)
def test_a_week_in_which_the_clocks_change_is_an_hour_shorter_or_longer(day: str, hours: int) -> None:
    start, end = week_of(ms(day), ZoneInfo("Europe/Berlin"))
    assert (end - start) / HOUR == hours


def test_a_week_may_hold_a_midnight_that_the_clocks_skip() -> None:
    zone = ZoneInfo("Africa/Cairo")  # Friday 00:00 -> 01:00
    start, end = week_of(ms("2026-04-24T12:00+03:00"), zone)
    assert (end - start) / HOUR == 167


ZONES = [
    "Europe/Berlin", "America/New_York", "America/St_Johns", "America/Asuncion", "America/Havana",
    "Asia/Beirut", "Asia/Tehran", "Africa/Cairo", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Amman", "UTC",
]  # fmt: skip


@given(zone=st.sampled_from(ZONES), now=st.integers(0, ms("2037-12-31")))
@settings(max_examples=400, deadline=None)
def test_weeks_tile_time_in_every_zone(zone: str, now: int) -> None:
    start, end = week_of(now, ZoneInfo(zone))
    assert start <= now < end
    assert abs(end - start - WEEK) <= 25 * HOUR
    assert week_of(start, ZoneInfo(zone)) == (start, end)
    assert week_of(end - 1, ZoneInfo(zone)) == (start, end)
    assert week_of(end, ZoneInfo(zone))[0] == end
    local = datetime.fromtimestamp(start / 1000, UTC).astimezone(ZoneInfo(zone))
    assert local.weekday() == 0


def test_spending_is_share_times_time() -> None:
    spending = Spending()
    spending.change(0, 500)
    spending.change(2 * HOUR, -500)
    assert spending.spent(0, 3 * HOUR) == GPU_HOUR
    assert spending.spent(HOUR, 3 * HOUR, "late") == GPU_HOUR // 2
    assert spending.spent(0, HOUR, "early") == GPU_HOUR // 2


LEASES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 30), st.integers(1, 9)).map(
        lambda t: (t[0], t[0] + t[1], t[2])
    ),
    max_size=12,
)


def naive(leases: list[tuple[int, int, int]], since: int, until: int) -> int:
    """Moment by moment."""
    return sum(size for start, end, size in leases for at in range(since, until) if start <= at < end)


@given(leases=LEASES, random=st.randoms(use_true_random=False), windows=st.lists(st.tuples(
    st.integers(0, 100), st.integers(0, 40), st.sampled_from(["week", "rolling"])), max_size=6))  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_spending_agrees_with_counting_moments_in_any_order_of_changes_and_questions(
    leases: list[tuple[int, int, int]], random: object, windows: list[tuple[int, int, str]]
) -> None:
    spending = Spending()
    changes = [c for start, end, size in leases for c in ((start, size), (end, -size))]
    random.shuffle(changes)  # type: ignore[attr-defined]
    half = len(changes) // 2
    for change in changes[:half]:
        spending.change(*change)
    for until, length, name in windows:
        spending.spent(max(0, until - length), until, name)
    for change in changes[half:]:
        spending.change(*change)
    for until, length, name in windows:
        since = max(0, until - length)
        assert spending.spent(since, until, name) == naive(leases, since, until)


@given(leases=LEASES, forgotten=st.lists(st.integers(0, 60), max_size=3), length=st.integers(0, 30))
@settings(max_examples=150, deadline=None)
def test_forgetting_changes_no_answer_about_later(
    leases: list[tuple[int, int, int]], forgotten: list[int], length: int
) -> None:
    spending = Spending()
    for index, (start, end, size) in enumerate(leases):
        spending.change(start, size)
        spending.change(end, -size)
        if index < len(forgotten):
            spending.forget(forgotten[index])
    oldest = max(forgotten[: len(leases)], default=0)
    for until in range(oldest, 100, 7):
        since = max(oldest, until - length)
        assert spending.spent(since, until, "w") == naive(leases, since, until)


@given(leases=LEASES, most=st.integers(1, 60), length=st.integers(1, 40), now=st.integers(0, 100))
@settings(max_examples=200, deadline=None)
def test_free_at_is_the_first_moment_below_the_budget(
    leases: list[tuple[int, int, int]], most: int, length: int, now: int
) -> None:
    spending = Spending()
    for start, end, size in leases:
        spending.change(start, size)
        spending.change(end, -size)
    past = [(start, min(end, now), size) for start, end, size in leases if start < now]
    expected = next(t for t in range(now, now + length + 1) if naive(past, max(0, t - length), t) < most)
    assert spending.free_at(most, length, now) == expected
