"""What the pages make of the controller's answers, without asking anybody."""

import re
from datetime import date, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from gpu_kernels.hub_config.pages.views import calendar, changes, plots, servers, students
from gpu_kernels.hub_config.pages.views.plots import Point
from gpu_kernels.pool import ledger
from gpu_kernels.pool.ledger.state.states import State
from gpu_kernels.resources.base import reader
from gpu_kernels.resources.class_hours import ClassHour
from gpu_kernels.resources.leases import Lease
from gpu_kernels.resources.pool import Pool, PoolGpu
from gpu_kernels.resources.usage import UsageSum

pytestmark = pytest.mark.quick

UTC, BERLIN = ZoneInfo("UTC"), ZoneInfo("Europe/Berlin")
MONDAY = date(2026, 3, 23)


def class_hour(**fields):
    whole = {
        "id": "1", "course": "ml101", "size": "0.02 V100", "seats": 30, "weekdays": ["monday", "thursday"],
        "start": "10:00", "minutes": 90, "time_zone": "Europe/Berlin", "first_date": "2026-01-01",
        "last_date": "2026-12-31", "except_dates": [], "state": "confirmed", "meetings": [],
        "lead_minutes": 10, "late_minutes": 15, "created_by": "grace",
        "created_at": "2026-01-01T00:00:00+00:00", **fields,
    }  # fmt: skip
    return reader(ClassHour)(whole)


def met(week):
    return [(m.begins.strftime("%a %H:%M"), m.ends.strftime("%H:%M")) for m in week.meetings]


def test_a_week_has_the_meetings_of_its_days():
    week = calendar.week([class_hour()], MONDAY, BERLIN)
    assert met(week) == [("Mon 10:00", "11:30"), ("Thu 10:00", "11:30")]
    assert week.name == "2026-W13"
    assert (week.before, week.after) == ("2026-W12", "2026-W14")


def test_a_class_hour_keeps_its_own_clock_over_the_change_to_summer_time():
    assert met(calendar.week([class_hour(weekdays=["sunday"])], MONDAY, UTC)) == [("Sun 08:00", "09:30")]
    before = calendar.week([class_hour(weekdays=["sunday"])], date(2026, 3, 16), UTC)
    assert met(before) == [("Sun 09:00", "10:30")]


@pytest.mark.parametrize(
    "fields",
    [
        {"state": "cancelled"},
        {"last_date": "2026-03-22"},
        {"first_date": "2026-03-30"},
        {"except_dates": ["2026-03-23", "2026-03-26"]},
    ],
)
def test_no_meeting_where_there_is_none(fields):
    assert calendar.week([class_hour(**fields)], MONDAY, BERLIN).meetings == ()


def test_a_class_past_midnight_is_drawn_on_both_days():
    week = calendar.week([class_hour(weekdays=["friday"], start="23:00", minutes=120)], MONDAY, BERLIN)
    assert [(block.day, block.hours) for block in week.blocks] == [
        (4, "23:00\u201301:00"),
        (5, "23:00\u201301:00"),
    ]


def test_meetings_at_the_same_time_stand_side_by_side():
    hours = [class_hour(weekdays=["monday"]), class_hour(id="2", weekdays=["monday"], start="11:00")]
    first, second = calendar.week(hours, MONDAY, BERLIN).blocks
    assert first.x + first.width <= second.x
    assert first.y < second.y


def test_every_block_lies_within_the_picture():
    hours = [class_hour(start="00:00", minutes=60), class_hour(id="2", start="22:30", minutes=1440)]
    week = calendar.week(hours, MONDAY, BERLIN)
    for block in week.blocks:
        assert block.y >= calendar.TOP
        assert block.y + block.height <= week.height
        assert block.x >= calendar.LEFT
        assert block.x + block.width <= calendar.WIDTH


