"""Class hours over HTTP: who may do what, and a student who comes to class."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from gpu_kernels.cli import main
from gpu_kernels.client import PoolClient
from gpu_kernels.errors import (
    ClassHourFull,
    CourseLimit,
    Forbidden,
    InvalidRequest,
    InvalidSize,
    NoSuchClass,
    NotAMember,
    PoolError,
    UnknownClassHour,
)
from gpu_kernels.magics.report import look
from tests.pool.clock import WEEKDAYS, noon_zone, wall
from tests.pool.controller import Agent, ThreadedController, error_of, reserve, token


@pytest.fixture
def grace(controller: ThreadedController, agent: Agent) -> PoolClient:
    """An instructor of ml101."""
    return controller.client("grace")


def wish(start_in: int = 60, **fields: Any) -> dict[str, Any]:
    """A class hour each day for a week; the first class begins in so many minutes."""
    zone = noon_zone()
    first = wall(zone, start_in)
    return {
        "course": "ml101",
        "size": "0.02 V100",
        "seats": 30,
        "weekdays": list(WEEKDAYS),
        "start": f"{first:%H:%M}",
        "minutes": 90,
        "time_zone": zone,
        "last_date": f"{wall(zone, 6 * 24 * 60):%Y-%m-%d}",
        **fields,
    }


def test_from_the_reservation_to_the_seat(
    controller: ThreadedController, agent: Agent, grace: PoolClient
) -> None:
    made = grace.add_class_hour(**wish(start_in=0))
    assert (made.state, made.created_by) == ("confirmed", "grace")
    assert [meeting.planned for meeting in made.meetings] == [30] * 7
    ada = controller.client("ada")
    lease = reserve(ada)
    assert lease.class_hour == made.id
    others = [reserve(ada, path=f"{n}.ipynb") for n in range(5)]  # these are the course's own
    assert {other.class_hour for other in others} == {None}
    with pytest.raises(CourseLimit):
        reserve(ada, path="one-more.ipynb")
    assert reserve(controller.client("bob")).class_hour == made.id
    [told] = ada.class_hours()
    assert told.meetings[0].taken == 2
    assert len(told.meetings) == 3
    ada.release(lease.id, lease.holder)
    agent.carry_out()
    assert grace.class_hour(made.id).meetings[0].taken == 1
    cancelled = grace.cancel_class_hour(made.id)
    assert (cancelled.state, cancelled.meetings) == ("cancelled", ())
    assert grace.cancel_class_hour(made.id).state == "cancelled"
    assert ada.class_hours() == []
    assert [told.id for told in ada.class_hours(past=True)] == [made.id]


def test_a_lease_that_crosses_a_class_is_told_so(controller: ThreadedController, grace: PoolClient) -> None:
    eve = controller.client("eve")
    grace.add_class_hour(**wish(start_in=60))
    with pytest.raises(PoolError) as caught:
        reserve(eve, size="1 V100")
    assert "kept for a class hour" in caught.value.message
    lease = reserve(eve, size="1 V100", preemptible=True)
    assert lease.preempt_in is not None
    assert 58 * 60 < lease.preempt_in <= 60 * 60


def test_what_does_not_fit_is_refused_with_numbers(grace: PoolClient) -> None:
    with pytest.raises(ClassHourFull) as caught:
        grace.add_class_hour(**wish(seats=51))
    assert caught.value.details["fits"] == 50
    assert "You can ask for 50 seats" in caught.value.message
    assert grace.class_hours() == []


def test_a_class_that_the_pool_has_not_is_no_question_of_the_time(grace: PoolClient) -> None:
    with pytest.raises(NoSuchClass, match="The pool has no H100") as refused:
        grace.add_class_hour(**wish(size="0.02 H100"))
    assert refused.value.details["classes"] == ["V100"]


def test_changing_one(grace: PoolClient) -> None:
    made = grace.add_class_hour(**wish())
    day = made.meetings[1].date
    changed = grace.change_class_hour(made.id, seats=10, except_dates=[day])
    assert (changed.seats, changed.except_dates) == (10, (day,))
    assert day not in [meeting.date for meeting in changed.meetings]
    with pytest.raises(ClassHourFull):
        grace.change_class_hour(made.id, seats=100)
    assert grace.class_hour(made.id).seats == 10


def test_who_may_see_and_change_them(controller: ThreadedController, grace: PoolClient) -> None:
    made = grace.add_class_hour(**wish())
    ada, eve, root, dean = (controller.client(name) for name in ("ada", "eve", "root", "dean"))
    assert [told.id for told in ada.class_hours("ml101")] == [made.id]
    assert eve.class_hours() == []
    with pytest.raises(NotAMember):
        eve.class_hours("ml101")
    with pytest.raises(UnknownClassHour):
        eve.class_hour(made.id)
    with pytest.raises(UnknownClassHour):
        eve.cancel_class_hour(made.id)
    with pytest.raises(UnknownClassHour):
        root.class_hour("nothing")
    with pytest.raises(NotAMember):
        eve.add_class_hour(**wish())
    for refused in (
        lambda: ada.add_class_hour(**wish()),
        lambda: ada.change_class_hour(made.id, seats=1),
        lambda: ada.cancel_class_hour(made.id),
    ):
        with pytest.raises(Forbidden, match="its instructors may"):
            refused()
    assert dean.change_class_hour(made.id, seats=20).seats == 20
    assert root.cancel_class_hour(made.id).state == "cancelled"


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"time_zone": "Europe/Atlantis"}, InvalidRequest, "no time zone"),
        ({"start": "25:00"}, InvalidRequest, "must be a time from 00:00 to 23:59"),
        ({"weekdays": ["someday"]}, InvalidRequest, "weekdays"),
        ({"weekdays": []}, InvalidRequest, "weekdays"),
        ({"seats": 0}, InvalidRequest, "at least 1"),
        ({"minutes": 1441}, InvalidRequest, "at most 1440"),
        ({"minutes": None}, InvalidRequest, "either 'end' or 'minutes'"),
        ({"end": "23:00"}, InvalidRequest, "either 'end' or 'minutes'"),
        ({"end": "00:01", "minutes": None, "start": "10:00"}, InvalidRequest, "not after the start"),
        ({"size": "2 V100"}, InvalidRequest, "one GPU at the most"),
        ({"size": "0,02 V100"}, InvalidSize, "0,02"),
        ({"last_date": "2020-01-01"}, InvalidRequest, "before the first"),
        ({"first_date": "2020-01-01", "last_date": "2020-01-31"}, InvalidRequest, "would be over"),
        ({"first_date": "2027-02-30"}, InvalidRequest, "no date"),
        ({"surprise": 1}, InvalidRequest, "surprise"),
    ],
)
def test_what_cannot_be_read_is_refused(
    grace: PoolClient, fields: dict[str, Any], error: type[PoolError], text: str
) -> None:
    body = {name: value for name, value in {**wish(), **fields}.items() if value is not None}
    with pytest.raises(error) as caught:
        grace.add_class_hour(**body)
    assert text in caught.value.message


def test_pages(controller: ThreadedController, grace: PoolClient) -> None:
    made = {grace.add_class_hour(**wish(seats=1)).id for _ in range(3)}
    headers = {"Authorization": f"token {token('ada')}"}
    seen: list[str] = []
    url = f"{controller.url}/api/v1/courses/ml101/class-hours?limit=2"
    while url:
        answer = httpx.get(url, headers=headers)
        seen += [told["id"] for told in answer.json()["class_hours"]]
        following = answer.json()["next"]
        url = f"{controller.url}/api/v1/class-hours?limit=2&after={following}" if following else ""
    assert sorted(seen) == sorted(made)
    wrong = httpx.get(f"{controller.url}/api/v1/class-hours?after=AAAA", headers=headers)
    assert error_of(wrong)["code"] == "bad_request"


def test_who_makes_way_reads_so_in_the_notebook_and_in_the_terminal(
    controller: ThreadedController, grace: PoolClient, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    grace.add_class_hour(**wish(start_in=60))
    lease = reserve(controller.client("eve"), size="1 V100", preemptible=True)
    environment = {"GPU_KERNELS_CONTROLLER": controller.url, "GPU_KERNELS_TOKEN": token("eve")}
    told = look({**environment, "GPU_KERNELS_LEASE": lease.id, "GPU_KERNELS_EPOCH": str(lease.epoch)})
    assert re.search(r"(5[0-9]|60) min, then it makes way for a class", repr(told))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        main(["status"])
    assert re.search(r"[0-9]+ s, for a class in [0-9]+ min", capsys.readouterr().out)
