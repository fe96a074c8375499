"""What the ledger tells of pool, courses, accounts and class hours is, byte for byte, JSON v1.

``json_v1/`` has the answers as they were first released: clients of other versions read these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec import ValidationError, convert
from msgspec.json import decode, encode

from gpu_kernels.pool.ledger import Transaction
from gpu_kernels.pool.ledger.commands import accounts, group_properties, instructor_rules, quotas
from gpu_kernels.pool.ledger.queries import account_views, class_hour_views, pool_views
from gpu_kernels.pool.policy.quota import Limits
from gpu_kernels.pool.service.identity import Identity
from gpu_kernels.pool.service.pool import course_view
from gpu_kernels.resources.accounts import AccountList, GroupsRead, QuotaOf, Removed
from gpu_kernels.resources.base import Resource
from gpu_kernels.resources.class_hours import ClassHour, ClassHourPage
from gpu_kernels.resources.courses import CourseList
from gpu_kernels.resources.pool import Pool
from tests.pool.school import MINUTE, School, at

pytestmark = pytest.mark.quick

RECORDED = Path(__file__).parent / "json_v1"


@pytest.fixture(scope="module")
def school() -> Iterator[School]:
    """A university with something in every field."""
    numbers = count(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("secrets.token_hex", lambda size: f"{next(numbers):0{2 * size}x}")
        yield _a_monday()


def _a_monday() -> School:
    school = School(limit=500)
    school.server(gpus=2)
    school.write(_found)
    school.sweep()
    school.class_hour(seats=3, except_dates=("2027-03-08",), lead_minutes=10)
    school.cancel(school.class_hour(course="cv202", seats=1))
    for number in range(2):
        school.ask(f"student{number}", path=f"{number}.ipynb")
    school.ask("ada", "0.2 V100", course="open")
    school.go_to("2027-03-01 08:59", step=60 * MINUTE)
    school.go_to("2027-03-01 09:55", step=MINUTE)
    school.ask("ada")
    school.now = at("2027-03-01 10:01") + MINUTE // 7
    school.sweep()
    return school


def _found(tx: Transaction) -> None:
    accounts.put_account(tx, "uni", actor="root", kind="institution", rules={"max_leases": 5})
    accounts.put_account(
        tx, "science", actor="root", kind="faculty", parent="uni", weight=1.5,
        rules={"hours_per_week": 40, "hours_rolling": {"hours": 2.5, "window": 24}},
    )  # fmt: skip
    rules = {
        "max_size": {"V100": 400, "": 200},
        "user_hours_per_week": 4,
        "user_hours_rolling": {"hours": 1, "window": 12},
        "longest_life": 7200,
        "idle": 600,
        "sizes": ["0.1 V100", "1/5 V100"],
        "paused": "Moving house “today”",
        "class_hours_per_week": 100,
        "course_limit": {"V100": 300},
        "overrides": {
            "ada": {"max_leases": None, "user_hours_per_week": 8, "until": "2027-04-01T00:00:00+00:00"}
        },
    }
    accounts.put_account(tx, "ml101", actor="root", kind="course", parent="science", rules={})
    accounts.put_account(tx, "math", actor="root", kind="faculty", parent="uni", rules=rules)
    accounts.put_account(tx, "cv202", actor="root", kind="course", parent="math", rules={"paused": None})
    quotas.put_quota(tx, "science", "V100", Limits(600, 300, 100, 900), actor="root")
    quotas.put_quota(tx, "math", "V100", Limits(2000), actor="root")
    instructor_rules.teach(tx, "ml101", {"hours_per_week": 10}, actor="grace")
    instructor_rules.teach(
        tx, "cv202", {"max_leases": 2, "overrides": {"eve": {"max_leases": 1}}}, actor="grace"
    )
    told = {"gpu_kind": "course", "gpu_idle": "20 min", "gpu_max_leases": "many"}
    group_properties.apply(tx, {"ml101": told})


STUDENT = Identity("student0", frozenset({"ml101"}), frozenset())
TEACHER = Identity("grace", frozenset({"ml101-instructors", "cv202-instructors"}), frozenset())
SIZES = {"": ("0.02", "0.1")}


def _first_class_hour(tx: Transaction) -> ClassHour:
    (row,) = (row for row in tx.book.class_hours.values() if row.course == "ml101")
    return class_hour_views.class_hour_view(tx, row)


def _class_hours(tx: Transaction) -> ClassHourPage:
    found = class_hour_views.class_hours(tx, lambda _: True, past=True, after=None, limit=9)
    return ClassHourPage(tuple(found))


ANSWERS: dict[str, Callable[[Transaction], Resource]] = {
    "pool": lambda tx: pool_views.pool(tx, SIZES),
    "courses": lambda tx: CourseList(tuple(course_view(tx, name, TEACHER) for name in ("cv202", "ml101"))),
    "course": lambda tx: course_view(tx, "ml101", STUDENT),
    "accounts": lambda tx: AccountList(
        tuple(account_views.account(tx, name) for name in account_views.accounts(tx))
    ),
    "quota": lambda tx: account_views.quota(tx, "science", "V100"),
    "class-hours": _class_hours,
    "class-hour": _first_class_hour,
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_the_ledger_tells_is_sent_as_in_the_first_release(school: School, name: str) -> None:
    recorded = (RECORDED / f"{name}.json").read_bytes().rstrip(b"\n")
    told = school.ledger.read(ANSWERS[name])
    assert encode(told) == recorded
    assert decode(recorded, type=type(told)) == told


def test_short_answers_are_sent_as_in_the_first_release() -> None:
    assert encode(Removed("ml101")) == b'{"removed":"ml101"}'
    assert encode(GroupsRead(2)) == b'{"faulty":2}'


READ: dict[str, type[Resource]] = {
    "pool": Pool,
    "courses": CourseList,
    "accounts": AccountList,
    "quota": QuotaOf,
    "class-hours": ClassHourPage,
}


@pytest.mark.parametrize("name", READ)
def test_what_a_newer_controller_adds_is_passed_over(name: str) -> None:
    recorded = json.loads((RECORDED / f"{name}.json").read_bytes())
    assert convert(_with_more(recorded), READ[name]) == convert(recorded, READ[name])


def _with_more(value: Any) -> Any:
    """With a field more in each object, but for those whose names are a user's words."""
    if isinstance(value, list):
        return [_with_more(item) for item in value]
    if not isinstance(value, dict):
        return value
    known = {name: _with_more(item) if name not in BY_NAME else item for name, item in value.items()}
    return {**known, "mood": "new"}


BY_NAME = ("rules", "taught_rules", "rules_in_force", "classes", "limit", "held", "quota")
"""Fields that hold whatever names there are."""


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("pool", {"queued": None}),
        ("pool", {"gpus": [{}]}),
        ("courses", {"courses": [{"name": "ml101"}]}),
        ("accounts", {"accounts": {}}),
        ("quota", {"nominal": -1}),
        ("class-hours", {"class_hours": [{"id": "a/b"}]}),
    ],
)
def test_what_is_none_of_these_is_not_read_as_one(name: str, wrong: dict[str, Any]) -> None:
    recorded = json.loads((RECORDED / f"{name}.json").read_bytes())
    with pytest.raises(ValidationError):
        convert({**recorded, **wrong}, READ[name])
