"""``jupyter gpu class-hours``: seats that are kept for a course at the same times each week."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import Any

from gpu_kernels.cli.tables import json_text, table
from gpu_kernels.client import PoolClient
from gpu_kernels.errors import InvalidRequest
from gpu_kernels.exits import Exit
from gpu_kernels.resources.class_hours import ClassHour, Meeting
from gpu_kernels.vocabulary import calendar

COLUMNS = ("class hour", "course", "seats", "when", "until", "next", "seats then")
EPILOG = """\
examples:
  jupyter gpu class-hours list
  jupyter gpu class-hours add ml101 --seats 30 --size "0.02 V100" --on "mon thu" \\
      --from 10:00 --to 11:30 --until 2027-07-15
  jupyter gpu class-hours cancel 4f0c9a1b2d3e4f50

Each meeting of the next half year has all of its seats when 'add' succeeds. A student who starts a GPU kernel
of that size from ten minutes before the class on gets a seat, beside what the course may hold otherwise.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows, reserves and cancels class hours; a course's instructors may change them."
    parser.epilog = EPILOG
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    shown = actions.add_parser("list", help="show class hours and how their seats stand")
    shown.add_argument("course", metavar="COURSE", nargs="?", help="of this course only")
    shown.add_argument("--past", action="store_true", help="include those that are over or cancelled")
    shown.add_argument("--json", action="store_true", help="for programs: one JSON object on standard output")
    _add_options(actions.add_parser("add", help="reserve seats at the same times each week"))
    cancelled = actions.add_parser("cancel", help="give all seats of a class hour back")
    cancelled.add_argument("id", metavar="ID", help="as 'list' shows it")


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("course", metavar="COURSE", help="the course, by the name of its group in the hub")
    parser.add_argument("--seats", metavar="N", type=int, required=True, help="how many students at once")
    parser.add_argument("--size", metavar="TEXT", required=True, help="of one seat, such as '0.02 V100'")
    parser.add_argument("--on", metavar="DAYS", required=True, help="weekdays, such as 'mon thu'")
    parser.add_argument("--from", metavar="HH:MM", dest="start", required=True, help="when the class starts")
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--to", metavar="HH:MM", dest="end", help="when it ends, on the same day")
    length.add_argument("--minutes", metavar="N", type=int, help="or how long it lasts")
    parser.add_argument("--until", metavar="DATE", required=True, help="the last date, such as 2027-07-15")
    parser.add_argument("--since", metavar="DATE", help="the first date; today if left out")
    parser.add_argument(
        "--except", metavar="DATE", dest="left_out", action="append", default=[],
        help="a date without class; again for others",
    )  # fmt: skip
    parser.add_argument(
        "--zone",
        metavar="NAME",
        help="time zone of the times, such as Europe/Berlin (default: the institution's)",
    )
    parser.add_argument(
        "--lead",
        metavar="N",
        type=int,
        default=10,
        help="minutes before the start when seats are kept free (10)",
    )
    parser.add_argument(
        "--late",
        metavar="N",
        type=int,
        default=15,
        help="minutes after the start when untaken seats become free for others (15)",
    )


def execute(options: argparse.Namespace) -> int:
    with PoolClient.from_environment() as client:
        if options.action == "list":
            found = client.class_hours(options.course, past=options.past)
            if options.json:
                print(json_text({"class_hours": found}))
                return Exit.OK
        elif options.action == "add":
            found = [client.add_class_hour(**wish(options))]
        else:
            found = [client.cancel_class_hour(options.id)]
    print(table(COLUMNS, rows(found)))
    return Exit.OK


def wish(options: argparse.Namespace) -> dict[str, Any]:
    """The request's body. Raises ``InvalidRequest`` for what is not even a weekday or a time."""
    days = calendar.parse_weekdays(options.on)
    body = {
        "course": options.course,
        "size": options.size,
        "seats": options.seats,
        "weekdays": [calendar.WEEKDAYS[int(day) - 1].lower() for day in days],
        "start": calendar.parse_clock(options.start),
        "end": None if options.end in (None, "24:00") else calendar.parse_clock(options.end, "end"),
        "minutes": options.minutes,
        "time_zone": options.zone,
        "first_date": options.since and _date(options.since, "--since"),
        "last_date": _date(options.until, "--until"),
        "except_dates": [_date(text, "--except") for text in options.left_out],
        "lead_minutes": options.lead,
        "late_minutes": options.late,
    }
    if options.end == "24:00":
        body["end"] = options.end
    return {name: value for name, value in body.items() if value is not None}


def _date(text: str, option: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise InvalidRequest(f"{option} must be a date such as 2027-07-15, not {text!r}.") from None


def rows(class_hours: Iterable[ClassHour]) -> Iterator[Sequence[str]]:
    for row in class_hours:
        days = ", ".join(day[:3].capitalize() for day in row.weekdays)
        following = row.meetings[0] if row.meetings else None
        yield (
            row.id,
            row.course,
            f"{row.seats} of {row.size}",
            f"{days} {row.start}, {row.minutes} min, {row.time_zone}",
            row.last_date,
            row.state if following is None else following.date,
            "" if following is None else seats_text(following),
        )


def seats_text(meeting: Meeting) -> str:
    """``30 planned``, or ``12 taken, 18 free``; and how many are short."""
    if meeting.state == "open":
        text = f"{meeting.taken} taken, {meeting.held} free"
    else:
        text = f"{meeting.planned + meeting.taken} planned"
    return f"{text}, {meeting.short} short" if meeting.short else text
