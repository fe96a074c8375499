"""Who is next: the order of those who wait, by how much each has had of the pool of late.

An account's *use* of a GPU class is in thousandth-seconds, and halves every half-life. Its *share* is the
largest of its uses, each over what the pool has of that class, divided by the account's weight. From the root
down, the sibling with the lowest share is next, then in its course the user with the lowest share, then who
came first. Taking a place in the order is charged to the account, its ancestors and its user, as a grant is,
before the next place is given: so nobody fills the front of the queue at once.

All arithmetic on use is in whole numbers, so that a restart or a replay on another machine computes the same
to the last digit. ``settled`` is the one place that rounds: down, to a whole thousandth-second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from math import isqrt

from gpu_kernels.pool.policy.model import Ask

_BITS = 60
_ONE = 1 << _BITS
_STEP = 8
_STEPS = 5
_PER_LN2 = 1663314137230540311  # 2**60 / ln 2, rounded to the nearest whole number


def _powers() -> tuple[tuple[int, ...], ...]:
    """2 ** -(k / 256 ** level) for k below 256 and levels 1 to 5, in 60 bits, by square roots alone."""
    root, roots = _ONE >> 1, []
    for _ in range(_STEP * _STEPS):
        root = isqrt(root << _BITS)
        roots.append(root)
    tables = []
    for level in range(_STEPS):
        of_level = roots[_STEP * level : _STEP * (level + 1)]
        table = []
        for k in range(1 << _STEP):
            value = _ONE
            for bit, factor in enumerate(of_level):
                if k >> (_STEP - 1 - bit) & 1:
                    value = value * factor >> _BITS
            table.append(value)
        tables.append(tuple(table))
    return tuple(tables)


_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH = _powers()


def left(elapsed: int, half_life: int) -> int:
    """What is left of a whole after the time, in 2 ** -60; both in the same unit."""
    if elapsed <= 0:
        return _ONE
    halvings, rest = divmod((elapsed << 40) // half_life, 1 << 40)
    if halvings >= _BITS:
        return 0
    value = _FIRST[rest >> 32] * _SECOND[rest >> 24 & 255] >> _BITS
    value = value * _THIRD[rest >> 16 & 255] >> _BITS
    value = value * _FOURTH[rest >> 8 & 255] >> _BITS
    return (value * _FIFTH[rest & 255] >> _BITS) >> halvings


def settled(use: int, held: int, elapsed: int, half_life: int) -> int:
    """The use after ``elapsed`` milliseconds in which ``held`` thousandths were held all the time.

    What is used decays while it is being used: the integral of 2 ** -(t / half_life).
    """
    remains = left(elapsed, half_life)
    decayed = use * remains >> _BITS
    if not held or elapsed <= 0:
        return decayed
    return decayed + (held * half_life * _PER_LN2 * (_ONE - remains) // 1000 >> 2 * _BITS)


@dataclass(frozen=True, slots=True)
class Policy:
    """``half_life`` in milliseconds. ``entry_charge``: the seconds of its size that a grant costs at once."""

    half_life: int = 24 * 3600 * 1000
    entry_charge: int = 60

    def __post_init__(self) -> None:
        if self.half_life < 1000:
            raise ValueError(f"the half-life must be a second at least, not {self.half_life} ms")
        if self.entry_charge < 1:
            raise ValueError("without an entry charge one user could take the whole pool at once")


@dataclass(frozen=True, slots=True)
class Use:
    """A row of the shares: thousandth-seconds as of ``at``; ``user`` is empty for the account itself."""

    account: str
    user: str
    gpu_class: str
    usage: int
    at: int


Owner = tuple[str, str]
"""An account and a user of it, or '' for the account itself."""
Cost = Callable[[Ask], tuple[str, int]]
"""The GPU class that an ask will most likely be given, and how many thousandths of it."""


class Shares:
    """The use of all accounts and users, live.

    The rows hold what was used up to ``at``; since then each owner held ``held`` thousandths, which changes
    only together with the row: whoever changes it first writes the rows that ``settle`` returns.
    """

    def __init__(self, policy: Policy = Policy()) -> None:
        self.policy = policy
        self.capacity: dict[str, int] = {}
        """Thousandths by GPU class that the pool has."""
        self._parents: dict[str, str | None] = {}
        self._weights: dict[str, float] = {}
        self._uses: dict[Owner, dict[str, tuple[int, int]]] = {}
        self._held: dict[Owner, dict[str, int]] = {}

    def put_account(self, name: str, parent: str | None, weight: float = 1.0) -> None:
        if not weight > 0:
            raise ValueError(f"the weight of {name} must be above zero, not {weight}")
        self._parents[name] = parent
        self._weights[name] = weight

    def drop_account(self, name: str) -> None:
        self._parents.pop(name, None)
        self._weights.pop(name, None)

    def put(self, use: Use) -> None:
        self._uses.setdefault((use.account, use.user), {})[use.gpu_class] = (int(use.usage), use.at)

    def drop(self, account: str, user: str, gpu_class: str) -> None:
        uses = self._uses.get((account, user), {})
        uses.pop(gpu_class, None)
        if not uses:
            self._uses.pop((account, user), None)

    def hold(self, course: str, user: str, gpu_class: str, thousandths: int) -> None:
        """The user holds so many more (or, below zero, fewer) from the ``at`` of the rows on."""
        for owner in self.owners(course, user):
            held = self._held.setdefault(owner, {})
            held[gpu_class] = held.get(gpu_class, 0) + thousandths
            if not held[gpu_class]:
                del held[gpu_class]

    def owners(self, course: str, user: str) -> list[Owner]:
        """Who is charged for the user's use: the user in the course, and each account up to the root."""
        return [(course, user), *((name, "") for name in self.path(course))]

    def path(self, course: str) -> list[str]:
        """The course and the accounts above it, as far as they are known here."""
        path: list[str] = []
        name: str | None = course
        while name is not None and name not in path:
            path.append(name)
            name = self._parents.get(name)
            if name not in self._parents:
                break
        return path

    def children(self, account: str | None) -> list[str]:
        """The accounts right below it; for None those that have none above them."""
        return sorted(
            name
            for name, parent in self._parents.items()
            if (parent if parent in self._parents else None) == account
        )

    def users(self, course: str) -> list[str]:
        """The users of the course who have used something."""
        return sorted({user for account, user in (*self._uses, *self._held) if account == course and user})

    def settle(self, course: str, user: str, gpu_class: str, now: int, granted: int = 0) -> list[Use]:
        """The rows as of now, to be written before the user holds more or less of the class.

        ``granted``: thousandths that a grant adds; they are charged for at once.
        """
        entry = granted * self.policy.entry_charge
        return [
            Use(account, name, gpu_class, self.used(account, name, gpu_class, now) + entry, now)
            for account, name in self.owners(course, user)
        ]

    def used(self, account: str, user: str, gpu_class: str, now: int) -> int:
        """Decayed use in thousandth-seconds. A clock set back does not give anything back."""
        owner = (account, user)
        usage, at = self._uses.get(owner, {}).get(gpu_class, (0, now))
        held = self._held.get(owner, {}).get(gpu_class, 0)
        return settled(usage, held, now - at, self.policy.half_life)

    def uses(self, account: str, user: str, now: int) -> dict[str, int]:
        """Decayed use of each GPU class of which there is any."""
        owner = (account, user)
        half_life = self.policy.half_life
        held = self._held.get(owner, {})
        return {
            gpu_class: settled(usage, held.get(gpu_class, 0), now - at, half_life)
            for gpu_class, (usage, at) in self._uses.get(owner, {}).items()
        }

    def share(self, account: str, user: str, now: int) -> float:
        """The dominant share: seconds of the whole pool's class, by weight. A class that is gone counts as
        one GPU.
        """
        weight = self._weights.get(account, 1.0) if not user else 1.0
        return dominant(self.uses(account, user, now), self.capacity, weight)

    def order(self, asks: Iterable[Ask], cost: Cost, now: int) -> list[Ask]:
        """All asks in the order in which each is next; the same whatever order they come in."""
        root = _Node({}, self.capacity, 1.0)
        accounts: dict[str, _Node] = {}
        users: dict[Owner, _Node] = {}
        for ask in asks:
            owner = (ask.course, ask.user)
            node = users.get(owner)
            if node is None:
                course = accounts.get(ask.course) or self._grow(root, accounts, ask.course, now)
                node = users[owner] = _Node(self.uses(*owner, now), self.capacity, 1.0)
                course.children.append(node)
            node.own.append(ask)
        root.prepare()
        return list(root.drain(cost))

    def _grow(self, root: _Node, accounts: dict[str, _Node], course: str, now: int) -> _Node:
        """The course's node, made with those above it."""
        node = root
        for name in reversed(self.path(course)):
            below = accounts.get(name)
            if below is None:
                below = _Node(self.uses(name, "", now), self.capacity, self._weights.get(name, 1.0))
                accounts[name] = below
                node.children.append(below)
            node = below
        return node


