"""Server-sent events: who is told of what, how a stream goes on, and what becomes of slow readers."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from msgspec.json import decode, encode

from gpu_kernels.pool.ledger.state.rows import Event
from gpu_kernels.pool.service import events, feed
from gpu_kernels.pool.service.feed import Feed, Told
from gpu_kernels.resources.events import PoolEvent
from tests.pool.clock import WEEKDAYS, noon_zone, wall
from tests.pool.controller import (
    TOKENS,
    Agent,
    ThreadedController,
    error_of,
    reserve,
    token,
    until,
    write_tokens,
)


@dataclass(frozen=True)
class Message:
    name: str
    id: int
    data: dict[str, Any]


class Stream:
    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.iter_lines()

    def next(self) -> Message:
        fields: dict[str, str] = {}
        for line in self._lines:
            if not line:
                if "data" in fields:
                    if fields["event"] == "change":
                        assert encode(decode(fields["data"], type=PoolEvent)).decode() == fields["data"]
                    return Message(fields["event"], int(fields["id"]), json.loads(fields["data"]))
                fields = {}
            elif not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value
        raise EOFError

    def changes(self, count: int) -> list[tuple[str, str | None]]:
        """Kind and user of the next changes."""
        told = [self.next() for _ in range(count)]
        assert {message.name for message in told} == {"change"}
        return [(message.data["kind"], message.data["user"]) for message in told]


@contextmanager
def following(
    controller: ThreadedController, who: str, topics: str = "leases", after: int | None = None
) -> Iterator[Stream]:
    headers = {"Authorization": f"token {token(who)}"}
    if after is not None:
        headers["Last-Event-ID"] = str(after)
    url = f"{controller.url}/api/v1/events"
    with httpx.stream("GET", url, params={"topics": topics}, headers=headers, timeout=60) as response:
        assert response.status_code == 200
        assert response.headers["x-accel-buffering"] == "no"
        stream = Stream(response)
        assert stream.next().name == "ready"
        yield stream


@pytest.fixture(autouse=True)
def quick_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT", 0.2)


def test_everyone_is_told_of_their_own_leases(controller: ThreadedController, agent: Agent) -> None:
    with following(controller, "ada") as stream:
        reserve(controller.client("bob"))
        lease = reserve(controller.client("ada"))
        agent.report([lease])
        agent.report([lease])
        controller.client("root").revoke(lease.id, "exam")
        told = [stream.next() for _ in range(4)]
    assert [message.data["kind"] for message in told] == ["reserved", "active", "revoked", "quarantined"]
    assert {message.data["subject"] for message in told} == {lease.id}
    assert told[2].data["detail"]["reason"] == "Taken back: exam"
    assert {message.data["actor"] for message in told} == {None}
    assert [message.id for message in told] == [message.data["id"] for message in told]


def test_members_are_told_that_their_course_has_changed_and_not_what(controller: ThreadedController) -> None:
    root = controller.client("root")
    with following(controller, "ada") as stream:
        root.set_limit("cv202", {"V100": 900})
        root.set_limit("ml101", {"V100": 90})
        rules = {"overrides": {"bob": {"max_leases": 0}}}
        controller.client("grace").set_course_rules("ml101", rules)
        told = [stream.next().data for _ in range(2)]
    assert [(each["kind"], each["subject"], each["course"]) for each in told] == [
        ("limit", "ml101", "ml101"),
        ("taught", "ml101", "ml101"),
    ]
    assert [(each["actor"], each["detail"]) for each in told] == [(None, {}), (None, {})]


def test_instructors_follow_their_course_and_admins_everything(
    controller: ThreadedController, agent: Agent
) -> None:
    with (
        following(controller, "grace", "course:ml101") as course,
        following(controller, "root", "pool") as pool,
    ):
        reserve(controller.client("eve"))
        reserve(controller.client("bob"))
        controller.client("root").set_limit("ml101", {"V100": 50})
        assert course.changes(2) == [("reserved", "bob"), ("limit", None)]
        told = [pool.next().data for _ in range(3)]
    assert [(event["kind"], event["actor"]) for event in told] == [
        ("reserved", "eve"),
        ("reserved", "bob"),
        ("limit", "root"),
    ]


@pytest.mark.parametrize(
    ("who", "topics"),
    [
        ("ada", "pool"),
        ("ada", "course:ml101"),
        ("grace", "leases,course:cv202"),
        ("dean", "pool"),
        ("gpu-server", "leases"),
    ],
)
def test_what_one_may_not_see_is_refused(controller: ThreadedController, who: str, topics: str) -> None:
    headers = {"Authorization": f"token {token(who)}"}
    url = f"{controller.url}/api/v1/events"
    assert error_of(httpx.get(url, params={"topics": topics}, headers=headers))["code"] == "forbidden"


@pytest.mark.parametrize(
    ("query", "header"), [({"topics": "gossip"}, ""), ({"after": "-1"}, ""), ({}, "x"), ({}, "1" * 40)]
)
def test_what_makes_no_sense_is_refused(
    controller: ThreadedController, query: dict[str, str], header: str
) -> None:
    headers = {"Authorization": f"token {token('ada')}", "Last-Event-ID": header}
    response = httpx.get(f"{controller.url}/api/v1/events", params=query, headers=headers)
    assert error_of(response)["code"] == "bad_request"


def test_a_stream_goes_on_where_another_one_ended(controller: ThreadedController, agent: Agent) -> None:
    ada = controller.client("ada")
    with following(controller, "ada") as stream:
        first = reserve(ada)
        seen = stream.next().id
    ada.release(first.id, first.holder)
    reserve(ada, "b.ipynb")
    with following(controller, "ada", after=seen) as stream:
        assert stream.changes(2) == [("draining", "ada"), ("reserved", "ada")]


def test_it_goes_on_over_a_restart_of_the_controller(tmp_path: Path) -> None:
    with ThreadedController(tmp_path / "state") as controller:
        Agent(controller.client("gpu-server")).register()
        with following(controller, "ada") as stream:
            reserve(controller.client("ada"))
            seen = stream.next().id
        reserve(controller.client("ada"), "b.ipynb")
        reserve(controller.client("bob"), "b.ipynb")
    again = ThreadedController(tmp_path / "state")
    with again as controller, following(controller, "ada", after=seen) as stream:
        assert stream.changes(1) == [("reserved", "ada")]
        reserve(controller.client("ada"), "c.ipynb")
        assert stream.changes(1) == [("reserved", "ada")]


def test_what_is_no_lease_is_told_anew_to_its_course_too(
    controller: ThreadedController, agent: Agent
) -> None:
    grace, zone = controller.client("grace"), noon_zone()
    first = wall(zone, 60)
    with following(controller, "grace", "course:ml101") as stream:
        made = grace.add_class_hour(
            course="ml101", size="0.02 V100", seats=3, weekdays=list(WEEKDAYS), start=f"{first:%H:%M}",
            minutes=60, time_zone=zone, last_date=f"{first:%Y-%m-%d}",
        )  # fmt: skip
        seen = stream.next()
    assert (seen.data["kind"], seen.data["subject"]) == ("class_hour_made", made.id)
    controller.app.service.desk.feed._ring.clear()
    with following(controller, "grace", "course:ml101", after=seen.id - 1) as stream:
        assert stream.next().data == seen.data


@pytest.mark.parametrize("after", [10**9, 0])
def test_one_that_is_too_far_behind_or_of_another_ledger_is_told_to_look_anew(
    controller: ThreadedController, agent: Agent, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setattr(feed, "MOST_REPLAYED", 1)
    controller.app.service.desk.feed._ring.clear()
    reserve(controller.client("ada"))
    with following(controller, "ada", after=after) as stream:
        assert stream.next().name == "reset"
        reserve(controller.client("ada"), "b.ipynb")
        assert stream.changes(1) == [("reserved", "ada")]


def test_one_user_may_have_eight_streams(controller: ThreadedController) -> None:
    headers = {"Authorization": f"token {token('ada')}"}
    with httpx.Client(headers=headers, base_url=controller.url) as client:
        streams = [client.stream("GET", "/api/v1/events") for _ in range(8)]
        for stream in streams:
            assert stream.__enter__().status_code == 200
        assert error_of(client.get("/api/v1/events"))["code"] == "too_many"
        for stream in streams:
            stream.__exit__(None, None, None)


def test_a_token_that_is_taken_back_ends_its_streams(
    controller: ThreadedController, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with following(controller, "ada") as stream:
        monkeypatch.delitem(TOKENS, "ada")
        write_tokens(tmp_path / "state" / "tokens.json")
        with pytest.raises(EOFError):
            stream.next()


async def always_rung(bell: object, seconds: float) -> bool:
    return True


@pytest.mark.parametrize("then", [{}, {"groups": ["ml101"], "scopes": ["custom:gpu:use"]}])
def test_a_right_that_is_taken_back_ends_its_streams_in_a_busy_pool_too(
    controller: ThreadedController, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, then: dict[str, Any]
) -> None:
    monkeypatch.setattr(events, "rung", always_rung)
    with following(controller, "grace", "course:ml101") as stream:
        monkeypatch.setitem(TOKENS, "grace", then)
        write_tokens(tmp_path / "state" / "tokens.json")
        with pytest.raises(EOFError):
            stream.next()


def test_streams_end_when_the_controller_stops(tmp_path: Path) -> None:
    with ThreadedController(tmp_path / "state") as controller, following(controller, "ada") as stream:
        controller.stop()
        with pytest.raises((EOFError, httpx.RemoteProtocolError)):
            stream.next()


def test_a_reader_that_takes_nothing_holds_nobody_up_and_is_given_up(
    controller: ThreadedController, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "FLUSH_WITHIN", 0.3)
    address = urlsplit(controller.url)
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        deaf.connect((address.hostname, address.port))
        head = "GET /api/v1/events?topics=pool HTTP/1.1\r\nHost: x\r\n"
        deaf.sendall(f"{head}Authorization: token {token('root')}\r\n\r\n".encode())
        begun = b""
        while b"ready" not in begun:
            part = deaf.recv(1000)
            assert part, begun
            begun += part
        told = [
            Told(Event(id=10**6 + n, at=0, actor="a", kind="k", subject="s" * 9000), None, None)
            for n in range(4000)
        ]
        service = controller.app.service
        controller._loop.call_soon_threadsafe(service.desk.feed.add, told)
        controller._loop.call_soon_threadsafe(service.bells.ring, [events.EVENTS])
        assert reserve(controller.client("ada")).in_force
        until(lambda: controller.long_polls() == 0, "the deaf one is given up")
        assert controller.client("ada").pool().queued == 0


def test_a_number_that_json_does_not_have_is_null_as_in_all_answers() -> None:
    told = events.message("change", 1, {"detail": {"share": float("inf"), "use": [float("nan"), 1.5]}})
    assert told.endswith(b'data: {"detail":{"share":null,"use":[null,1.5]}}\n\n')


def test_the_ring_forgets_the_oldest() -> None:
    ring = Feed()
    told = [
        Told(Event(id=n, at=0, actor="", kind="", subject=""), None, None)
        for n in range(1, feed.MOST_KEPT + 11)
    ]
    ring.add(told)
    assert ring.since(5) is None
    assert [item.event.id for item in ring.since(10) or ()] == [item.event.id for item in told[10:]]
    assert ring.since(feed.MOST_KEPT + 10) == ()
