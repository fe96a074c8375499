"""Class hours through their lives: confirmed, led up to, opened, sat on, given back; by the wall clock."""

from __future__ import annotations

import pytest

from gpu_kernels.errors import (
    ClassHourFull,
    InvalidRequest,
    InvalidSize,
    NoSuchClass,
    PoolFull,
    Refused,
    TooMany,
    UnknownCourse,
)
from gpu_kernels.pool.ledger.commands import accounts
from gpu_kernels.pool.ledger.state.states import IN_FORCE
from tests.pool.school import HOUR, School, at, students

# Confirming


def test_every_meeting_of_the_term_has_its_seats_on_named_gpus(school):
    class_hour = school.class_hour()
    meetings = school.windows(class_hour)
    assert len(meetings) == 9
    assert {len(school.seats(window)) for window in meetings} == {10}
    starts = [window.starts_at for window in meetings]
    assert starts == [
        at(f"2027-{day} 10:00")
        for day in ("03-01", "03-08", "03-15", "03-22", "03-29", "04-05", "04-12", "04-19", "04-26")
    ]
    assert starts[4] - starts[3] == 7 * 24 * HOUR - HOUR  # clocks went forward on 28 March


def test_more_than_fits_is_refused_with_numbers_and_alternatives(school):
    school.class_hour(seats=6)
    with pytest.raises(ClassHourFull) as caught:
        school.class_hour(course="cv202", seats=5, start="11:00", minutes=60)
    assert caught.value.message == (
        "cv202 cannot have 5 seats of 0.1 V100 at any of its 9 meetings.\n"
        "2027-03-01: 4 fit; ml101 has 6 seats from 10:00 to 11:30.\n"
        "2027-03-08: 4 fit; ml101 has 6 seats from 10:00 to 11:30.\n"
        "2027-03-15: 4 fit; ml101 has 6 seats from 10:00 to 11:30.\n"
        "2027-03-22: 4 fit; ml101 has 6 seats from 10:00 to 11:30.\n"
        "2027-03-29: 4 fit; ml101 has 6 seats from 10:00 to 11:30.\n"
        "You can ask for 4 seats, choose a smaller size, or begin at 11:30, 12:00 or 12:30, when all 5 fit."
    )
    assert caught.value.details["fits"] == 4
    assert caught.value.details["starts"] == ["11:30", "12:00", "12:30"]
    assert len(caught.value.details["short"]) == 9
    assert len(school.ledger.book.class_hours) == 1
    assert len(school.ledger.book.windows) == 9


def test_a_class_that_overlaps_once_is_told_of_that_one(school):
    school.class_hour(first_date="2027-03-15", last_date="2027-03-15")
    with pytest.raises(ClassHourFull) as caught:
        school.class_hour(course="cv202", seats=1)
    assert "at 1 of its 9 meetings" in caught.value.message
    assert [short["date"] for short in caught.value.details["short"]] == ["2027-03-15"]
    assert caught.value.details["fits"] == 0
    assert "ask for" not in caught.value.message
    assert school.class_hour(course="cv202", seats=1, except_dates=("2027-03-15",)).except_dates


def test_classes_one_after_the_other_share_their_gpus(school):
    school.class_hour()
    school.class_hour(course="cv202", start="11:30")
    school.class_hour(course="cv202", start="08:30")


def test_small_seats_move_to_let_large_ones_in():
    school = School()
    school.server(gpus=2)
    wide = [school.class_hour(seats=1, size="0.6 V100", start="09:00", minutes=30)]
    small = [school.class_hour(course="cv202", seats=6, size="0.1 V100")]
    school.cancel(wide[0])
    other = school.class_hour(seats=1, size="0.6 V100", minutes=60)
    whole = school.class_hour(course="cv202", seats=1, size="0.4 V100", start="10:30", minutes=30)
    assert all(window.short == 0 for hour in (*small, other, whole) for window in school.windows(hour))


