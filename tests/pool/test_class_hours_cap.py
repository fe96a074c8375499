"""How much a course may book for its class hours."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_kernels.errors import Forbidden, InvalidRequest, TooMany
from gpu_kernels.pool.ledger.commands import accounts, instructor_rules
from gpu_kernels.pool.ledger.commands.class_hours import bookings
from tests.pool.school import MORNING, School

pytestmark = pytest.mark.quick

WHOLE_DAYS = replace(MORNING, seats=10, weekdays="12345", start="08:00", minutes=480)
"""The whole GPU on five days, for 40 GPU-hours a week of the 42 that are a quarter of it."""


@pytest.fixture
def school() -> School:
    made = School()
    made.server()
    return made


def book(school: School, pattern: bookings.Pattern) -> str:
    return school.write(lambda tx: bookings.create(tx, pattern, actor="grace")).id


def rule(school: School, **rules: object) -> None:
    school.write(lambda tx: accounts.set_rules(tx, "ml101", rules, actor="root"))


def test_a_course_books_a_quarter_of_the_pools_week_and_no_more(school: School) -> None:
    book(school, WHOLE_DAYS)
    with pytest.raises(TooMany) as caught:
        book(school, replace(MORNING, weekdays="6", minutes=180))
    assert caught.value.message.splitlines()[0] == (
        "ml101 would book 43 GPU-hours a week for class hours, and may book 42: a quarter of what the pool "
        "has of V100."
    )
    assert "Others of its class hours have 40 of that. Ask for 6 seats" in caught.value.message
    book(school, replace(MORNING, weekdays="6", minutes=180, seats=caught.value.details["fits"]))
    book(school, replace(WHOLE_DAYS, course="cv202", start="18:00", minutes=300))


def test_nobody_books_the_pool_for_half_of_each_day(school: School) -> None:
    half_of_each_day = replace(MORNING, weekdays="1234567", start="00:00", minutes=720)
    with pytest.raises(TooMany, match="84 GPU-hours a week"):
        book(school, half_of_each_day)


def test_class_hours_of_other_months_are_not_added_up(school: School) -> None:
    book(school, replace(WHOLE_DAYS, last_date="2027-03-28"))
    book(school, replace(WHOLE_DAYS, first_date="2027-03-29"))
    with pytest.raises(TooMany):
        book(school, replace(MORNING, weekdays="6", minutes=180, first_date="2027-03-20"))


def test_single_days_of_a_week_are_added_up(school: School) -> None:
    days = [f"2027-03-{day:02}" for day in range(8, 15)]
    whole = replace(MORNING, seats=10, weekdays="1234567", start="08:00", minutes=720)
    for day in days[:3]:
        book(school, replace(whole, first_date=day, last_date=day))
    for day in days[3:]:
        with pytest.raises(TooMany, match="48 GPU-hours a week"):
            book(school, replace(whole, first_date=day, last_date=day))


def test_a_grading_account_has_no_class_hours(school: School) -> None:
    school.write(lambda tx: accounts.put_account(tx, "ml101-grading", kind="course", actor="root"))
    with pytest.raises(InvalidRequest, match="Book them for ml101"):
        book(school, replace(MORNING, course="ml101-grading"))


def test_who_stands_above_says_how_much(school: School) -> None:
    rule(school, class_hours_per_week=10)
    with pytest.raises(TooMany, match=r"may book 10: by its rule class_hours_per_week"):
        book(school, WHOLE_DAYS)
    rule(school, class_hours_per_week=100)
    made = book(school, replace(WHOLE_DAYS, minutes=720))
    rule(school, class_hours_per_week=10)
    school.write(lambda tx: bookings.change(tx, made, {"minutes": 480}, actor="grace"))
    with pytest.raises(TooMany):
        school.write(lambda tx: bookings.change(tx, made, {"minutes": 500}, actor="grace"))
    with pytest.raises(Forbidden, match="class_hours_per_week"):
        school.write(
            lambda tx: instructor_rules.teach(tx, "ml101", {"class_hours_per_week": 5}, actor="grace")
        )
