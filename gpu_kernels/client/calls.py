"""The calls of users and instructors: what to send, and how to read the answer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import asdict

from gpu_kernels.client.requests import Page, Request, Script, all_pages, path_of, query_of
from gpu_kernels.resources.base import reader
from gpu_kernels.resources.class_hours import ClassHour, ClassHourPage
from gpu_kernels.resources.courses import Course, CourseList
from gpu_kernels.resources.leases import Lease, LeaseList, LeasePage, Renewal, Slot, Why
from gpu_kernels.resources.pool import Pool
from gpu_kernels.resources.usage import Timeline, Usage

MAX_LONG_POLL = 30.0
_lease = reader(Lease)
_leases = reader(LeaseList)
_lease_page = reader(LeasePage)
_courses = reader(CourseList)
_course = reader(Course)
_class_hour = reader(ClassHour)
_class_hour_page = reader(ClassHourPage)


def ask(
    size: str,
    *,
    key: str,
    slot: Slot,
    holder: str,
    course: str | None = None,
    wait: float = 0.0,
    labels: Mapping[str, str] | None = None,
    preemptible: bool = False,
    wait_for_course: bool = False,
) -> Request[Lease]:
    """Ask for a lease: ``reserved``, or ``queued`` when ``wait`` > 0 and nothing is free. Whoever asks also
    renews and releases; ``reserve`` does all of that.

    Args:
        size: What to reserve, as ``parse_size`` reads it.
        key: The same key asks for the same lease, however often it is sent.
        slot: What the lease is for; a second lease for a slot replaces the first.
        holder: Who uses it; only the present holder's release counts.
        course: The course to charge; may be left out by who is in one alone.
        wait: Seconds to stand in the queue.
        labels: Texts by name, kept with the lease.
        preemptible: It may be one that makes way for a class hour, and says when (``Lease.preempt_in``).
        wait_for_course: It is queued also while the course holds all that it may, instead of refused.

    Raises:
        InvalidSize: The size cannot be read.
        CourseAmbiguous: No course was named, and the user has none, or several.
        Refused: It cannot be granted: ``CourseLimit``, ``PoolFull``, ``NoSuchClass`` and others.
        KeyReused: The key is of a living lease that was asked for in other words.
    """
    body = {
        "size": size,
        "key": key,
        "slot": asdict(slot),
        "holder": holder,
        "wait": wait,
        "labels": dict(labels or {}),
    }
    if preemptible:
        body["preemptible"] = True
    if wait_for_course:
        body["wait_for_course"] = True
    if course is not None:
        body["course"] = course
    return Request("POST", "/leases", _lease, body)


def get(lease_id: str, wait: float = 0.0) -> Request[Lease]:
    """The lease; with ``wait``, when it is no longer queued or after that time (30 seconds at most)."""
    wait = min(wait, MAX_LONG_POLL)
    params = {"wait": f"{wait:.3f}"} if wait > 0 else {}
    return Request("GET", path_of("leases", lease_id), _lease, params=params, wait=wait)


def wait_for(lease: Lease, seconds: float) -> Script[Lease]:
    """Wait while ``lease`` is queued, at most so many seconds; the lease as it then is."""
    end = time.monotonic() + seconds
    while lease.queued and (left := end - time.monotonic()) > 0:
        lease = yield get(lease.id, wait=left)
    return lease


def leases(
    course: str | None = None, *, user: str | None = None, everyone: bool = False, ended: bool = False
) -> Script[list[Lease]]:
    """Leases, newest first: one's own; those of a ``course`` for its instructor; a ``user``'s or
    ``everyone``'s for an admin. Those that hold a slice or wait for one; with ``ended``, the ended ones too.
    """
    params = query_of(course=course, user=user, all=everyone or None, ended=ended or None)
    return (yield from all_pages(lambda more: Request("GET", "/leases", _leases_page, params=params | more)))


def renew(leases: Iterable[tuple[str, int]]) -> Request[Renewal]:
    """Renew all of these (id, epoch) in one call; which live on, and for how many seconds, and which are
    lost.
    """
    body = {"leases": [{"id": lease_id, "epoch": epoch} for lease_id, epoch in leases]}
    return Request("POST", "/leases/renew", reader(Renewal), body)


def release(lease_id: str, holder: str) -> Request[Lease]:
    """Give a lease back; nothing changes when another holder has it now. Repeating it is harmless.

    Raises:
        UnknownLease: There is no such lease, or it is another user's.
    """
    return Request("POST", path_of("leases", lease_id, "release"), _lease, {"holder": holder})


def release_holder(holder: str) -> Script[None]:
    """Give back whatever this holder got: for who does not know the lease, since its answer never came."""
    mine: list[Lease] = yield from leases()
    for lease in mine:
        if lease.holder == holder:
            yield release(lease.id, holder)


def release_server(server: str, user: str | None = None) -> Request[list[Lease]]:
    """End all leases of a Jupyter server; for another ``user`` only with the pool admin's scope."""
    body = {"server": server}
    if user is not None:
        body["user"] = user
    return Request("POST", "/leases/release", leases_in, body)


