"""What each course may still take: a tree of accounts with a quota for each GPU class.

Vocabulary (amounts are thousandths of a GPU of one class; None is "no such limit"):

- *nominal*: what an account is sure of; *ceiling*: the most that it may use, the smaller of its hard limit
  and its nominal plus its borrowing limit. The root's nominal is what the pool has.
- *guaranteed*: the part of its nominal that it does not lend, and at least what its children are guaranteed.
  Where capacity shrank below that, all guarantees of a level shrink in proportion.
- *use*: what is held below an account. *Demand*: what is claimed of it, the use of a course and the sum of
  the children's claims of others. *Claim*: what an account takes of its parent, max(guaranteed, demand). So
  only what exceeds the guaranteed part reaches the parent, and idle guarantees are kept free of others.
- *room*: what a course may take now. Negative once a limit or the capacity fell below the use: a state that
  ends as leases end, and no error.

Rules of the arithmetic: at each account from a course to the root, what the course takes either leaves
demand <= ceiling, or adds nothing to the demand and leaves use <= ceiling. So use <= ceiling holds
everywhere after an admission, whatever was changed before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from gpu_kernels.errors import Conflict, InvalidRequest
from gpu_kernels.pool.policy.quota_node import Node, guarantee
from gpu_kernels.units import thousandths_text
from gpu_kernels.vocabulary.limits import (
    COURSE,
    EVERY_CLASS,
    FACULTY,
    INSTITUTION,
    KINDS,
    MOST,
    NOTHING,
    PASSING,
    Limits,
    check_limits,
    least,
)

__all__ = ["COURSE", "EVERY_CLASS", "FACULTY", "INSTITUTION", "KINDS", "MOST", "Level", "Limits", "Tree"]

MOST_LEVELS = 8
"""Accounts from the root to a course: more would be a mistake, and each costs every decision."""


@dataclass(frozen=True, slots=True)
class Level:
    """One account on the way from the root to a course, as a course meets it.

    ``room``: what this account alone leaves to the course now, None where it sets no limit. ``binding``:
    no other account leaves less.
    """

    account: str
    kind: str
    limits: Limits
    nominal: int
    guaranteed: int
    ceiling: int | None
    use: int
    demand: int
    room: int | None
    binding: bool = False


@dataclass(frozen=True, slots=True)
class _Account:
    name: str
    kind: str
    parent: str | None
    defaults: Mapping[str, int] = field(default_factory=dict)


class Tree:
    """The accounts of a pool with their quotas and uses. Not for several threads.

    A call that raises changes nothing. Uses change by ``add_use`` alone; what is derived from quotas is
    worked out again, for the whole class, at the first question after a change of accounts, quotas or
    capacity.
    """

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}
        self._quotas: dict[str, dict[str, Limits]] = {}
        self._capacity: dict[str, int] = {}
        self._uses: dict[str, dict[str, int]] = {}
        self._planes: dict[str, dict[str, Node]] = {}
        self._trials: list[list[tuple[str, str, int]]] = []

    # --- accounts and quotas

    def put_account(
        self, name: str, kind: str, parent: str | None = None, defaults: Mapping[str, int] | None = None
    ) -> None:
        """Make an account, or change its parent and ``defaults``: hard limits, by GPU class ("" for every
        other one), of the courses below it that have no quota of their own. Raises ``InvalidRequest``.
        """
        self._check_idle()
        account = _Account(name, kind, parent, dict(defaults or {}))
        self._check_place(account)
        self._accounts[name] = account
        self._planes.clear()

    def drop_account(self, name: str) -> None:
        """Forget an account and its quotas. Raises ``Conflict`` while it has children or use."""
        self._check_idle()
        self._known(name)
        children = [child.name for child in self._accounts.values() if child.parent == name]
        if children:
            verb, these = ("belongs", "it") if len(children) == 1 else ("belong", "these")
            raise Conflict(
                f"{name} cannot be removed: {_listed(children)} {verb} to it.\n"
                f"Move {these} to another account first.",
                details={"account": name, "children": sorted(children)[:20]},
            )
        held = {c: uses[name] for c, uses in self._uses.items() if uses.get(name)}
        if held:
            text = ", ".join(thousandths_text(v, c) for c, v in sorted(held.items()))
            raise Conflict(
                f"{name} cannot be removed: it holds {text}.\nEnd its leases first.",
                details={"account": name, "held": held},
            )
        del self._accounts[name]
        for quotas in self._quotas.values():
            quotas.pop(name, None)
        for uses in self._uses.values():
            uses.pop(name, None)
        self._planes.clear()

    def put_quota(self, account: str, gpu_class: str, limits: Limits) -> None:
        """Set an account's quota of a class. A limit below the use is allowed; ``notes`` says it. Raises
        ``InvalidRequest``.
        """
        self._check_idle()
        self._known(account)
        check_limits(account, gpu_class, limits, root=self._accounts[account].parent is None)
        self._quotas.setdefault(gpu_class, {})[account] = limits
        self._planes.pop(gpu_class, None)

    def drop_quota(self, account: str, gpu_class: str) -> None:
        self._check_idle()
        self._quotas.get(gpu_class, {}).pop(account, None)
        self._planes.pop(gpu_class, None)

    def set_capacity(self, gpu_class: str, thousandths: int) -> None:
        """What the pool has of a class now: the root's nominal, unless the root has a quota of its own."""
        self._check_idle()
        if self._capacity.get(gpu_class) != thousandths:
            self._capacity[gpu_class] = max(0, thousandths)
            self._planes.pop(gpu_class, None)

    # --- use

    def add_use(self, course: str, gpu_class: str, delta: int) -> None:
        """A lease of the course takes ``delta``, or gives it back where that is negative.

        Never refuses for want of room. Raises ``ValueError`` where more would be given back than was taken.
        """
        if self._account(course).kind != COURSE:
            raise ValueError(f"{course} is no course: it can hold nothing itself")
        uses = self._uses.setdefault(gpu_class, {})
        use = uses.get(course, 0) + delta
        if use < 0:
            raise ValueError(f"{course} would hold {use} thousandths of {gpu_class}")
        uses[course] = use
        plane = self._planes.get(gpu_class)
        if plane is not None:
            plane[course].add(delta)
        if self._trials:
            self._trials[-1].append((course, gpu_class, delta))

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Uses added within are taken back at the end: for trying out. Trials may be nested."""
        added: list[tuple[str, str, int]] = []
        self._trials.append(added)
        try:
            yield
        finally:
            taken = self._trials.pop()
            assert taken is added
            outer, self._trials = self._trials, []
            for course, gpu_class, delta in reversed(added):
                self.add_use(course, gpu_class, -delta)
            self._trials = outer

    def copy(self) -> Tree:
        """A tree of its own with the same state; quotas are shared, since they are frozen."""
        other = Tree()
        other._accounts = dict(self._accounts)
        other._quotas = {c: dict(quotas) for c, quotas in self._quotas.items()}
        other._capacity = dict(self._capacity)
        other._uses = {c: dict(uses) for c, uses in self._uses.items()}
        return other

    # --- questions

    def __contains__(self, account: object) -> bool:
        return account in self._accounts

    @property
    def root(self) -> str:
        """The institution. Raises ``ValueError`` in an empty tree."""
        root = self._root()
        if root is None:
            raise ValueError("the tree is empty")
        return root

    def kind(self, account: str) -> str:
        return self._account(account).kind

    def path(self, account: str) -> tuple[str, ...]:
        """The names from the root to the account."""
        names = []
        name: str | None = account
        while name is not None:
            names.append(name)
            name = self._account(name).parent
        return tuple(reversed(names))

    def children(self, account: str) -> tuple[str, ...]:
        return tuple(sorted(a.name for a in self._accounts.values() if a.parent == account))

    def limits(self, account: str, gpu_class: str) -> Limits:
        """The quota in force: its own, or what it has without one."""
        return self._limits(self._account(account), gpu_class)

    def classes(self, course: str) -> tuple[str, ...]:
        """The GPU classes of which the course has a share."""
        names = {*self._quotas, *self._capacity}
        names |= {c for name in self.path(course) for c in self._accounts[name].defaults}
        return tuple(sorted(c for c in names - {EVERY_CLASS} if self.limits(course, c).ceiling != 0))

    def use(self, account: str, gpu_class: str) -> int:
        """What is held below the account."""
        return self._node(account, gpu_class).use

    def borrowed(self, account: str, gpu_class: str) -> int:
        """What it uses beyond its nominal."""
        node = self._node(account, gpu_class)
        return max(0, node.use - node.limits.nominal)

    def room(self, course: str, gpu_class: str) -> int:
        """What the course may take now; below 1 it may take nothing."""
        node: Node | None = self._node(course, gpu_class)
        smallest: int | None = None
        unseen = 0
        while node is not None:
            smallest = least(smallest, node.leaves(unseen))
            unseen += node.idle
            node = node.parent
        assert smallest is not None, "the root has a ceiling"
        return smallest

    def levels(self, course: str, gpu_class: str) -> tuple[Level, ...]:
        """Each account from the root to the course with what it leaves; of those that leave least the one
        nearest to the course is binding.
        """
        found: list[Level] = []
        unseen = 0
        for name in reversed(self.path(course)):
            node = self._node(name, gpu_class)
            found.append(
                Level(
                    account=name,
                    kind=self._accounts[name].kind,
                    limits=node.limits,
                    nominal=node.limits.nominal,
                    guaranteed=node.guaranteed,
                    ceiling=node.ceiling,
                    use=node.use,
                    demand=node.demand,
                    room=node.leaves(unseen),
                )
            )
            unseen += node.idle
        room = self.room(course, gpu_class)
        binding = next(index for index, level in enumerate(found) if level.room == room)
        found[binding] = replace(found[binding], binding=True)
        return tuple(reversed(found))

    def notes(self, account: str, gpu_class: str) -> tuple[str, ...]:
        """What an admin should know of a quota that is in force and cannot be kept as it stands."""
        node = self._node(account, gpu_class)
        notes = []
        if node.ceiling is not None and node.use > node.ceiling:
            notes.append(
                f"{account} holds {thousandths_text(node.use, gpu_class)}, more than the "
                f"{thousandths_text(node.ceiling, gpu_class)} that it may hold now. Nothing is taken from "
                "leases in force; it gets nothing new until enough of them have ended."
            )
        promised = sum(self._node(child, gpu_class).limits.nominal for child in self.children(account))
        sure = node.limits.nominal
        if promised > sure and (sure or account == self._root()):
            notes.append(
                f"{account} has {thousandths_text(sure, gpu_class)} and has given the accounts below it "
                f"{thousandths_text(promised, gpu_class)} as nominal: not all can have that at once."
            )
        return tuple(notes)

    # --- within

    def _account(self, name: str) -> _Account:
        try:
            return self._accounts[name]
        except KeyError:
            raise ValueError(f"there is no account {name!r}") from None

    def _known(self, name: str) -> None:
        if name not in self._accounts:
            raise InvalidRequest(f"There is no account {name[:100]!r}.", details={"account": name[:100]})

    def _check_idle(self) -> None:
        if self._trials:
            raise ValueError("accounts, quotas and capacity cannot change within a trial")

    def _root(self) -> str | None:
        return next((a.name for a in self._accounts.values() if a.parent is None), None)

    def _check_place(self, account: _Account) -> None:
        name, kind, parent = account.name, account.kind, account.parent
        details = {"account": name, "kind": kind, "parent": parent}
        why = None
        before = self._accounts.get(name)
        if kind not in KINDS:
            why = f"is of kind {kind[:50]!r}; an account is an institution, a faculty, or a course"
        elif before is not None and before.kind != kind:
            why = f"is there already, as {before.kind}; it cannot become {kind}"
        elif (kind == INSTITUTION) != (parent is None):
            why = "must have a parent" if parent is None else "is the institution, and has no parent"
        elif parent is None:
            root = self._root()
            if root not in (None, name):
                why = f"cannot be a second root: {root} is the institution"
        elif parent not in self._accounts:
            why = f"cannot belong to {parent[:100]!r}: there is no such account"
        elif self._accounts[parent].kind == COURSE:
            why = f"cannot belong to {parent}, which is a course"
        elif name in self.path(parent):
            why = f"cannot belong to {parent}, which itself belongs to {name}"
        elif before is not None and before.parent == parent:
            pass
        elif len(self.path(parent)) + (self._height(name) if before else 1) > MOST_LEVELS:
            why = f"would stand too deep: {MOST_LEVELS} levels from the institution to a course at most"
        if why is not None:
            raise InvalidRequest(f"{name[:100]} {why}.", details=details)

    def _height(self, name: str) -> int:
        return 1 + max((self._height(child) for child in self.children(name)), default=0)

    def _limits(self, account: _Account, gpu_class: str) -> Limits:
        own = self._quotas.get(gpu_class, {}).get(account.name)
        if own is not None:
            return own
        if account.parent is None:
            return Limits(nominal=self._capacity.get(gpu_class, 0))
        if account.kind != COURSE:
            return PASSING
        for name in reversed(self.path(account.parent)):
            defaults = self._accounts[name].defaults
            default = defaults.get(gpu_class, defaults.get(EVERY_CLASS))
            if default is not None:
                return Limits(hard_limit=default)
        return NOTHING

    def _node(self, account: str, gpu_class: str) -> Node:
        plane = self._planes.get(gpu_class)
        if plane is None:
            plane = self._planes[gpu_class] = self._plan(gpu_class)
        try:
            return plane[account]
        except KeyError:
            raise ValueError(f"there is no account {account!r}") from None

    def _plan(self, gpu_class: str) -> dict[str, Node]:
        """Work out all accounts' counters of a class anew."""
        order = sorted(self._accounts.values(), key=lambda account: len(self.path(account.name)))
        plane: dict[str, Node] = {}
        for account in order:
            limits = self._limits(account, gpu_class)
            parent = plane[account.parent] if account.parent is not None else None
            ceiling = limits.ceiling if parent is not None else least(limits.nominal, limits.hard_limit)
            plane[account.name] = Node(parent, limits, ceiling, limits.guaranteed)
        guarantee([plane[account.name] for account in order])
        for account in reversed(order):
            node = plane[account.name]
            if account.kind == COURSE:
                node.use = node.demand = self._uses.get(gpu_class, {}).get(account.name, 0)
            if node.parent is not None:
                node.parent.use += node.use
                node.parent.demand += max(node.guaranteed, node.demand)
        return plane


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:5]) + (f" and {len(ordered) - 5} more" if len(ordered) > 5 else "")
