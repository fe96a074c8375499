"""Every call of the API as a ``Request``: what to send, and how to read the answer. Nothing here sends.

A call of several requests is a *script*: a generator that yields requests (and pauses), and is sent their
answers, or has their errors raised at the ``yield``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from gpu_kernels.client.answers import Assignment, Lease, Page, Renewal, Slot

T = TypeVar("T")
MAX_LONG_POLL = 30.0


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """One request. ``wait`` is how long the controller itself may take over it, on purpose. ``repeatable``:
    whether it may be sent again where it is not known if it was carried out.
    """

    method: str
    path: str
    read: Callable[[Any], T]
    body: Any = None
    params: Mapping[str, str] = field(default_factory=dict)
    wait: float = 0.0
    repeatable: bool = True


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing to send for so many seconds."""

    seconds: float


Script = Generator[Request[Any] | Pause, Any, T]


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
) -> Request[Lease]:
    """Ask for a lease: ``reserved``, or ``queued`` when ``wait`` > 0 seconds and nothing is free.
    ``preemptible``: it may be one that makes way for a class hour, and says when (``Lease.preempt_in``).

    Raises what was refused, e.g. ``CourseLimit``, ``PoolFull``, ``NoSuchClass``, ``InvalidSize``. The same
    key asks for the same lease. Whoever asks also renews and releases; ``reserve`` does all of that.
    """
    body = {
        "size": size,
        "key": key,
        "slot": {"server": slot.server, "path": slot.path},
        "holder": holder,
        "wait": wait,
        "labels": dict(labels or {}),
    }
    if preemptible:
        body["preemptible"] = True
    if course is not None:
        body["course"] = course
    return Request("POST", "/leases", Lease.from_json, body)


def get(lease_id: str, wait: float = 0.0) -> Request[Lease]:
    """The lease; with ``wait``, when it is no longer queued or after that time (30 seconds at most)."""
    wait = min(wait, MAX_LONG_POLL)
    params = {"wait": f"{wait:.3f}"} if wait > 0 else {}
    return Request("GET", _path("leases", lease_id), Lease.from_json, params=params, wait=wait)


def wait_for(lease: Lease, seconds: float) -> Script[Lease]:
    """Wait while ``lease`` is queued, at most so long; the lease as it then is."""
    end = time.monotonic() + seconds
    while lease.queued and (left := end - time.monotonic()) > 0:
        lease = yield get(lease.id, wait=left)
    return lease


def leases(course: str | None = None, *, everyone: bool = False, ended: bool = False) -> Script[list[Lease]]:
    """Own leases; those of a course for its instructor; everyone's for an admin. Newest first."""
    params = _params(course=course, all=everyone or None, ended=ended or None)
    return (yield from _all_pages(lambda more: Request("GET", "/leases", _leases_page, params=params | more)))


def renew(leases: Iterable[tuple[str, int]]) -> Request[Renewal]:
    """Renew all of these (id, epoch) in one call."""
    body = {"leases": [{"id": lease_id, "epoch": epoch} for lease_id, epoch in leases]}
    return Request("POST", "/leases/renew", Renewal.from_json, body)


def release(lease_id: str, holder: str) -> Request[Lease]:
    """Give a lease back; nothing changes when another holder has it now."""
    return Request("POST", _path("leases", lease_id, "release"), Lease.from_json, {"holder": holder})


def release_server(server: str, user: str | None = None) -> Request[list[Lease]]:
    """End all leases of a Jupyter server; for another ``user`` only with the pool admin's scope."""
    body = {"server": server}
    if user is not None:
        body["user"] = user
    return Request("POST", "/leases/release", _leases, body)


def revoke(lease_id: str, reason: str) -> Request[Lease]:
    """Take a lease back (pool admin)."""
    return Request("POST", _path("leases", lease_id, "revoke"), Lease.from_json, {"reason": reason})


def pool() -> Request[dict[str, Any]]:
    """GPU classes with sizes on offer, and GPUs with what they have and what of it is in use."""
    return Request("GET", "/pool", dict)


def courses() -> Request[list[dict[str, Any]]]:
    """The courses that one may see, with limits and what they hold."""
    return Request("GET", "/courses", lambda answer: list(answer["courses"]))


def course(name: str) -> Request[dict[str, Any]]:
    """One course, with its limit and what it holds."""
    return Request("GET", _path("courses", name), dict)