@pytest.mark.parametrize("text", ["", "2026-W99", "yesterday", "0000-W01", "9" * 20])
def test_a_week_that_is_none_is_this_one(text):
    assert calendar.monday_of(text, date(2026, 3, 25)) == MONDAY


def test_a_plot_is_drawn_in_steps_within_its_frame_with_the_limit():
    begin = datetime(2026, 3, 23, tzinfo=UTC).timestamp()
    points = [Point(begin, 100, 50), Point(begin + 3600, 400, 0)]
    picture = plots.plot(points, begin=begin, end=begin + 7200, limit=500, zone=UTC)
    assert picture.up[-1].label == "0.5"
    assert picture.limit == plots.TOP
    assert picture.limit_text == "0.5"
    assert picture.peak == 400
    assert picture.held.startswith("M52.0,190")
    assert [tick.label for tick in picture.across] == ["00:00"]
    assert (picture.rows[0].held, picture.rows[0].used, picture.rows[-1].held) == (100, 50, 400)


def test_a_plot_of_nothing_has_axes_and_no_line():
    picture = plots.plot([], begin=0, end=86400 * 7, limit=None, zone=UTC)
    assert (picture.held, picture.used, picture.limit) == ("", "", None)
    assert len(picture.across) == 8
    assert all(row.held == 0 for row in picture.rows)


@pytest.mark.parametrize(("value", "top"), [(0, 0.01), (0.02, 0.02), (0.3, 0.5), (1, 1), (7, 10), (130, 200)])
def test_the_axis_ends_at_a_number_that_reads_well(value, top):
    assert plots.nice_top(value) == top


def lease(user, course="ml101", share=100, state="active", **fields):
    part = {"gpu": "GPU-1", "index": 0, "mib": share, "thousandths": share}
    whole = {
        "id": f"{user}-{course}", "user": user, "course": course, "size": f"{share / 1000} V100",
        "state": state, "slot": {"server": "", "path": "a.ipynb"}, "gpu_class": "V100", "device": "software",
        "agent": {"name": "gpu1", "address": ""}, "slices": [part] if state != "queued" else [], "epoch": 1,
        "position": None, "expires_in": None, "ttl": 60, "reason": None, "labels": {}, "holder": "h",
        "created_at": "2026-03-23T00:00:00+00:00", **fields,
    }  # fmt: skip
    return reader(Lease)(whole)


GPU = PoolGpu(
    agent="gpu1", index=0, uuid="GPU-1", gpu_class="V100", device="software", name="V100", available=True,
    used_thousandths=500, used_mib=500, total_mib=1000, allocatable_mib=1000,
)  # fmt: skip


def pool(*gpus):
    return Pool((), gpus, 0)


def test_a_gpu_is_cut_into_slices_by_course_with_what_nobody_accounts_for_at_the_end():
    bar = servers.gpus(pool(GPU), [lease("bob", "b"), lease("ada", "a", 200), lease("cyd", "a", 100)])[0]
    assert [(piece.course, piece.user, piece.begin, piece.length) for piece in bar.pieces] == [
        ("a", "ada", 0, 200),
        ("a", "cyd", 200, 100),
        ("b", "bob", 300, 100),
    ]
    assert bar.by_course == (("a", 300), ("b", 100))
    assert bar.other == 100
    assert [(entry.course, entry.leases) for entry in servers.legend([bar])] == [("a", 2), ("b", 1)]


def test_a_courses_name_stands_on_its_slices_where_there_is_room():
    others = [lease(f"user{number}", "ml101", 30) for number in range(5)]
    bar = servers.gpus(pool(GPU), [*others, lease("ada", "a", 40), lease("bob", "vision", 100)])[0]
    assert [(name.course, name.begin) for name in bar.names] == [("ml101", 40)]