def test_what_moves_finds_room_beside_what_is_on_far_from_the_new_class():
    school = School()
    school.server(gpus=2)
    days = {"weekdays": "1234567", "last_date": "2027-03-03"}
    school.class_hour(seats=1, size="1 V100", start="20:00", minutes=30, **days)
    school.class_hour(course="open", seats=2, size="0.5 V100", start="08:30", minutes=1440, **days)
    with pytest.raises(ClassHourFull):  # School.check looks at every instant
        school.class_hour(course="cv202", seats=2, size="1 V100", start="02:30", minutes=30, **days)
    school.class_hour(course="cv202", seats=1, size="1 V100", start="02:30", minutes=30, **days)


def test_leases_that_run_on_are_in_the_way(school):
    school.ask("ben", "0.5 V100", course="open")
    with pytest.raises(ClassHourFull) as caught:
        school.class_hour()
    assert "2027-03-01: 5 fit; 1 lease may run on these GPUs until 2027-03-01 15:00." in caught.value.message
    assert "at 1 of its 9 meetings" in caught.value.message
    assert school.class_hour(first_date="2027-03-02")


def test_nobody_takes_the_classs_seats_by_leaving_one_after_the_other():
    school = School("2027-03-01 09:50")
    school.server()
    window = school.windows(school.class_hour(seats=8, size="0.1 V100"))[0]
    school.go_to("2027-03-01 10:01")
    left = []
    for number in range(2):
        left.append(school.ask("ada", path=f"{number}.ipynb"))
        school.release(left[-1])
    assert "are being cleared" in school.refused("ada", path="2.ipynb").message
    assert len(school.seats(window, "taken")) == 2
    assert school.ask("bob").window == window.id
    school.sweep()
    assert {school.lease(lease).state for lease in left} == {"released"}
    assert school.ask("ada", path="2.ipynb").window == window.id


def test_a_faculty_has_no_class_hours(school):
    school.write(lambda tx: accounts.put_account(tx, "science", actor="adam", kind="faculty"))
    with pytest.raises(UnknownCourse):
        school.class_hour(course="science")


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"course": "none"}, UnknownCourse),
        ({"time_zone": "Europe/Atlantis"}, InvalidRequest),
        ({"size": "2 V100"}, InvalidRequest),
        ({"seats": 0}, InvalidRequest),
        ({"first_date": "2026-01-01", "last_date": "2026-12-01"}, InvalidRequest),
        ({"size": "0.1 A100"}, NoSuchClass),
        ({"size": "0,02 V100"}, InvalidSize),
        ({"size": "20000 MiB"}, ClassHourFull),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(school, fields, error):
    with pytest.raises(error):
        school.class_hour(**fields)
    assert not school.ledger.book.class_hours
    assert not school.ledger.book.windows
    assert not school.ledger.book.seats


def test_a_course_has_so_many_class_hours_at_the_most(school):
    for _ in range(50):
        school.class_hour(seats=1, size="0.001 V100")
    with pytest.raises(TooMany):
        school.class_hour(seats=1, size="0.001 V100")


def test_no_class_hour_is_of_more_seats_than_one_decision_should_take():
    school = School()
    school.server(gpus=3)
    with pytest.raises(InvalidRequest, match="2000 seats at 26 meetings within half a year are 52000"):
        school.class_hour(seats=2000, size="0.001 V100", last_date="2027-12-31")


# Before the class


def test_who_is_done_before_the_class_may_use_its_seats(school):
    school.class_hour(start="15:30")  # a lease lives for 8 hours: until 15:00
    lease = school.ask("ben", "1 V100", course="open")
    assert lease.preempt_at is None
    school.go_to("2027-03-01 14:59")
    assert school.lease(lease).state in IN_FORCE
    school.go_to("2027-03-01 15:30")
    assert school.lease(lease).state not in IN_FORCE
    assert school.ask("ana").window is not None


def test_who_crosses_the_class_is_told_when_it_makes_way(school):
    school.class_hour()
    refused = school.refused("ben", "0.5 V100", course="open")
    assert isinstance(refused, PoolFull)
    lease = school.ask("ben", "0.5 V100", course="open", preemptible=True)
    assert lease.preempt_at == at("2027-03-01 10:00")
    school.go_to("2027-03-01 09:55")
    assert school.lease(lease).state in IN_FORCE
    school.go_to("2027-03-01 10:00")
    gone = school.lease(lease)
    assert gone.state == "freed"
    assert gone.reason == (
        "Taken back: the class hour of ml101 began at 10:00, and this slice was granted until then.\n"
        "What was in GPU memory is gone; variables and files stay. The next CUDA call of a notebook asks "
        "for a new slice."
    )