def set_limit(course: str, limit: Mapping[str, int]) -> Request[dict[str, Any]]:
    """Set what a course may hold at once: GPU class to thousandths."""
    body = {"limit": {gpu_class: {"thousandths": value} for gpu_class, value in limit.items()}}
    return Request("PUT", _path("courses", course), dict, body)


def class_hours(course: str | None = None, *, past: bool = False) -> Script[list[dict[str, Any]]]:
    """Class hours of one's courses, or of one, with their next meetings; with ``past``, those too that are
    over or cancelled.
    """
    params = _params(course=course, past=past or None)

    def page(more: dict[str, str]) -> Request[Page]:
        return Request("GET", "/class-hours", _class_hours_page, params=params | more)

    return (yield from _all_pages(page))


def class_hour(class_hour_id: str) -> Request[dict[str, Any]]:
    """One class hour, with all meetings of the next half year."""
    return Request("GET", _path("class-hours", class_hour_id), dict)


def add_class_hour(**fields: Any) -> Request[dict[str, Any]]:
    """Reserve a class hour; ``fields`` are those of the body. Raises ``ClassHourFull`` where seats lack."""
    return Request("POST", "/class-hours", dict, fields, repeatable=False)


def change_class_hour(class_hour_id: str, **fields: Any) -> Request[dict[str, Any]]:
    """Change these fields of a class hour; all of it is confirmed anew, or nothing changes."""
    return Request("PATCH", _path("class-hours", class_hour_id), dict, fields)


def cancel_class_hour(class_hour_id: str) -> Request[dict[str, Any]]:
    """Cancel a class hour: its seats flow back."""
    return Request("DELETE", _path("class-hours", class_hour_id), dict)


def agents() -> Request[list[dict[str, Any]]]:
    """All GPU servers (pool admin)."""
    return Request("GET", "/agents", lambda answer: list(answer["agents"]))


def register_agent(
    name: str,
    *,
    boot_id: str,
    address: str,
    version: str,
    gpus: Sequence[Mapping[str, Any]],
    fences_after: float = 0.0,
) -> Request[dict[str, Any]]:
    """Register an agent; leases that ran under another boot of it are revoked. ``fences_after``: seconds
    without an acknowledged report after which it has killed its workers by itself; 0: no promise.
    """
    body = {
        "boot_id": boot_id,
        "address": address,
        "version": version,
        "gpus": [dict(gpu) for gpu in gpus],
        "fences_after": fences_after,
    }
    return Request("PUT", _path("agents", name), dict, body)


def report_agent(
    name: str,
    *,
    boot_id: str,
    target_seq: int,
    leases: Sequence[Mapping[str, Any]],
    wait: float = 0.0,
    incarnation: str = "",
    full: bool = True,
    epoch: int = 0,
    outside: Sequence[Mapping[str, Any]] = (),
) -> Request[Assignment]:
    """Report the inventory; the answer is everything to serve, at once or when it changes within ``wait``.
    See docs/design/agent.md for the fields.
    """
    body = {
        "boot_id": boot_id,
        "target_seq": target_seq,
        "incarnation": incarnation,
        "full": full,
        "epoch": epoch,
        "wait": wait,
        "leases": [dict(lease) for lease in leases],
        "outside": [dict(entry) for entry in outside],
    }
    return Request("POST", _path("agents", name, "report"), Assignment.from_json, body, wait=wait)


def _path(*parts: str) -> str:
    return "/" + "/".join(quote(part, safe="") for part in parts)


def _params(**values: object) -> dict[str, str]:
    """A query's fields, without those that are None."""
    return {name: "1" if value is True else str(value) for name, value in values.items() if value is not None}


def _all_pages(page: Callable[[dict[str, str]], Request[Page]]) -> Script[list[Any]]:
    """Everything, page by page; ``page`` makes the request from the cursor's parameters."""
    found: list[Any] = []
    cursor: str | None = None
    while True:
        got: Page = yield page({} if cursor is None else {"after": cursor})
        found += got.items
        cursor = got.next
        if cursor is None:
            return found


def _leases(answer: Any) -> list[Lease]:
    return [Lease.from_json(item) for item in answer["leases"]]


def _class_hours_page(answer: Any) -> Page:
    return Page(list(answer["class_hours"]), answer.get("next"))


def _leases_page(answer: Any) -> Page:
    return Page(_leases(answer), answer.get("next"))
