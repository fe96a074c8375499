"""The controller's API in types: what is asked, and what the answers hold. The clients send it.

Shapes are those of docs/reference/pool-api.md; an answer that lacks a field raises ``KeyError`` or
``TypeError``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote

T = TypeVar("T")

MAX_LONG_POLL = 30.0


@dataclass(frozen=True, slots=True)
class Slot:
    """What a lease is for. ``server`` is the Jupyter server's name ('' for a hub's default server)."""

    server: str
    path: str


@dataclass(frozen=True, slots=True)
class LeaseSlice:
    """A part of one GPU; ``gpu`` is its UUID, ``index`` its number on its server."""

    gpu: str
    index: int
    mib: int
    thousandths: int


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease as the controller tells it. ``secret`` is there for the owner only, while it is in force."""

    id: str
    state: str
    epoch: int
    user: str
    course: str
    size: str
    gpu_class: str | None
    device: str | None
    slot: Slot
    holder: str
    slices: tuple[LeaseSlice, ...]
    agent: str | None
    address: str | None
    secret: str | None = field(repr=False)
    position: int | None
    expires_in: float | None
    ttl: float
    reason: str | None
    created_at: str
    labels: Mapping[str, str]

    @property
    def queued(self) -> bool:
        return self.state == "queued"

    @property
    def in_force(self) -> bool:
        """Whether its owner may use its slices now."""
        return self.state in ("reserved", "active")

    @property
    def mib(self) -> int:
        return sum(part.mib for part in self.slices)

    @property
    def thousandths(self) -> int:
        return sum(part.thousandths for part in self.slices)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Lease:
        agent = data.get("agent") or {}
        return cls(
            id=data["id"],
            state=data["state"],
            epoch=data["epoch"],
            user=data["user"],
            course=data["course"],
            size=data["size"],
            gpu_class=data["gpu_class"],
            device=data["device"],
            slot=Slot(data["slot"]["server"], data["slot"]["path"]),
            holder=data["holder"],
            slices=_slices(data["slices"]),
            agent=agent.get("name"),
            address=agent.get("address"),
            secret=data.get("secret"),
            position=data["position"],
            expires_in=data["expires_in"],
            ttl=data["ttl"],
            reason=data["reason"],
            created_at=data["created_at"],
            labels=dict(data["labels"]),
        )


@dataclass(frozen=True, slots=True)
class Lost:
    """A lease that can no longer be renewed, and why."""

    id: str
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class Renewal:
    """``renewed`` holds the seconds each lease has left."""

    renewed: Mapping[str, float]
    lost: tuple[Lost, ...]


