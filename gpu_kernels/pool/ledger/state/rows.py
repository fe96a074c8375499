"""The ledger's rows: what a book holds in memory and a store keeps, field by column.

Each class is one table; ``TABLES`` lists them in an order in which foreign keys are met. Rows are frozen: a
change is a new row under the same key, put into the book by a transaction, so that undoing it is putting
the old one back. Times are milliseconds since 1970 by the store's clock. Nothing here computes: rules live
in ``policy``, transitions in ``commands.transitions``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, TypeVar

from gpu_kernels.units import Size

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A GPU server. ``epoch`` and ``target_seq`` only ever grow.

    ``standing``: ``open``, ``cordoned`` (nothing new), or ``draining`` (nothing new, and what is there ends
    by ``drain_by``). ``ends_at``: nothing is placed that cannot end before it. ``fences_after``:
    milliseconds without the controller after which the agent has killed its workers by itself; NULL where
    it promises nothing. ``counts_by``: the incarnation of the ledger whose ``target_seq`` the agent last
    reported by.
    """

    TABLE: ClassVar[str] = "agents"
    KEY: ClassVar[tuple[str, ...]] = ("name",)
    name: str
    owner: str
    boot_id: str
    address: str
    version: str
    epoch: int = 0
    target_seq: int = 0
    reported_seq: int = 0
    counts_by: str = ""
    registered_at: int
    reported_at: int
    standing: str = "open"
    drain_by: int | None = None
    ends_at: int | None = None
    fences_after: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentToken:
    """A token with which a GPU server speaks for the name ``agent`` and for no other. Only its SHA-256 is
    kept, in hex.
    """

    TABLE: ClassVar[str] = "agent_tokens"
    KEY: ClassVar[tuple[str, ...]] = ("sha256",)
    sha256: str
    agent: str
    created_by: str
    created_at: int

    @property
    def id(self) -> str:
        """What it is called where people see it: the beginning of its digest, which tells nothing of it."""
        return self.sha256[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU. What its agent says of it is ``offered*``; ``allocatable_mib`` is never below what is in use,
    and ``gpu_class`` stays while anything is in use. ``used_mib`` and ``used_thousandths`` are the sums of
    its open slices.
    """

    TABLE: ClassVar[str] = "gpus"
    KEY: ClassVar[tuple[str, ...]] = ("id",)
    id: int
    agent_name: str
    uuid: str
    index: int
    gpu_class: str
    device: str
    name: str
    total_mib: int
    offered: bool
    offered_class: str
    offered_mib: int
    allocatable_mib: int
    used_mib: int = 0
    used_thousandths: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A node of the quota tree: the institution (the root, no parent), a faculty, or a course.

    ``rules``: what ``policy.quota.Rules`` reads (caps for each user, budgets, longest life, idle time);
    what is absent comes from the parent. ``weight``: its share when it competes with its siblings.
    """

    TABLE: ClassVar[str] = "accounts"
    KEY: ClassVar[tuple[str, ...]] = ("name",)
    name: str
    kind: str
    parent: str | None = None
    weight: float = 1.0
    rules: Mapping[str, Any] = field(default_factory=dict)
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaughtRules:
    """What a course's instructors say of it themselves, on top of ``Account.rules``: as tight or tighter."""

    TABLE: ClassVar[str] = "taught_rules"
    KEY: ClassVar[tuple[str, ...]] = ("account",)
    account: str
    rules: Mapping[str, Any] = field(default_factory=dict)
    changed_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """An account's quota of one GPU class, in thousandths of a GPU; NULL is "no such limit"."""

    TABLE: ClassVar[str] = "quotas"
    KEY: ClassVar[tuple[str, ...]] = ("account", "gpu_class")
    account: str
    gpu_class: str
    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None
    hard_limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Decayed usage for fairness: ``usage`` GPU-thousandth-seconds as of ``at``, of an account or of a user
    in it (``user`` empty: the account itself).
    """

    TABLE: ClassVar[str] = "shares"
    KEY: ClassVar[tuple[str, ...]] = ("account", "user", "gpu_class")
    account: str
    user: str
    gpu_class: str
    usage: float
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupProperty:
    """A ``gpu_*`` property of a JupyterHub group as last read: the value in force (the last good one), and
    the fault of the newest text where that is bad.
    """

    TABLE: ClassVar[str] = "group_properties"
    KEY: ClassVar[tuple[str, ...]] = ("group", "name")
    group: str
    name: str
    value: str
    fault: str | None = None
    faulty_value: str | None = None
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassHour:
    """A weekly reservation of ``seats`` slices of ``size`` for a course, by the wall clock of
    ``time_zone``.

    ``weekdays``: digits, Monday is 1. ``start``: "HH:MM". Dates are ISO; ``except_dates`` are left out.
    """

    TABLE: ClassVar[str] = "class_hours"
    KEY: ClassVar[tuple[str, ...]] = ("id",)
    id: str
    course: str
    size: Size
    seats: int
    weekdays: str
    start: str
    minutes: int
    time_zone: str
    first_date: str
    last_date: str
    except_dates: tuple[str, ...] = ()
    lead_minutes: int = 10
    late_minutes: int = 15
    created_by: str
    created_at: int
    cancelled_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One meeting of a class hour. ``state``: ``planned``, ``open``, ``over``, ``cancelled``. ``short``:
    seats that could not be had (a server was lost).
    """

    TABLE: ClassVar[str] = "windows"
    KEY: ClassVar[tuple[str, ...]] = ("id",)
    id: str
    class_hour: str
    course: str
    starts_at: int
    ends_at: int
    lead_at: int
    late_at: int
    state: str = "planned"
    short: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A slice held on one GPU for a window. ``state``: ``planned`` (before the start), ``held`` (free for a
    member), ``taken`` (``lease_id`` has it), ``returned`` (back in the pool).
    """

    TABLE: ClassVar[str] = "seats"
    KEY: ClassVar[tuple[str, ...]] = ("window", "number")
    window: str
    number: int
    gpu_id: int
    mib: int
    thousandths: int
    state: str = "planned"
    lease_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A lease from its request to its end; see ``states`` for ``state`` and ``place``.

    ``size`` is text in a store's column. ``live_key`` and ``place`` are NULL once they name nothing any more.
    ``start_seq`` and ``end_seq`` are the agent's ``target_seq`` that says the lease is there, and that it is
    gone: they are the outbox of the deciding transaction. ``ends_at``: its longest life ends; ``preempt_at``:
    it makes way for a class hour then; ``preemptible``: its user agreed to that. ``busy_at``: when its
    launches last changed. ``promised_at``: since when its request holds a promise (see ``policy.queue``).
    """

    TABLE: ClassVar[str] = "leases"
    KEY: ClassVar[tuple[str, ...]] = ("id",)
    id: str
    state: str
    reason: str | None = None
    user: str
    course: str
    size: Size
    key: str
    live_key: str | None
    body_hash: str
    server: str
    path: str
    place: str | None
    holder: str
    labels: Mapping[str, str] = field(default_factory=dict)
    turn: int
    created_at: int
    asked_at: int
    give_up_at: int
    promised_at: int | None = None
    granted_at: int | None = None
    active_at: int | None = None
    busy_at: int | None = None
    expires_at: int | None = None
    ends_at: int | None = None
    preempt_at: int | None = None
    preemptible: bool = False
    replaced_at: int | None = None
    ended_at: int | None = None
    window: str | None = None
    agent_name: str | None = None
    epoch: int = 0
    start_seq: int | None = None
    end_seq: int | None = None
    gpu_class: str | None = None
    device: str | None = None
    thousandths: int = 0
    used_mib: int = 0
    peak_mib: int = 0
    sessions: int = 0
    launches: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """What a lease was given of one GPU, and the account of it: counted from ``started_at`` to ``ended_at``
    (NULL while it is), paid for from ``active_at`` on (NULL: nothing ever ran, it costs nothing).
    """

    TABLE: ClassVar[str] = "slices"
    KEY: ClassVar[tuple[str, ...]] = ("lease_id", "gpu_id")
    lease_id: str
    gpu_id: int
    gpu_uuid: str
    gpu_class: str
    user: str
    course: str
    mib: int
    thousandths: int
    started_at: int
    active_at: int | None = None
    ended_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The audit trail: who changed what, when. Only ever added; ``id`` grows."""

    TABLE: ClassVar[str] = "events"
    KEY: ClassVar[tuple[str, ...]] = ("id",)
    id: int
    at: int
    actor: str
    kind: str
    subject: str
    detail: Mapping[str, Any] = field(default_factory=dict)


Row = (
    Agent
    | AgentToken
    | Gpu
    | Account
    | TaughtRules
    | Quota
    | Share
    | GroupProperty
    | ClassHour
    | Window
    | Seat
    | Lease
    | Slice
    | Event
)
TABLES: tuple[type[Row], ...] = (
    Agent, AgentToken, Gpu, Account, TaughtRules, Quota, Share, GroupProperty, ClassHour, Window, Seat, Lease,
    Slice, Event,
)  # fmt: skip


def key_of(row: Row) -> Key:
    """The row's key in its table."""
    return tuple(getattr(row, name) for name in row.KEY)


R = TypeVar("R", bound=Row)
Column = tuple[Callable[[Any, Any], None], Callable[[Any], Any]]
_COLUMNS: Mapping[Any, Mapping[str, Column]] = {
    kind: {f.name: (vars(kind)[f.name].__set__, vars(kind)[f.name].__get__) for f in fields(kind)}
    for kind in TABLES
}
"""How each field's slot is set and read, past the guard of a frozen class."""


def changed(row: R, **values: Any) -> R:
    """A row like this one, but for these fields, a few times as fast as by ``dataclasses.replace``: every
    decision does it. Raises ``KeyError`` for a field that it does not have.
    """
    columns = _COLUMNS[type(row)]
    new = object.__new__(type(row))
    for put, get in columns.values():
        put(new, get(row))
    for name, value in values.items():
        columns[name][0](new, value)
    return new


class Change(NamedTuple):
    """A row before and after: made (``before`` None), changed, or gone (``after`` None). Both are of one
    table and key.
    """

    before: Row | None
    after: Row | None