def test_no_two_courses_of_a_picture_share_a_colour_while_there_are_enough():
    for number in range(200):
        courses = [f"course{number + each}" for each in range(servers.COLOURS)]
        assert len(set(servers.colours(courses).values())) == servers.COLOURS
    many = [f"course{each}" for each in range(30)]
    assert servers.colours(many).keys() == set(many)
    assert servers.colours(["ml101"]) == {"ml101": servers.colour("ml101")}


def test_a_picture_of_some_gpus_has_the_colours_of_the_whole():
    both = pool(GPU, replace(GPU, uuid="GPU-2", agent="gpu2"))
    leases = [lease(f"user{number}", f"course{number}", 40) for number in range(8)]
    whole = servers.legend(servers.gpus(both, leases))
    assert servers.legend(servers.gpus(pool(GPU), leases)) == whole
    assert len({entry.colour for entry in whole}) == 8


def test_slices_that_are_more_than_a_gpu_end_at_its_end():
    bar = servers.gpus(pool(GPU), [lease("a", share=700), lease("b", share=700)])[0]
    assert sum(piece.length for piece in bar.pieces) == 1000


def test_who_waits_comes_first_and_who_only_used_something_last():
    leases = [lease("holds"), lease("waits", state="queued", position=1)]
    usage = [UsageSum(None, "used", "V100", None, 1, 3.5, 4.0, 0.0)]
    rules = {"user_hours_per_week": 4.0, "overrides": {"own": {"user_hours_per_week": 8.0}}}
    found = students.students(leases, usage, rules)
    assert [student.user for student in found.shown] == ["waits", "holds", "used", "own"]
    assert [student.budget for student in found.shown] == [4.0, 4.0, 4.0, 8.0]
    assert [student.level for student in found.shown] == ["ok", "ok", "near", "ok"]
    assert (found.holding, found.waiting, found.count) == (1, 1, 4)


def test_students_come_in_pages_beyond_five_hundred():
    leases = [lease(f"student{number:04d}") for number in range(1201)]
    last = students.students(leases, [], {}, page=99)
    assert (last.pages, last.page, len(last.shown)) == (3, 3, 201)
    assert [s.user for s in students.students(leases, [], {}, find="T0777").shown] == ["student0777"]


def test_a_change_tells_what_is_otherwise_now():
    detail = {
        "from": {"rules": {"idle": 60, "max_leases": 2}},
        "to": {"rules": {"idle": 90, "max_leases": 2}},
    }
    assert changes.changes(detail) == "rules.idle: 60 → 90"
    assert changes.changes({"to": {"V100": 100}}) == "V100:  → 100"
    assert changes.changes({"reason": "spare", "gpus": 1, "none": None}) == "reason: spare, gpus: 1"
    assert changes.changes({"from": {"V100": 100}, "to": {"V100": 1500}}, "limit") == "V100: 0.1 → 1.5"
    quota = {"gpu_class": "V100", "from": None, "to": {"nominal": 20, "hard_limit": None}}
    assert changes.changes(quota, "quota") == "nominal:  → 0.02, gpu_class: V100"
    taught = {
        "to": {"max_size": {"V100": 100}, "overrides": {"ada": {"max_size": {"": 50}, "max_leases": 2}}}
    }
    assert changes.changes(taught, "taught") == (
        "max_size.V100:  → 0.1, overrides.ada.max_size.:  → 0.05, overrides.ada.max_leases:  → 2"
    )
    assert changes.changes({"weekdays": "14", "seats": 5}, "class_hour_made") == "weekdays: Mon Thu, seats: 5"
    assert changes.short("0123456789abcdef0") == "01234567…"


def test_everything_that_the_audit_trail_tells_can_be_asked_for():
    written = set()
    for source in Path(ledger.__file__).parent.rglob("*.py"):
        written |= set(re.findall(r'\.event\([^,\n]+, "([a-z_]+)"', source.read_text()))
    written |= {*State, "open", "cordoned", "class_hour_over"}
    assert sorted(kind for _, kinds in changes.KINDS for kind in kinds) == sorted(written)