def revoke(lease_id: str, reason: str) -> Request[Lease]:
    """Take a lease back (pool admin); its user reads the ``reason``."""
    return Request("POST", path_of("leases", lease_id, "revoke"), _lease, {"reason": reason})


def why(lease_id: str) -> Request[Why]:
    """Why a lease waits, and when it may start; for admins with all that was compared."""
    return Request("GET", path_of("leases", lease_id, "why"), reader(Why))


def usage(
    *,
    since: str | None = None,
    until: str | None = None,
    course: str | None = None,
    user: str | None = None,
    by: Iterable[str] = ("course", "gpu_class"),
    time_zone: str = "UTC",
) -> Request[Usage]:
    """Sums of usage in [since, until), by some of course, user, gpu_class, week. Times are ISO 8601 dates or
    instants; by default the last 30 days. One's own, unless one may see others'. Each sum has
    ``gpu_hours`` (used), ``held_gpu_hours`` (counted from the grant) and ``gib_hours`` (of memory).
    """
    params = _period(since, until, course, user, time_zone) | {"by": ",".join(by)}
    return Request("GET", "/usage", reader(Usage), params=params)


def timeline(
    *,
    since: str | None = None,
    until: str | None = None,
    course: str | None = None,
    user: str | None = None,
    step: int = 3600,
) -> Request[Timeline]:
    """What was held and used on average in steps of ``step`` seconds, in thousandths by GPU class."""
    params = _period(since, until, course, user, "UTC") | {"step": str(step)}
    return Request("GET", "/usage/timeline", reader(Timeline), params=params)


def usage_table(
    *,
    since: str | None = None,
    until: str | None = None,
    course: str | None = None,
    user: str | None = None,
    own: bool = False,
    time_zone: str = "UTC",
) -> Request[str]:
    """The same period's slices as comma-separated values, one line a slice, newest first. ``own``: none of
    others', though they may be seen.
    """
    params = _period(since, until, course, user, time_zone) | query_of(own=own or None)
    return Request("GET", "/usage.csv", str, params=params, plain=True)


def _period(
    since: str | None, until: str | None, course: str | None, user: str | None, time_zone: str
) -> dict[str, str]:
    asked = {"from": since, "to": until, "course": course, "user": user, "time_zone": time_zone}
    return query_of(**asked)


def pool() -> Request[Pool]:
    """GPU classes with sizes on offer, and GPUs with what they have and what of it is in use."""
    return Request("GET", "/pool", reader(Pool))


def courses() -> Request[list[Course]]:
    """The courses that one may see, with limits and what they hold."""
    return Request("GET", "/courses", lambda answer: list(_courses(answer).courses))


def course(name: str) -> Request[Course]:
    """One course, with its limit and what it holds."""
    return Request("GET", path_of("courses", name), _course)


def set_limit(course: str, limit: Mapping[str, int]) -> Request[Course]:
    """Set what a course may hold at once, for its instructor.

    Args:
        course: The course's name.
        limit: Thousandths of a GPU by GPU class: ``{"V100": 500}`` is half of one.

    Raises:
        NotAMember: The user is no instructor of the course.
        UnknownCourse: There is no such course.
    """
    body = {"limit": {gpu_class: {"thousandths": value} for gpu_class, value in limit.items()}}
    return Request("PUT", path_of("courses", course), _course, body)


def class_hours(course: str | None = None, *, past: bool = False) -> Script[list[ClassHour]]:
    """Class hours of one's courses, or of one, with their next meetings; with ``past``, those too that are
    over or cancelled.
    """
    params = query_of(course=course, past=past or None)

    def page(more: dict[str, str]) -> Request[Page[ClassHour]]:
        return Request("GET", "/class-hours", _class_hours_page, params=params | more)

    return (yield from all_pages(page))


def class_hour(class_hour_id: str) -> Request[ClassHour]:
    """One class hour, with all meetings of the next half year."""
    return Request("GET", path_of("class-hours", class_hour_id), _class_hour)


def add_class_hour(**fields: Any) -> Request[ClassHour]:
    """Reserve a class hour; ``fields`` are those of the body of ``POST /class-hours``.

    Raises:
        ClassHourFull: Its seats do not fit beside what is there; ``details`` says how many would.
    """
    return Request("POST", "/class-hours", _class_hour, fields, repeatable=False)


def change_class_hour(class_hour_id: str, **fields: Any) -> Request[ClassHour]:
    """Change these fields of a class hour; all of it is confirmed anew, or nothing changes."""
    return Request("PATCH", path_of("class-hours", class_hour_id), _class_hour, fields)


def cancel_class_hour(class_hour_id: str) -> Request[ClassHour]:
    """Cancel a class hour: its seats return to the pool."""
    return Request("DELETE", path_of("class-hours", class_hour_id), _class_hour)


def leases_in(answer: Any) -> list[Lease]:
    return list(_leases(answer).leases)


def _class_hours_page(answer: Any) -> Page[ClassHour]:
    page = _class_hour_page(answer)
    return Page(page.class_hours, page.next)


def _leases_page(answer: Any) -> Page[Lease]:
    page = _lease_page(answer)
    return Page(page.leases, page.next)