def test_what_fits_beside_the_class_stays(school):
    school.class_hour(seats=6)
    beside = school.ask("ben", "0.4 V100", course="open")
    assert beside.preempt_at is None
    above = school.ask("eve", "0.1 V100", course="open", preemptible=True)
    assert above.preempt_at == at("2027-03-01 10:00")
    school.go_to("2027-03-01 10:05")
    assert school.lease(beside).state in IN_FORCE
    assert school.lease(above).state not in IN_FORCE


def test_nothing_new_comes_onto_seats_from_the_lead_time_on(school):
    school.class_hour()
    school.go_to("2027-03-01 09:49")
    assert school.ask("ben", course="open", preemptible=True).preempt_at == at("2027-03-01 10:00")
    school.go_to("2027-03-01 09:50")
    assert isinstance(school.refused("eve", course="open", preemptible=True), PoolFull)


def test_a_member_who_comes_early_gets_a_seat(school):
    class_hour = school.class_hour()
    school.go_to("2027-03-01 09:49")
    assert isinstance(school.refused("ana"), Refused)  # the course has no quota of its own
    school.go_to("2027-03-01 09:50")
    lease = school.ask("ana")
    [window] = [w for w in school.windows(class_hour) if w.lead_at <= school.now]
    assert (lease.window, window.state) == (window.id, "planned")
    school.go_to("2027-03-01 10:00")
    assert school.lease(lease).state in IN_FORCE
    assert len(school.seats(window, "held")) == 9


def test_who_comes_early_takes_nothing_from_the_class_before(school):
    school.class_hour(start="08:30")
    school.class_hour(course="cv202")
    school.go_to("2027-03-01 09:55")  # the seats of the first class flowed back at 8:45
    early = school.ask("eve", course="cv202")
    assert early.window is not None
    school.go_to("2027-03-08 08:00", step=6 * HOUR)
    school.go_to("2027-03-08 08:35")
    for student in students(10):
        school.ask(student, path=student)
    school.go_to("2027-03-08 09:55")
    assert isinstance(school.refused("eve", course="cv202", path="b.ipynb"), PoolFull)


# The class


def test_fifty_students_have_fifty_seats():
    school = School()
    school.server(gpus=2)
    class_hour = school.class_hour(size="0.02 V100", seats=50)
    hog = school.ask("ben", "1 V100", course="open", preemptible=True)
    school.go_to("2027-03-01 10:00")
    leases = [school.ask(student, "0.02 V100") for student in students(50)]
    assert all(lease.window for lease in leases)
    assert school.lease(hog).state in IN_FORCE  # there was a GPU to spare
    assert isinstance(school.refused("late", "0.02 V100"), Refused)
    assert not school.seats(school.windows(class_hour)[0], "held")


def test_a_seat_is_beside_the_courses_quota():
    school = School(limit=100)
    school.server(gpus=2)
    school.class_hour()
    school.go_to("2027-03-01 10:00")
    assert school.ask("ana").window
    assert school.ask("ana", path="b.ipynb").window is None  # the second is the course's own
    assert isinstance(school.refused("ana", path="c.ipynb"), Refused)
    assert school.ask("ben").window
    assert school.ledger.book.holdings.settled["ml101"]["V100"] == 100


def test_the_size_must_be_that_of_the_seats(school):
    school.class_hour()
    school.go_to("2027-03-01 10:00")
    assert isinstance(school.refused("ana", "0.2 V100"), Refused)
    assert school.ask("ana", "1/10 V100").window
    assert school.ask("ben", "0.1 GPU").window


def test_a_stranger_gets_no_seat(school):
    school.class_hour()
    school.go_to("2027-03-01 10:00")
    assert isinstance(school.refused("eve", course="open"), PoolFull)


def test_who_waits_when_the_class_starts_is_seated(school):
    school.class_hour()
    hog = school.ask("ben", "1 V100", course="open", preemptible=True)
    school.go_to("2027-03-01 09:55")
    waiting = school.ask("ana", wait=3600)
    assert waiting.state == "queued"
    school.go_to("2027-03-01 10:00")
    assert school.lease(hog).state not in IN_FORCE
    assert school.lease(waiting).window


