"""What the policy sees: frozen snapshots of GPUs, servers, courses and requests, and what a decision says of
them. No clock, no I/O, no database; times are the store's, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpu_kernels.errors import Refused
from gpu_kernels.units import THOUSANDTHS, Size, Slice


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of the pool. ``answering``: its agent spoke lately, so that a slice of it can be used at
    all.
    """

    id: int
    agent: str
    index: int
    gpu_class: str
    allocatable_mib: int
    used_mib: int = 0
    used_thousandths: int = 0
    answering: bool = True

    @property
    def free_mib(self) -> int:
        return max(0, self.allocatable_mib - self.used_mib)

    @property
    def free_thousandths(self) -> int:
        return max(0, THOUSANDTHS - self.used_thousandths)

    @property
    def empty(self) -> bool:
        return self.used_mib == 0 and self.used_thousandths == 0

    def could_hold(self, part: Slice) -> bool:
        """Whether the slice would fit if nobody used the GPU."""
        return 1 <= part.mib <= self.allocatable_mib and 1 <= part.thousandths <= THOUSANDTHS

    def holds(self, part: Slice) -> bool:
        """Whether the slice fits now; both memory and share must."""
        fits = part.mib <= self.free_mib and part.thousandths <= self.free_thousandths
        return fits and self.could_hold(part)

    def with_part(self, part: Slice) -> Gpu:
        return replace(
            self,
            used_mib=self.used_mib + part.mib,
            used_thousandths=self.used_thousandths + part.thousandths,
        )

    def without_part(self, part: Slice) -> Gpu:
        return replace(
            self,
            used_mib=max(0, self.used_mib - part.mib),
            used_thousandths=max(0, self.used_thousandths - part.thousandths),
        )


@dataclass(frozen=True, slots=True)
class Server:
    """A GPU server as far as placing goes. ``standing``: ``open``, ``cordoned``, or ``draining``.

    ``ends_at``: it goes away then, so nothing is placed that cannot end before it. Times are the store's,
    in milliseconds.
    """

    name: str
    standing: str = "open"
    ends_at: int | None = None
    answering: bool = True

    def takes(self, until: int) -> bool:
        """Whether a lease may start here that lasts until then at the longest."""
        open_now = self.answering and self.standing == "open"
        return open_now and (self.ends_at is None or until <= self.ends_at)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a lease goes: slices of GPUs of one class on one agent.

    ``preempt_at``: it makes way for a class hour then; None where it may stay for its longest life.
    """

    agent: str
    gpu_class: str
    parts: tuple[tuple[Gpu, Slice], ...]
    preempt_at: int | None = None

    @property
    def thousandths(self) -> int:
        return sum(part.thousandths for _, part in self.parts)

    @property
    def mib(self) -> int:
        return sum(part.mib for _, part in self.parts)


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for a lease.

    ``turn`` is first come, first served. ``life`` is how long the lease may last at the most, in
    milliseconds: all predictions stand on it. ``asked_at`` is when it was asked for first: repeating a
    request does not change it. ``replaces`` is what the lease that this one would replace counts in its
    course, by GPU class: the slot counts once, so that much is not counted a second time; that one is over
    by ``replaced_until``. ``window`` is the class hour's window that is open for its course, if any.
    ``promised_at``: since when it holds a promise (see ``queue``). ``preemptible``: it agrees to make way for
    a class hour.
    """

    id: str
    course: str
    size: Size
    turn: tuple[int, str]
    replaces: Mapping[str, int] = field(default_factory=dict)
    user: str = ""
    life: int = 12 * 3600 * 1000
    asked_at: int = 0
    window: str | None = None
    promised_at: int | None = None
    preemptible: bool = False
    replaced_until: int = 0


@dataclass(frozen=True, slots=True)
class Promise:
    """GPUs of one server that a waiting request gets no later than ``at``."""

    ask: str
    agent: str
    gpu_class: str
    gpus: tuple[int, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Impossible:
    """No GPU of this pool could ever hold it."""


@dataclass(frozen=True, slots=True)
class QuotaBinds:
    """The account on the path from the course to the root that leaves the least room.

    ``kind``: ``institution``, ``faculty`` or ``course``. Amounts are thousandths of the class: ``most`` is
    what the account may hold now (its limit, or its nominal and what it may borrow), ``ending`` the part of
    ``held`` whose leases are over and that its server has not confirmed yet, ``promised`` what waiting
    requests are sure to get before. ``for_good``: it is more than the account may ever hold.
    """

    account: str
    kind: str
    gpu_class: str
    asked: int
    held: int
    most: int
    ending: int = 0
    promised: int = 0
    for_good: bool = False


@dataclass(frozen=True, slots=True)
class RuleBinds:
    """A rule for each user or a budget stands against it.

    ``rule``: its name as in ``rules``; ``whose``: ``user`` or ``course``. ``has`` and ``most`` are in the
    rule's own unit. ``until``: when it resets (a budget), None where it does not by itself. ``window``: the
    hours of a rolling budget; ``gpu_class``: the class of a size that is too large; ``says``: the text of a
    pause, or the sizes on offer.
    """

    rule: str
    whose: str
    account: str
    has: float
    most: float
    until: int | None = None
    window: int | None = None
    gpu_class: str | None = None
    says: str = ""


@dataclass(frozen=True, slots=True)
class TooFull:
    """The GPUs of one class that it might use and that have not enough left now.

    ``gpus`` of them answer, with ``used`` thousandths in use. Of those whose servers take it, ``best`` is the
    largest slice free on one (thousandths, MiB), ``empty`` the most unused GPUs on one server.
    """

    gpu_class: str
    gpus: int
    used: int
    best: tuple[int, int]
    empty: int


@dataclass(frozen=True, slots=True)
class KeptByPromise:
    """GPUs on which it would fit, and that an earlier request is to get at ``at``."""

    ask: str
    gpus: tuple[int, ...]
    at: int


@dataclass(frozen=True, slots=True)
class KeptBySeats:
    """GPUs on which it would fit, were they not kept for a class hour before it could end."""

    gpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ServerOut:
    """A server on which it might fit, and that takes nothing new that lasts so long.

    ``why``: ``silent``, ``cordoned``, ``draining``, or ``ending`` (at ``ends_at``).
    """

    agent: str
    why: str
    ends_at: int | None = None


Fact = Impossible | QuotaBinds | RuleBinds | TooFull | KeptByPromise | KeptBySeats | ServerOut
"""Why not now: what a decision found standing against a request, for ``why`` to put into words."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Either a placement, or why not now; ``may_wait`` says that waiting can help.

    ``held_by``: the first that stands against it: ``size`` (no GPU could ever hold it), ``quota``,
    ``rule`` or ``gpus``. ``facts`` are all that does, where they were asked for. ``promise`` is what the
    request is sure of. ``refusal`` is for who asks just now.
    """

    placement: Placement | None = None
    refusal: Refused | None = None
    may_wait: bool = False
    held_by: str = ""
    facts: tuple[Fact, ...] = ()
    promise: Promise | None = None
