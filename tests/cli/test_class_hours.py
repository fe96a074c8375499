from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpu_kernels.cli.class_hours import seats_text
from gpu_kernels.exits import Exit
from gpu_kernels.resources.class_hours import Meeting
from tests.cli.command_line import Run, command_line
from tests.pool.clock import noon_zone, wall
from tests.pool.controller import Agent, ThreadedController

ZONE = noon_zone()
ADD = (
    "add", "ml101", "--seats", "30", "--size", "0.02 V100", "--on", "mon tue wed thu fri sat sun",
    "--from", "15:00", "--to", "16:30", "--until", f"{wall(ZONE, 9 * 24 * 60):%Y-%m-%d}", "--zone", ZONE,
)  # fmt: skip


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run ``jupyter gpu class-hours`` as somebody, against a real controller; the exit status."""
    with ThreadedController(tmp_path / "state") as controller:
        Agent(controller.client("gpu-server")).register()
        yield command_line(controller, monkeypatch, "class-hours")


def test_an_instructor_reserves_shows_and_cancels(run, capsys):
    assert run("grace", *ADD) == Exit.OK
    head, row = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["class", "hour", "course"]
    assert "30 of 0.02 V100" in row
    assert f"Sun 15:00, 90 min, {ZONE}" in row
    assert row.endswith("30 planned")
    class_hour = row.split()[0]
    assert run("ada", "list", "ml101", "--json") == Exit.OK
    [told] = json.loads(capsys.readouterr().out)["class_hours"]
    assert told["id"] == class_hour
    assert run("grace", "cancel", class_hour) == Exit.OK
    assert "cancelled" in capsys.readouterr().out
    assert run("ada", "list") == Exit.OK
    assert "(none)" in capsys.readouterr().out
    assert run("ada", "list", "--past") == Exit.OK
    assert class_hour in capsys.readouterr().out


def test_more_seats_than_fit_are_refused_for_now_with_what_would_fit(run, capsys):
    assert run("grace", *[word if word != "30" else "51" for word in ADD]) == Exit.TEMPORARY
    assert "You can ask for 50 seats" in capsys.readouterr().err


def test_a_member_who_does_not_teach_may_not_reserve(run, capsys):
    assert run("ada", *ADD) == Exit.NO_PERMISSION
    assert "its instructors may" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("instead_of", "by", "text"),
    [
        ("15:00", "25:00", "no '25:00' on a clock"),
        ("16:30", "14:00", "not after the start"),
        ("mon tue wed thu fri sat sun", "someday", "'someday' is not a weekday"),
        (ZONE, "Europe/Atlantis", "no time zone"),
        ("30", "0", "at least 1"),
    ],
)
def test_what_cannot_be_read_is_a_usage_error(run, capsys, instead_of, by, text):
    assert run("grace", *[by if word == instead_of else word for word in ADD]) == Exit.USAGE
    assert text in capsys.readouterr().err


def test_a_date_that_cannot_be_read_is_named_by_its_option(run, capsys):
    assert run("grace", *ADD, "--except", "6.5.2027") == Exit.USAGE
    assert "--except must be a date such as 2027-07-15, not '6.5.2027'" in capsys.readouterr().err


def test_how_seats_are_told():
    meeting = Meeting(
        date="2027-05-06", starts_at="2027-05-06T08:00:00.000+00:00", ends_at="2027-05-06T09:30:00.000+00:00",
        state="open", planned=0, held=18, taken=12, short=0,
    )  # fmt: skip
    assert seats_text(meeting) == "12 taken, 18 free"
    assert seats_text(replace(meeting, state="planned", planned=18, short=3)) == "30 planned, 3 short"
