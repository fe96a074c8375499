"""``%gpu usage``: one's GPU-hours by day, and the budgets."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from gpu_kernels.magics import gpu
from gpu_kernels.magics.usage import Usage, budget, by_day

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def row(begin: datetime, end: datetime | None, used: float, active: bool = True) -> dict[str, str]:
    return {
        "started_at": (begin - timedelta(hours=1)).isoformat() if active else begin.isoformat(),
        "active_at": begin.isoformat() if active else "",
        "ended_at": end.isoformat() if end else "",
        "gpu_hours": str(used),
    }


def test_a_slice_over_midnight_counts_for_both_days():
    begin = datetime(2026, 11, 19, 18, tzinfo=UTC)
    days = by_day([row(begin, begin + timedelta(hours=8), 0.8)], date(2026, 11, 19), NOW)
    assert [(day.day, round(used, 3)) for day, used in days] == [(19, 0.6), (20, 0.2), (21, 0.0)]


def test_one_that_is_used_still_counts_until_now():
    days = by_day([row(NOW - timedelta(hours=2), None, 0.2)], date(2026, 11, 21), NOW)
    assert days == [(date(2026, 11, 21), 0.2)]


@given(
    st.lists(st.tuples(st.floats(0, 200), st.floats(0, 60), st.floats(0, 10), st.booleans()), max_size=6),
    st.integers(-12, 14),
)
def test_nothing_is_lost_or_counted_twice_within_the_days_shown(slices, offset):
    now = NOW.astimezone(timezone(timedelta(hours=offset)))
    first = now.date() - timedelta(days=20)
    rows = [
        row(NOW - timedelta(hours=before), min(NOW, NOW - timedelta(hours=before - lasts)), used, active)
        for before, lasts, used, active in slices
        if lasts > 0.001 and before > 0.001
    ]
    total = sum(float(each["gpu_hours"]) for each in rows)
    assert abs(sum(used for _, used in by_day(rows, first, now)) - total) < 1e-6 * max(1.0, total)


BUDGETS = [budget("your share of ml101, this week", 3.5, 4, "; resets Mon 23 Nov 00:00")]
DAYS = [(date(2026, 11, 19), 0.5), (date(2026, 11, 20), 0.0), (date(2026, 11, 21), 3.0)]


def test_the_text_says_how_much_of_what_and_until_when():
    text = repr(Usage(DAYS, BUDGETS, "ml101", plot=True)).splitlines()
    assert text[0] == "You used 3.5 GPU-hours in ml101 in the last 3 days."
    assert text[1].endswith("3.5 of 4 GPU-hours spent; resets Mon 23 Nov 00:00")
    assert text[-1].endswith("3 " + "#" * 40)
    assert "#" not in text[-2]


def test_the_picture_has_a_table_for_who_does_not_see_it_and_no_markup_of_others():
    bad = [budget("<script>", 1, 0, "<b>")]
    html = Usage(DAYS, bad, "<i>", plot=True)._repr_html_()
    assert "<svg" in html
    assert "<td>3</td>" in html
    for markup in ("<script>", "<b>", "<i>"):
        assert markup not in html
    assert "<svg" not in Usage(DAYS, bad, None, plot=False)._repr_html_()


def test_it_is_asked_of_the_controller(attached, pool):
    text = repr(gpu("usage --plot --days 3"))
    assert text.startswith("You used 0 GPU-hours in ml101 in the last 3 days.")
    assert "No budget limits how much you use." in text
    assert len(text.splitlines()) == 5