def test_a_seat_is_free_once_what_was_on_it_is_confirmed_gone(school):
    school.class_hour()
    hog = school.ask("ben", "1 V100", course="open", preemptible=True)
    school.holding_on.add(hog.id)
    school.go_to("2027-03-01 10:00")
    assert school.lease(hog).state == "quarantined"
    refused = school.refused("ana")
    assert refused.message == (
        "The class of ml101 has 10 seats for you and others, and they are being cleared: what ran there "
        "before has not stopped yet.\nTry again in a few seconds."
    )
    assert refused.retry_after == 5.0
    waiting = school.ask("ana", wait=60)
    assert waiting.state == "queued"
    school.holding_on.clear()
    school.sweep()
    assert school.lease(waiting).window


def test_a_student_who_restarts_gets_a_seat_again(school):
    school.class_hour()
    school.go_to("2027-03-01 10:00")
    leases = [school.ask(student, path=student) for student in students(10)]
    school.go_to("2027-03-01 10:40")
    school.release(leases[0])
    school.sweep()
    again = school.ask(leases[0].user, path="other.ipynb")
    assert again.window == leases[0].window


def test_a_seat_that_was_left_flows_back_a_while_later(school):
    class_hour = school.class_hour()
    school.go_to("2027-03-01 10:00")
    lease = school.ask("ana")
    school.go_to("2027-03-01 10:40")
    window = school.windows(class_hour)[0]
    assert len(school.seats(window)) == 1
    school.release(lease)
    school.sweep()
    school.go_to("2027-03-01 10:50")
    assert isinstance(school.refused("ben", "1 V100", course="open", preemptible=True), PoolFull)
    school.go_to("2027-03-01 10:55")
    assert not school.seats(window)
    assert school.ask("ben", "1 V100", course="open", preemptible=True)


def test_changing_the_kernel_keeps_the_student_on_a_seat(school):
    school.class_hour()
    school.go_to("2027-03-01 10:00")
    leases = {student: school.ask(student, path=student) for student in students(10)}
    [first, *_] = leases
    # All seats are taken: the old kernel's is ended for the new one.
    new = school.ask(first, path=first, wait=60)
    assert new.state == "queued"
    school.sweep()
    assert school.lease(new).window
    assert school.lease(leases[first]).state == "released"


def test_untaken_seats_flow_back_at_the_late_time(school):
    class_hour = school.class_hour()
    school.go_to("2027-03-01 10:10")
    taken = [school.ask(student) for student in students(3)]
    waiting = school.ask("ben", "0.7 V100", course="open", wait=3600)
    assert waiting.state == "queued"
    school.go_to("2027-03-01 10:15")
    assert school.lease(waiting).state in IN_FORCE
    assert len(school.seats(school.windows(class_hour)[0])) == 3
    assert school.events("class_hour_returned") == [{"seats": 7}]
    assert all(school.lease(lease).window for lease in taken)


def test_at_the_end_a_seat_becomes_an_ordinary_lease(school):
    class_hour = school.class_hour()
    school.go_to("2027-03-01 10:00")
    lease = school.ask("ana")
    assert school.ledger.book.holdings.settled["ml101"].get("V100", 0) == 0
    school.go_to("2027-03-01 11:30")
    after = school.lease(lease)
    assert (after.state in IN_FORCE, after.window) == (True, None)
    assert school.ledger.book.holdings.settled["ml101"]["V100"] == 100
    assert school.windows(class_hour)[0].state == "over"
    assert not school.seats(school.windows(class_hour)[0])


def test_who_sat_in_the_first_class_makes_way_for_the_second(school):
    school.class_hour()
    school.class_hour(course="cv202", start="11:30")
    school.go_to("2027-03-01 10:00")
    lease = school.ask("ana")
    assert lease.preempt_at == at("2027-03-01 11:30")
    school.go_to("2027-03-01 11:30")
    assert school.lease(lease).state not in IN_FORCE
    assert all(school.ask(student, course="cv202").window for student in students(10))