def dominant(uses: Mapping[str, int], capacity: Mapping[str, int], weight: float) -> float:
    """The largest of the uses, each over what the pool has of the class, by weight."""
    most = 0.0
    for gpu_class, use in uses.items():
        share = use / (capacity.get(gpu_class) or 1000)
        if share > most:
            most = share
    return most / weight


class _Node:
    """An account, or a user of a course, with those below it in a heap by share and then by turn.

    Only the path of who was next is charged, so only the tops of the heaps on that path change.
    """

    __slots__ = ("_capacity", "_heap", "_uses", "_weight", "children", "own", "share")

    def __init__(self, uses: dict[str, int], capacity: Mapping[str, int], weight: float) -> None:
        self._uses = uses
        self._capacity = capacity
        self._weight = weight
        self._heap: list[tuple[float, tuple[int, str], _Node]] = []
        self.children: list[_Node] = []
        self.own: list[Ask] = []
        self.share = dominant(uses, capacity, weight)

    def prepare(self) -> tuple[int, str]:
        """Sort what is below; the turn of who is next."""
        if len(self.own) > 1:
            self.own.sort(key=_turn, reverse=True)
        self._heap = [(node.share, node.prepare(), node) for node in self.children]
        heapify(self._heap)
        return self._first()

    def drain(self, cost: Cost) -> Iterator[Ask]:
        while self._heap:
            path = [self]
            while path[-1]._heap:
                path.append(path[-1]._heap[0][2])
            ask = path[-1].own.pop()
            yield ask
            self._charge(path, *cost(ask))

    def _charge(self, path: list[_Node], gpu_class: str, amount: int) -> None:
        below: _Node | None = None
        for node in reversed(path):
            if below is not None and (below._heap or below.own):
                heapreplace(node._heap, (below.share, below._first(), below))
            elif below is not None:
                heappop(node._heap)
            use = node._uses[gpu_class] = node._uses.get(gpu_class, 0) + amount
            share = use / (self._capacity.get(gpu_class) or 1000) / node._weight
            if share > node.share:
                node.share = share
            below = node

    def _first(self) -> tuple[int, str]:
        return self._heap[0][1] if self._heap else self.own[-1].turn if self.own else (0, "")


def _turn(ask: Ask) -> tuple[int, str]:
    return ask.turn
