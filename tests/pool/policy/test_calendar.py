"""Class hours by the wall clock: daylight saving, dates left out, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_kernels.errors import InvalidRequest
from gpu_kernels.units import parse_size
from gpu_kernels.vocabulary import calendar

pytestmark = pytest.mark.quick

ALWAYS = (0, 1 << 50)


@dataclass(frozen=True)
class Weekly:
    weekdays: str = "1"
    start: str = "10:00"
    minutes: int = 90
    time_zone: str = "Europe/Berlin"
    first_date: str = "2027-03-01"
    last_date: str = "2027-04-30"
    except_dates: tuple[str, ...] = ()
    lead_minutes: int = 10
    late_minutes: int = 15


def utc(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%m-%d %H:%M")


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def expand(since: int = 0, until: int = 1 << 50, **fields: object) -> list[calendar.Meeting]:
    weekly = Weekly(**fields)
    calendar.check(weekly, size=parse_size("0.02 V100"), seats=1)
    return list(calendar.meetings(weekly, since, until))


def refusal(size: str = "0.02 V100", seats: int = 30, **fields: object) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        calendar.check(replace(Weekly(), **fields), size=parse_size(size), seats=seats)
    return caught.value


def test_a_class_stays_at_ten_when_the_clocks_change():
    starts = [utc(meeting.starts_at) for meeting in expand(first_date="2027-03-15", last_date="2027-04-05")]
    assert starts == ["03-15 09:00", "03-22 09:00", "03-29 08:00", "04-05 08:00"]
    autumn = expand(first_date="2027-10-25", last_date="2027-11-01")
    assert [utc(meeting.starts_at) for meeting in autumn] == ["10-25 08:00", "11-01 09:00"]


def test_a_class_across_the_end_of_the_year_and_a_leap_day():
    days = [m.date for m in expand(weekdays="2", first_date="2027-12-28", last_date="2028-03-01")]
    assert days[:2] == ["2027-12-28", "2028-01-04"]
    assert "2028-02-29" in days


def test_a_start_in_the_gap_is_read_by_the_offset_before_it():
    [meeting] = expand(weekdays="7", start="02:30", first_date="2027-03-28", last_date="2027-03-28")
    assert utc(meeting.starts_at) == "03-28 01:30"
    assert calendar.clock_text(meeting.starts_at, "Europe/Berlin") == "03:30"
    assert meeting.ends_at - meeting.starts_at == 90 * calendar.MINUTE


def test_a_start_that_comes_twice_is_the_first_of_them():
    [meeting] = expand(weekdays="7", start="02:30", first_date="2027-10-31", last_date="2027-10-31")
    assert utc(meeting.starts_at) == "10-31 00:30"


def test_a_meeting_over_the_change_lasts_its_minutes():
    [spring] = expand(
        weekdays="7", start="01:00", minutes=180, first_date="2027-03-28", last_date="2027-03-28"
    )
    [autumn] = expand(
        weekdays="7", start="01:00", minutes=180, first_date="2027-10-31", last_date="2027-10-31"
    )
    assert calendar.clock_text(spring.ends_at, "Europe/Berlin") == "05:00"
    assert calendar.clock_text(autumn.ends_at, "Europe/Berlin") == "03:00"


def test_half_hour_changes_and_odd_offsets():
    # Lord Howe Island sets its clocks by half an hour; Kathmandu is at +05:45.
    lord_howe = expand(
        weekdays="17", time_zone="Australia/Lord_Howe", first_date="2027-10-02", last_date="2027-10-04"
    )
    assert [utc(m.starts_at) for m in lord_howe] == ["10-02 23:00", "10-03 23:00"]
    kathmandu = expand(time_zone="Asia/Kathmandu", last_date="2027-03-01")
    assert [utc(m.starts_at) for m in kathmandu] == ["03-01 04:15"]


def test_lead_and_late():
    [meeting] = expand(last_date="2027-03-01", lead_minutes=20, late_minutes=30)
    assert (utc(meeting.lead_at), utc(meeting.late_at)) == ("03-01 08:40", "03-01 09:30")
    [short] = expand(last_date="2027-03-01", minutes=10, late_minutes=15)
    assert short.late_at == short.ends_at


def test_dates_are_left_out():
    days = [m.date for m in expand(weekdays="13", last_date="2027-03-10", except_dates=("2027-03-03",))]
    assert days == ["2027-03-01", "2027-03-08", "2027-03-10"]


def test_only_meetings_that_touch_the_asked_time():
    found = expand(at("2027-03-08 10:29"), at("2027-03-22 09:00"))
    assert [m.date for m in found] == ["2027-03-08", "2027-03-15"]
    assert [m.date for m in expand(at("2027-03-08 10:30"), at("2027-03-22 09:01"))] == [
        "2027-03-15",
        "2027-03-22",
    ]


def test_a_class_after_midnight_belongs_to_the_day_it_starts_on():
    [meeting] = expand(at("2027-03-02 01:00"), at("2027-03-02 02:00"), start="23:00", minutes=240)
    assert meeting.date == "2027-03-01"


@pytest.mark.parametrize(
    ("zone", "day", "start"),
    [("Pacific/Kiritimati", "2027-03-01", "00:00"), ("Pacific/Niue", "2027-03-01", "23:59")],
)
def test_zones_at_the_edges_of_the_day(zone, day, start):
    [whole] = expand(time_zone=zone, first_date=day, last_date=day, start=start)
    assert list(expand(whole.starts_at, whole.starts_at + 1, time_zone=zone, start=start))


@given(
    st.sampled_from(
        ["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Tehran"]
    ),
    st.sets(st.sampled_from("1234567"), min_size=1),
    st.integers(0, 1439),
    st.integers(1, 1440),
    st.dates(date(2009, 1, 1), date(2030, 1, 1)),
    st.integers(0, 60),
    st.integers(0, 1439),
)
@settings(deadline=None)
def test_a_meeting_shows_its_time_on_the_wall(zone, weekdays, start, minutes, first, length, window):
    weekly = Weekly(
        weekdays="".join(sorted(weekdays)),
        start=f"{start // 60:02d}:{start % 60:02d}",
        minutes=minutes,
        time_zone=zone,
        first_date=first.isoformat(),
        last_date=(first + timedelta(days=length)).isoformat(),
    )
    all_of_it = list(calendar.meetings(weekly, *ALWAYS))
    assert [m.date for m in all_of_it] == [d.isoformat() for d in calendar.dates(weekly)]
    assert all_of_it == sorted(all_of_it)
    for meeting in all_of_it:
        shown = calendar.wall_text(meeting.starts_at, zone)
        wanted = datetime.fromisoformat(f"{meeting.date} {weekly.start}")
        if shown != f"{meeting.date} {weekly.start}":
            before = wanted.replace(tzinfo=ZoneInfo(zone)).utcoffset()
            after = wanted.replace(tzinfo=ZoneInfo(zone), fold=1).utcoffset()
            assert before != after  # that time was never shown there
            assert datetime.fromisoformat(shown) > wanted
        assert meeting.lead_at <= meeting.starts_at < meeting.late_at <= meeting.ends_at
        assert meeting.ends_at - meeting.starts_at == minutes * calendar.MINUTE
    if all_of_it:
        since = all_of_it[0].starts_at + window * calendar.MINUTE
        until = since + 3 * 86_400_000
        touching = [m for m in all_of_it if m.starts_at < until and m.ends_at > since]
        assert list(calendar.meetings(weekly, since, until)) == touching


@pytest.mark.parametrize(
    ("fields", "field", "text"),
    [
        ({"time_zone": "Europe/Atlantis"}, "time_zone", "no time zone 'Europe/Atlantis'"),
        ({"time_zone": "../../etc/passwd"}, "time_zone", "no time zone"),
        ({"time_zone": "Europe"}, "time_zone", "no time zone"),
        ({"time_zone": "right/Europe/Berlin"}, "time_zone", "no time zone"),
        ({"time_zone": ""}, "time_zone", "no time zone"),
        ({"weekdays": "8"}, "weekdays", "'8' is not a weekday"),
        ({"weekdays": ""}, "weekdays", "cannot be read"),
        ({"weekdays": "31"}, "weekdays", "not in order"),
        ({"start": "25:00"}, "start", "no '25:00' on a clock"),
        ({"start": "10:60"}, "start", "no '10:60' on a clock"),
        ({"start": "10am"}, "start", "written 09:30"),
        ({"start": "24:00"}, "start", "00:00 to 23:59"),
        ({"minutes": 0}, "minutes", "1 to 1440 minutes"),
        ({"minutes": 1441}, "minutes", "not 1441"),
        ({"lead_minutes": -1}, "lead_minutes", "0 to 1440"),
        ({"late_minutes": 0}, "late_minutes", "1 to 1440"),
        ({"seats": 0}, "seats", "1 to 2000 seats, not 0"),
        ({"first_date": "2027-02-30"}, "first_date", "no date '2027-02-30'"),
        ({"first_date": "1.3.2027"}, "first_date", "written 2027-03-15"),
        ({"first_date": "0001-01-01", "last_date": "0001-02-01"}, "first_date", "no date"),
        ({"last_date": "2027-02-01"}, "last_date", "before the first"),
        ({"last_date": "2029-02-01"}, "last_date", "371 at most"),
        ({"except_dates": ("2027-13-01",)}, "except_dates", "no date"),
        ({"weekdays": "1", "last_date": "2027-03-01", "except_dates": ("2027-03-01",)}, "weekdays", "never"),
        ({"weekdays": "2", "last_date": "2027-03-01"}, "weekdays", "It never meets: no Tuesday"),
        ({"size": "2 V100"}, "size", "one GPU at the most"),
    ],
)
def test_what_is_no_class_hour_is_refused(fields, field, text):
    refused = refusal(**fields)
    assert text in refused.message
    assert refused.details["field"] == field


@pytest.mark.parametrize(
    ("text", "digits"),
    [("135", "135"), ("531", "135"), ("mon Wed FRIDAY", "135"), ("sa,su", "67"), ("Monday, mon", "1")],
)
def test_weekdays_as_people_write_them(text, digits):
    assert calendar.parse_weekdays(text) == digits


@pytest.mark.parametrize("text", ["", " ", "0", "89", "t", "Montag", "mon-fri", "\u00b2", "1 8"])
def test_weekdays_that_nobody_can_read(text):
    with pytest.raises(InvalidRequest):
        calendar.parse_weekdays(text)


def test_the_end_on_the_clock():
    assert calendar.minutes_between("9:00", "10:30") == 90
    assert calendar.minutes_between("22:00", "24:00") == 120
    for end in ("09:00", "08:00"):
        with pytest.raises(InvalidRequest, match="not after the start"):
            calendar.minutes_between("09:00", end)
    with pytest.raises(InvalidRequest, match="no '25:00' on a clock"):
        calendar.minutes_between("09:00", "25:00")
