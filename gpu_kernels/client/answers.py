"""What the controller answers, as values; one that lacks a field raises ``KeyError`` or ``TypeError``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


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
    ends_in: float | None = None
    """Seconds until its longest life is over."""
    preempt_in: float | None = None
    """Seconds until it makes way for a class hour; None where it need not."""
    class_hour: str | None = None
    """The class hour whose seat it has."""
    idle: float | None = None
    """Seconds since something was launched, while it is in force."""
    starts_in: float | None = None
    """Seconds until it will be granted by what is known now, while it is queued; None where nobody knows."""

    @property
    def queued(self) -> bool:
        return self.state == "queued"

    @property
    def place(self) -> str:
        """For a text: ``, number 3 in the queue, granted in about 20 min``; empty where it does not wait."""
        if not self.position:
            return ""
        minutes = None if self.starts_in is None else max(1, round(self.starts_in / 60))
        when = "" if minutes is None else f", granted in about {minutes} min"
        return f", number {self.position} in the queue{when}"

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
            ends_in=data.get("ends_in"),
            preempt_in=data.get("preempt_in"),
            class_hour=data.get("class_hour"),
            idle=data.get("use", {}).get("idle"),
            starts_in=data.get("starts_in"),
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

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Renewal:
        return cls(
            {item["id"]: item["expires_in"] for item in data["renewed"]},
            tuple(Lost(item["id"], item["state"], item["reason"]) for item in data["lost"]),
        )


@dataclass(frozen=True, slots=True)
class AssignedLease:
    """A lease that an agent should serve. ``expires_in`` is how long it may do so without another word."""

    id: str
    epoch: int
    secret_sha256: str
    expires_in: float
    slices: tuple[LeaseSlice, ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AssignedLease:
        return cls(
            data["id"], data["epoch"], data["secret_sha256"], data["expires_in"], _slices(data["slices"])
        )


@dataclass(frozen=True, slots=True)
class Assignment:
    """Everything that an agent should serve; what is not named here must not live.

    ``leases`` is all of it where ``lives`` is None. Otherwise it holds what came after the ``target_seq``
    that the agent had reported, and ``lives`` names the rest: lease id, epoch, seconds that it may be served
    without another word. ``incarnation`` is the ledger that counts ``target_seq``. ``held``: for how many
    seconds the controller had the request before it counted these.
    """

    target_seq: int
    leases: tuple[AssignedLease, ...]
    incarnation: str = ""
    lives: tuple[tuple[str, int, float], ...] | None = None
    held: float = 0.0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Assignment:
        in_full = "changes" not in data
        told = data["leases" if in_full else "changes"]
        return cls(
            data["target_seq"],
            tuple(AssignedLease.from_json(item) for item in told),
            data.get("incarnation", ""),
            None if in_full else tuple((item[0], item[1], item[2]) for item in data["lives"]),
            data.get("held", 0.0),
        )


@dataclass(frozen=True, slots=True)
class Page:
    """Some of many; ``next`` asks for those that follow, None where these are the last."""

    items: list[Any]
    next: str | None


def _slices(items: Iterable[Mapping[str, Any]]) -> tuple[LeaseSlice, ...]:
    return tuple(LeaseSlice(i["gpu"], i["index"], i["mib"], i["thousandths"]) for i in items)
