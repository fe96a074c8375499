"""Class hours over a term: horizons, changes, lost servers, controllers that were away."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from zoneinfo import ZoneInfo

import pytest

from gpu_kernels.errors import (
    ClassHourFull,
    Conflict,
    UnknownClassHour,
)
from gpu_kernels.pool.ledger.commands import accounts, servers
from gpu_kernels.pool.ledger.commands.class_hours import bookings, windows
from gpu_kernels.pool.ledger.commands.outage import shift
from gpu_kernels.pool.ledger.commands.sweep import sweep
from gpu_kernels.pool.ledger.queries.class_hour_views import class_hour_view
from gpu_kernels.pool.ledger.state.rows import Window
from gpu_kernels.pool.ledger.state.states import IN_FORCE
from gpu_kernels.vocabulary import calendar
from tests.pool.school import HOUR, MINUTE, MORNING, at, students


def test_a_whole_term_by_the_wall_clock(school):
    class_hour = school.class_hour(late_minutes=90)
    for number, day in enumerate(("03-01", "03-08", "03-15", "03-22", "03-29", "04-05"), 1):
        school.go_to(f"2027-{day} 09:00", step=HOUR)
        guest = school.ask("ben", "1 V100", course="open", preemptible=True)
        assert guest.preempt_at == at(f"2027-{day} 10:00")
        school.go_to(f"2027-{day} 10:00")
        leases = [school.ask(student, path=f"week{number}.ipynb") for student in students(10)]
        assert all(lease.window for lease in leases)
        school.go_to(f"2027-{day} 11:30")
        for lease in leases:
            school.release(lease)
        school.sweep()
        assert school.ask("eve", "1 V100", course="open").preempt_at is None
        school.go_to(f"2027-{day} 20:00", step=HOUR)
    school.go_to("2027-05-01 00:00", step=6 * HOUR)
    assert {window.state for window in school.windows(class_hour)} <= {"over"}
    assert not school.ledger.book.seats


def test_meetings_beyond_the_horizon_come_into_sight(school):
    class_hour = school.class_hour(first_date="2027-09-06", last_date="2027-12-20", seats=2)
    assert not school.windows(class_hour)
    school.go_to("2027-04-01 00:00", step=6 * HOUR)
    meetings = school.windows(class_hour)
    assert len(meetings) == 4
    assert {len(school.seats(window)) for window in meetings} == {2}


def test_what_is_long_over_is_forgotten(school):
    class_hour = school.class_hour(last_date="2027-03-08")
    cancelled = school.class_hour(course="cv202", start="12:00", last_date="2027-03-08")
    school.cancel(cancelled)
    school.go_to("2027-04-15 00:00", step=6 * HOUR)
    assert not school.disk.rows[Window]
    assert list(school.ledger.book.class_hours) == [class_hour.id]


# Changing and cancelling


def test_a_cancelled_class_gives_its_seats_back(school):
    class_hour = school.class_hour()
    guest = school.ask("ben", "1 V100", course="open", preemptible=True)
    school.cancel(class_hour)
    assert school.lease(guest).preempt_at is None
    school.go_to("2027-03-01 10:05")
    assert school.lease(guest).state in IN_FORCE
    assert school.cancel(class_hour).cancelled_at is not None
    with pytest.raises(UnknownClassHour):
        school.change(class_hour, seats=2)


def test_cancelling_an_open_class_leaves_its_students_their_leases(school):
    class_hour = school.class_hour()
    school.go_to("2027-03-01 10:05")
    lease = school.ask("ana")
    school.cancel(class_hour)
    assert (school.lease(lease).state in IN_FORCE, school.lease(lease).window) == (True, None)
    assert school.ask("ben", "0.9 V100", course="open")


def test_leaving_out_a_date_cancels_that_meeting_only(school):
    class_hour = school.class_hour()
    guest = school.ask("ben", "1 V100", course="open", preemptible=True)
    school.change(class_hour, except_dates=("2027-03-01",))
    assert [window.state for window in school.windows(class_hour)] == ["cancelled"] + ["planned"] * 8
    assert school.lease(guest).preempt_at is None
    with pytest.raises(ClassHourFull):  # the guest was told that it may stay
        school.change(class_hour, except_dates=())
    school.release(guest)
    school.sweep()
    school.change(class_hour, except_dates=())
    assert {window.state for window in school.windows(class_hour)} == {"planned"}


def test_growing_is_refused_where_it_does_not_fit_and_nothing_changes(school):
    class_hour = school.class_hour(seats=5)
    school.class_hour(course="cv202", seats=4)
    before = dict(school.ledger.book.seats)
    with pytest.raises(ClassHourFull) as caught:
        school.change(class_hour, seats=7)
    assert caught.value.details["fits"] == 6
    assert school.ledger.book.seats == before
    assert school.ledger.book.class_hours[class_hour.id].seats == 5
    school.change(class_hour, seats=6)
    assert len(school.seats(school.windows(class_hour)[0])) == 6
    school.change(class_hour, seats=2)
    assert len(school.seats(school.windows(class_hour)[0])) == 2
    school.class_hour(course="cv202", seats=4)


def test_moving_a_class_to_another_time(school):
    class_hour = school.class_hour()
    school.class_hour(course="cv202", start="14:00")
    with pytest.raises(ClassHourFull):
        school.change(class_hour, start="13:00")
    moved = school.change(class_hour, start="12:00", weekdays="2")
    meetings = [window for window in school.windows(moved) if window.state == "planned"]
    assert meetings[0].starts_at == at("2027-03-02 12:00")
    assert all(len(school.seats(window)) == 10 for window in meetings)
    school.class_hour(course="cv202")  # its old place is free


def test_a_class_that_is_on_stays_as_it_is(school):
    class_hour = school.class_hour()
    school.go_to("2027-03-01 10:05")
    lease = school.ask("ana")
    with pytest.raises(Conflict):
        school.change(class_hour, size="0.05 V100")
    school.change(class_hour, start="08:00")
    assert school.lease(lease).window
    assert [w.starts_at for w in school.windows(class_hour)][:2] == [
        at("2027-03-01 10:00"),
        at("2027-03-08 08:00"),
    ]


# Servers come and go


def test_a_lost_server_shrinks_the_latest_confirmed_class(school):
    school.server("gpu2")
    first = school.class_hour()
    school.now += 1
    second = school.class_hour(course="cv202")
    lost = {seat.gpu_id for seat in school.seats(school.windows(first)[0])}
    name = school.ledger.book.gpus[lost.pop()].agent_name
    school.lose(name)
    school.go_to("2027-03-01 07:10", step=MINUTE)
    assert {window.short for window in school.windows(first)} == {0}
    assert {window.short for window in school.windows(second)} == {10}
    assert school.events("class_hour_short")[0] == {"from": 0, "to": 10}
    school.return_(name)
    school.go_to("2027-03-01 07:15", step=MINUTE)
    assert {window.short for window in school.windows(second)} == {0}


def test_a_short_silence_moves_no_seat(school):
    class_hour = school.class_hour()
    before = dict(school.ledger.book.seats)
    school.lose("gpu1")
    school.go_to("2027-03-01 07:01", step=10_000)
    school.return_("gpu1")
    school.go_to("2027-03-01 07:05", step=MINUTE)
    assert school.ledger.book.seats == before
    assert {window.short for window in school.windows(class_hour)} == {0}


def test_the_next_classes_are_planned_first_when_servers_come(school, monkeypatch):
    monkeypatch.setattr(windows, "PLAN_BATCH", 20)
    class_hour = school.class_hour()
    school.lose("gpu1")
    school.go_to("2027-03-01 07:30", step=MINUTE)
    assert {window.short for window in school.windows(class_hour)} == {10}
    school.server("gpu2")
    shorts = []
    for _ in range(5):
        school.sweep()
        shorts.append([window.short for window in school.windows(class_hour)].count(0))
    assert shorts == [2, 4, 6, 8, 9]


def test_a_server_that_comes_and_goes_while_windows_are_planned(school, monkeypatch):
    monkeypatch.setattr(windows, "PLAN_BATCH", 20)
    class_hour = school.class_hour()
    before = dict(school.ledger.book.seats)
    for _ in range(6):
        school.sweep()
    cordon = partial(servers.set_standing, name="gpu1", actor="root")
    school.server("gpu2")
    school.write(lambda tx: cordon(tx, standing="cordoned") and None)
    school.sweep()
    moved = {seat.gpu_id for seat in school.ledger.book.seats.values()}
    assert len(moved) == 2  # the first two meetings have moved
    school.write(lambda tx: cordon(tx, standing="open") and None)
    school.write(lambda tx: servers.set_standing(tx, "gpu2", "cordoned", actor="root") and None)
    for _ in range(6):
        school.sweep()
    assert school.ledger.book.seats == before
    assert {window.short for window in school.windows(class_hour)} == {0}


def test_seats_move_off_a_server_that_is_to_be_drained(school):
    school.server("gpu2")
    class_hour = school.class_hour()
    name = school.ledger.book.gpus[school.seats(school.windows(class_hour)[0])[0].gpu_id].agent_name
    school.write(lambda tx: servers.set_standing(tx, name, "cordoned", actor="root") and None)
    school.sweep()
    gpus = {seat.gpu_id for window in school.windows(class_hour) for seat in school.seats(window)}
    assert {school.ledger.book.gpus[gpu].agent_name for gpu in gpus} == {"gpu1", "gpu2"} - {name}


def test_a_server_lost_in_class_costs_its_seats_only_until_there_are_others(school):
    school.server("gpu2")
    class_hour = school.class_hour(late_minutes=90)
    school.go_to("2027-03-01 10:05")
    lease = school.ask("ana")
    assert lease.agent_name is not None
    school.lose(lease.agent_name)
    school.go_to("2027-03-01 10:10", step=MINUTE)
    window = school.windows(class_hour)[0]
    assert len(school.seats(window, "held")) == 9  # on the other server
    school.release(school.lease(lease))
    school.go_to("2027-03-01 10:12", step=MINUTE)
    assert len(school.seats(window, "held")) == 10
    assert school.ask("ana").agent_name != lease.agent_name


def test_a_course_that_is_removed_gives_its_seats_back(school):
    class_hour = school.class_hour(course="cv202")
    school.write(lambda tx: accounts.drop_account(tx, "cv202", actor="root"))
    school.go_to("2027-03-01 08:05")
    assert school.ledger.book.class_hours[class_hour.id].cancelled_at is not None
    assert not school.ledger.book.seats


# A controller that was away


def test_class_hours_are_the_same_after_a_restart_on_a_database(rig):
    pattern = replace(MORNING, size="0.02 V100", except_dates=("2027-03-15",))
    pattern = replace(pattern, first_date="2027-02-01")
    rig.write(lambda tx: bookings.create(tx, pattern, actor="grace"))
    tables = ("class_hours", "windows", "seats")
    before = {name: dict(getattr(rig.ledger.book, name)) for name in tables}
    assert len(before["seats"]) == 120
    rig.restart()
    rig.write(sweep)
    assert {name: getattr(rig.ledger.book, name) for name in tables} == before


def test_a_controller_that_was_away_over_the_start(school):
    class_hour = school.class_hour()
    guest = school.ask("ben", "1 V100", course="open", preemptible=True)
    school.jump_to("2027-03-01 10:07")
    assert school.lease(guest).state not in IN_FORCE
    assert len(school.seats(school.windows(class_hour)[0], "held")) == 10
    assert school.ask("ana").window


def test_a_controller_that_was_away_over_the_whole_class(school):
    class_hour = school.class_hour()
    guest = school.ask("ben", "1 V100", course="open", preemptible=True)
    school.jump_to("2027-03-01 12:00")
    assert school.windows(class_hour)[0].state == "over"
    assert school.lease(guest).state in IN_FORCE  # nobody needs its slice any more
    assert school.lease(guest).preempt_at is None


def test_a_controller_that_was_away_over_the_late_time(school):
    class_hour = school.class_hour()
    school.go_to("2027-03-01 10:05")
    lease = school.ask("ana")
    school.jump_to("2027-03-01 10:30")
    assert [seat.lease_id for seat in school.seats(school.windows(class_hour)[0])] == [lease.id]


def test_sweeping_again_changes_nothing(school):
    school.class_hour()
    school.ask("ben", "1 V100", course="open", preemptible=True)
    for when in ("09:49", "09:50", "10:00", "10:15", "11:30", "12:00"):
        school.go_to(f"2027-03-01 {when}")
        before = {kind: dict(rows) for kind, rows in school.disk.rows.items()}
        school.sweep()
        after = {kind: dict(rows) for kind, rows in school.disk.rows.items()}
        assert {k: v for k, v in before.items() if k.TABLE != "agents"} == {
            k: v for k, v in after.items() if k.TABLE != "agents"
        }


def test_time_given_back_to_leases_does_not_let_them_stand_on_seats(school):
    school.class_hour(start="15:30")
    lease = school.ask("ben", "1 V100", course="open")
    assert lease.preempt_at is None
    school.write(lambda tx: shift(tx, HOUR))
    after = school.lease(lease)
    assert (after.ends_at, after.preempt_at) == (lease.ends_at + HOUR, at("2027-03-01 15:30"))


def test_nobody_is_ever_told_an_earlier_time(school):
    late = school.class_hour(start="14:00")
    guest = school.ask("ben", "1 V100", course="open", preemptible=True)
    assert guest.preempt_at == at("2027-03-01 14:00")
    with pytest.raises(ClassHourFull):
        school.class_hour(course="cv202", seats=1)
    school.cancel(late)
    assert school.lease(guest).preempt_at is None


def test_a_time_zone_that_is_gone_keeps_its_class_and_holds_up_nobody(school, monkeypatch):
    gone = school.class_hour(time_zone="Europe/Vienna")
    other = school.class_hour(course="cv202", start="14:00")
    late = school.class_hour(course="cv202", start="18:00", first_date="2027-12-06", last_date="2027-12-06")
    guest = school.ask("ben", "0.1 V100", course="open", preemptible=True)

    def zone(name):
        if name == "Europe/Vienna":
            raise KeyError(name)
        return ZoneInfo(name)

    monkeypatch.setattr(calendar, "ZoneInfo", zone)
    calendar.time_zone.cache_clear()
    school.go_to("2027-03-01 10:00")  # a sweep that raised would end here
    assert (
        "the class hour of ml101 began at 09:00" in school.lease(guest).reason
    )  # by UTC, for want of better
    assert [window.state for window in school.windows(gone)][:2] == ["open", "planned"]
    view = school.ledger.read(lambda tx: class_hour_view(tx, gone))
    assert (view.state, view.meetings[0].date) == ("confirmed", "2027-03-01")
    school.go_to("2027-03-01 14:00")
    assert [window.state for window in school.windows(other)][:2] == ["open", "planned"]
    school.go_to("2027-06-30 12:00", step=6 * HOUR)
    assert [len(school.seats(window)) for window in school.windows(late)] == [10]
    assert school.cancel(gone).cancelled_at is not None
    calendar.time_zone.cache_clear()