@dataclass(frozen=True, slots=True)
class AssignedLease:
    """A lease that an agent should serve. ``expires_in`` is how long it may do so without another word."""

    id: str
    epoch: int
    secret_sha256: str
    expires_in: float
    slices: tuple[LeaseSlice, ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    """Everything that an agent should serve; what is not named here must not live.

    ``leases`` is all of it where ``lives`` is None. Otherwise it holds what came after the ``target_seq``
    that the agent had reported, and ``lives`` names the rest: lease id, epoch, seconds that it may be served
    without another word. ``incarnation`` is the ledger that counts ``target_seq``.
    """

    target_seq: int
    leases: tuple[AssignedLease, ...]
    incarnation: str = ""
    lives: tuple[tuple[str, int, float], ...] | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One request; ``wait`` is how long the controller itself may take over it, on purpose."""

    method: str
    path: str
    body: Any = None
    params: Mapping[str, str] = field(default_factory=dict)
    wait: float = 0.0


Parsed = tuple[Call, Callable[[Any], T]]
"""A call, and how to read its answer."""


class Calls:
    """Every call of the API, for both clients."""

    @staticmethod
    def reserve(
        size: str,
        key: str,
        slot: Slot,
        holder: str,
        course: str | None,
        wait: float,
        labels: Mapping[str, str] | None,
    ) -> Parsed[Lease]:
        body = {
            "size": size,
            "key": key,
            "slot": {"server": slot.server, "path": slot.path},
            "holder": holder,
            "wait": wait,
            "labels": dict(labels or {}),
        }
        if course is not None:
            body["course"] = course
        return Call("POST", "/leases", body), Lease.from_json

    @staticmethod
    def get(lease_id: str, wait: float) -> Parsed[Lease]:
        wait = min(wait, MAX_LONG_POLL)
        params = {"wait": f"{wait:.3f}"} if wait > 0 else {}
        return Call("GET", _path("leases", lease_id), params=params, wait=wait), Lease.from_json

    @staticmethod
    def leases(course: str | None, everyone: bool) -> Parsed[list[Lease]]:
        params = {} if course is None else {"course": course}
        if everyone:
            params["all"] = "1"
        return Call("GET", "/leases", params=params), _lease_list

    @staticmethod
    def renew(leases: Iterable[tuple[str, int]]) -> Parsed[Renewal]:
        body = {"leases": [{"id": lease_id, "epoch": epoch} for lease_id, epoch in leases]}
        return Call("POST", "/leases/renew", body), _renewal

    @staticmethod
    def release(lease_id: str, holder: str) -> Parsed[Lease]:
        return Call("POST", _path("leases", lease_id, "release"), {"holder": holder}), Lease.from_json

    @staticmethod
    def release_server(server: str, user: str | None) -> Parsed[list[Lease]]:
        body = {"server": server}
        if user is not None:
            body["user"] = user
        return Call("POST", "/leases/release", body), _lease_list

    @staticmethod
    def revoke(lease_id: str, reason: str) -> Parsed[Lease]:
        return Call("POST", _path("leases", lease_id, "revoke"), {"reason": reason}), Lease.from_json

    @staticmethod
    def pool() -> Parsed[dict[str, Any]]:
        return Call("GET", "/pool"), dict

    @staticmethod
    def courses() -> Parsed[list[dict[str, Any]]]:
        return Call("GET", "/courses"), lambda answer: list(answer["courses"])

    @staticmethod
    def course(name: str) -> Parsed[dict[str, Any]]:
        return Call("GET", _path("courses", name)), dict

    @staticmethod
    def set_limit(course: str, limit: Mapping[str, int]) -> Parsed[dict[str, Any]]:
        body = {"limit": {gpu_class: {"thousandths": value} for gpu_class, value in limit.items()}}
        return Call("PUT", _path("courses", course), body), dict

    @staticmethod
    def register_agent(
        name: str,
        boot_id: str,
        address: str,
        version: str,
        gpus: Sequence[Mapping[str, Any]],
        fences_after: float,
    ) -> Parsed[dict[str, Any]]:
        body = {
            "boot_id": boot_id,
            "address": address,
            "version": version,
            "gpus": [dict(gpu) for gpu in gpus],
            "fences_after": fences_after,
        }
        return Call("PUT", _path("agents", name), body), dict

    @staticmethod
    def report_agent(
        name: str,
        boot_id: str,
        target_seq: int,
        leases: Sequence[Mapping[str, Any]],
        wait: float,
        incarnation: str,
        full: bool,
        epoch: int,
        outside: Sequence[Mapping[str, Any]],
    ) -> Parsed[Assignment]:
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
        return Call("POST", _path("agents", name, "report"), body, wait=wait), _assignment


def _path(*parts: str) -> str:
    return "/" + "/".join(quote(part, safe="") for part in parts)


def _slices(items: Iterable[Mapping[str, Any]]) -> tuple[LeaseSlice, ...]:
    return tuple(LeaseSlice(i["gpu"], i["index"], i["mib"], i["thousandths"]) for i in items)


def _lease_list(answer: Any) -> list[Lease]:
    return [Lease.from_json(item) for item in answer["leases"]]


def _renewal(answer: Any) -> Renewal:
    return Renewal(
        {item["id"]: item["expires_in"] for item in answer["renewed"]},
        tuple(Lost(item["id"], item["state"], item["reason"]) for item in answer["lost"]),
    )


def _assignment(answer: Any) -> Assignment:
    in_full = "changes" not in answer
    leases = tuple(
        AssignedLease(i["id"], i["epoch"], i["secret_sha256"], i["expires_in"], _slices(i["slices"]))
        for i in answer["leases" if in_full else "changes"]
    )
    lives = None if in_full else tuple((i[0], i[1], i[2]) for i in answer["lives"])
    target_seq, incarnation = answer["target_seq"], answer.get("incarnation", "")
    if type(target_seq) is not int or type(incarnation) is not str:
        raise TypeError("target_seq is a number and incarnation a text")
    return Assignment(target_seq, leases, incarnation, lives)
