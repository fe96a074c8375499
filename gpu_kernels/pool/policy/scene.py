"""All that a decision about the queue looks at, in one place: a dump of it replays the decision."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

from gpu_kernels.pool.policy.agenda import Agenda
from gpu_kernels.pool.policy.agenda_model import Stays, no_stays
from gpu_kernels.pool.policy.fairness import Policy, Shares
from gpu_kernels.pool.policy.model import Ask, Gpu, RuleBinds, Server
from gpu_kernels.pool.policy.placement import Catalogue, Index
from gpu_kernels.pool.policy.quota import Tree
from gpu_kernels.units import Slice

UTC = ZoneInfo("UTC")
Rules = Callable[[Ask, int], RuleBinds | None]
"""The rule of the user, or the budget, that stands against the ask, if one does; the number is how many more
leases the user was just given than the ledger knows of.
"""


def no_rules(_: Ask, __: int) -> None:
    """Everybody may have anything."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a request is overtaken, in milliseconds.

    ``promise``: after so long the first of its GPU class gets a promise. ``longest``: after so long it goes
    before those whose shares are lower, oldest first, so that no order of shares keeps anybody waiting for
    ever.
    """

    promise: int = 60_000
    longest: int = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Held:
    """What one lease holds. ``counted``: what it counts in its course's quota, where a slot counts once.
    ``until``: when it is over at the latest; ``FOREVER`` where nobody knows (its server has not confirmed
    its end).
    """

    lease: str
    user: str
    course: str
    gpu_class: str
    counted: int
    parts: tuple[tuple[int, Slice], ...]
    until: int


@dataclass(frozen=True, slots=True)
class Settings:
    """What decisions are made by. ``placement``: the policy by GPU class, "" for every other class.

    ``preemptible``: GPU classes whose leases may always be told to make way for class hours.
    """

    patience: Patience = field(default_factory=Patience)
    fairness: Policy = field(default_factory=Policy)
    placement: Mapping[str, str] = field(default_factory=dict)
    catalogue: Catalogue = field(default_factory=Catalogue)
    preemptible: frozenset[str] = frozenset()


def nothing_held() -> Iterable[Held]:
    return ()


def nothing_ending(_: str, __: str) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class Scene:
    """The pool at one instant.

    ``index`` and ``tree`` are the live ones: a decision changes them only within trials. ``servers`` may
    leave out those that are open, answer, and have no end. ``stays`` are the leases on a GPU for a decision
    of now, for which what is not confirmed is there; ``expected`` are those for looking ahead (the same by
    default). ``ending``: the thousandths of a class that leases of a course still count whose end their
    servers have not confirmed.
    """

    now: int
    index: Index
    tree: Tree
    shares: Shares
    servers: Mapping[str, Server] = field(default_factory=dict)
    agenda: Agenda = field(default_factory=Agenda)
    stays: Stays = no_stays
    expected: Stays | None = None
    held: Callable[[], Iterable[Held]] = nothing_held
    ending: Callable[[str, str], int] = nothing_ending
    rules: Rules = no_rules
    settings: Settings = field(default_factory=Settings)
    zone: ZoneInfo = UTC
    """The institution's wall clock, for texts."""

    def answers(self, gpu: Gpu) -> bool:
        """Whether the GPU can be used at all now."""
        server = self.servers.get(gpu.agent)
        return gpu.answering and (server is None or server.answering)
