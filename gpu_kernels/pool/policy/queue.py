"""Who gets what now: one pass over those who wait.

Those who hold a promise are served first, oldest first; then the others in the order of ``fairness``, each
one that fits. So small requests overtake large ones that do not fit yet (best effort). The first of a GPU
class that nothing but the pool holds back, and that has waited for ``patience.promise``, gets the promise of
named GPUs at a known instant; one for each class at a time, so a promise is of all classes that its request
can use and that no older promise has. What it is sure of, quota too, is kept from all others who might still
be there then.

Waiting is bounded. A promise's instant is at most one longest life away and only moves earlier (see
``promises``), so a holder is served by then; at most so many are served before, class by class, as had a
promise or waited ``patience.longest`` before. See docs/design/pool.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from gpu_kernels.pool.policy.agenda_model import Stay
from gpu_kernels.pool.policy.model import (
    Ask,
    Fact,
    Gpu,
    Placement,
    Promise,
    QuotaBinds,
    RuleBinds,
    TooFull,
    Verdict,
)
from gpu_kernels.pool.policy.promises import Hold, Later, Outlook, beyond, held_back, within
from gpu_kernels.pool.policy.quota import COURSE, INSTITUTION, MOST
from gpu_kernels.pool.policy.reasons import reasons
from gpu_kernels.pool.policy.scene import Scene
from gpu_kernels.units import Size, Slice

NOBODY: frozenset[str] = frozenset()
SIZE, QUOTA, RULE, GPUS = "size", "quota", "rule", "gpus"
UNLIMITED = 2 * MOST
_NEVER = Verdict(held_by=SIZE)
_WAITS = {held_by: Verdict(held_by=held_by, may_wait=True) for held_by in (QUOTA, RULE, GPUS)}


@dataclass(frozen=True, slots=True)
class Decision:
    """``verdicts`` by ask, in the order in which they were reached: grants are made in this order.
    ``waiting``: who goes on waiting, first the next. ``promises``: all that are in force now, by ask.
    ``claims``: who had a promise that cannot be named now (a server is silent), and stays the first to get
    one.
    """

    verdicts: Mapping[str, Verdict]
    waiting: tuple[str, ...]
    promises: Mapping[str, Promise]
    claims: frozenset[str] = NOBODY

    @property
    def granted(self) -> dict[str, Placement]:
        return {ask: v.placement for ask, v in self.verdicts.items() if v.placement is not None}


@dataclass(slots=True)
class _Shape:
    """One size within a pass: what it takes of each class, and how short a life it found no place for."""

    demands: Mapping[str, int]
    fails: dict[object, int] = field(default_factory=dict)


def line(asks: Collection[Ask], scene: Scene) -> list[Ask]:
    """Those who wait in the order in which they are looked at: promises first, then by ``fairness``."""
    return Pass(scene).line(asks)


def decide(asks: Collection[Ask], scene: Scene, explain: frozenset[str] = NOBODY) -> Decision:
    """Decide all asks together; each sees what those before it were given. Nothing is changed.

    ``explain``: the ids of those whose verdicts say all that stands against them.
    """
    return Pass(scene, explain).run(asks)


class Pass:
    """One pass. It works on trials of the scene's index and tree."""

    def __init__(self, scene: Scene, explain: frozenset[str] = NOBODY) -> None:
        self.scene = scene
        self._explain = explain
        self.outlook = Outlook(scene)
        self.holds: list[Hold] = []
        self._shapes: dict[Size, _Shape] = {}
        self._by_identity: dict[int, _Shape] = {}
        self._rooms: dict[tuple[str, str], int] = {}
        self._held: dict[tuple[int, bool], Mapping[int, Slice]] = {}
        self._taken: set[str] = set()
        """GPU classes of which somebody holds the promise."""
        self._later: dict[str, Later] = {}
        self._given: Counter[str] = Counter()
        self._own: dict[tuple[str, str, int], bool] = {}
        self._full: dict[tuple[str, str, int], bool] = {}
        self._hopeless: set[tuple[int, str, int]] = set()
        self._out = {s.name: s for s in scene.servers.values() if not s.takes(0) or s.ends_at is not None}

    def run(self, asks: Collection[Ask]) -> Decision:
        verdicts: dict[str, Verdict] = {}
        with self.scene.index.trial(), self.scene.tree.trial():
            order = self.line(asks)
            for ask in order:
                verdicts[ask.id] = self.serve(ask)
            waiting = [ask for ask in order if verdicts[ask.id].placement is None]
            for ask, promise in self._new_promises(waiting, verdicts):
                verdicts[ask.id] = replace(verdicts[ask.id], promise=promise)
            promises = {ask.id: v.promise for ask in waiting if (v := verdicts[ask.id]).promise is not None}
            claims = {
                ask.id
                for ask in waiting
                if ask.promised_at is not None
                and ask.id not in promises
                and self._may_claim(ask, verdicts[ask.id])
            }
        return Decision(verdicts, tuple(ask.id for ask in waiting), promises, frozenset(claims))

    def line(self, asks: Collection[Ask]) -> list[Ask]:
        holders = sorted((ask for ask in asks if ask.promised_at is not None), key=_promised)
        others = [ask for ask in asks if ask.promised_at is None] if holders else asks
        if len(others) < 2:
            return [*holders, *others]
        return [*holders, *self.scene.shares.order(others, self._cost, self.scene.now)]

    def serve(self, ask: Ask) -> Verdict:
        """Give the ask a place, or say what holds it back; a holder's promise is kept for it."""
        verdict = self.look(ask)
        if verdict.placement is None and ask.id in self._explain:
            facts = reasons(ask, self)
            verdict = replace(verdict, facts=facts, may_wait=worth_waiting(facts))
        if verdict.placement is not None:
            self._take(ask, verdict.placement)
        elif ask.promised_at is not None and verdict.held_by in (QUOTA, GPUS):
            promise = self._promise(ask)
            if promise is not None:
                return replace(verdict, promise=promise)
        return verdict

    def look(self, ask: Ask) -> Verdict:
        """The verdict on an ask as things stand; nothing is taken."""
        shape = self._shape(ask.size)
        if not shape.demands:
            return _NEVER
        if ask.course not in self.scene.tree:
            return _WAITS[QUOTA]
        rooms = {c: self.room(ask, c) for c in shape.demands}
        if not any(asked <= rooms[c] for c, asked in shape.demands.items()):
            return _WAITS[GPUS if any(self.pool_is_full(ask, c) for c in shape.demands) else QUOTA]
        if self._later:
            rooms = {c: min(room, self.room_later(ask, c)) for c, room in rooms.items()}
        classes = tuple([c for c, asked in shape.demands.items() if asked <= rooms[c]])
        if not classes:
            return _WAITS[GPUS]
        if self.rule(ask) is not None:
            return _WAITS[RULE]
        exact = None if ask.size.mib is None else tuple(min(rooms[c], 1000) for c in classes)
        key = (classes, exact, ask.preemptible)
        if ask.life >= shape.fails.get(key, ask.life + 1):
            return _WAITS[GPUS]
        placement = self.place(ask, rooms, classes)
        if placement is None:
            shape.fails[key] = ask.life
            return _WAITS[GPUS]
        return Verdict(placement=placement)

    # What the ask may use

    def room(self, ask: Ask, gpu_class: str) -> int:
        """Thousandths of the class that the ask may take of its course's quota."""
        key = (ask.course, gpu_class)
        room = self._rooms.get(key)
        if room is None:
            room = self._rooms[key] = self.scene.tree.room(*key)
        return within(ask, gpu_class, room)

    def room_later(self, ask: Ask, gpu_class: str) -> int:
        """The same at the instant of the promise of the class, should the ask still be there then."""
        later = self._later.get(gpu_class)
        if later is None or self.scene.now + ask.life <= later.at:
            return UNLIMITED
        room = later.rooms.get(ask.course)
        if room is None:
            room = later.rooms[ask.course] = later.tree.room(ask.course, gpu_class)
        return within(ask, gpu_class, room) if ask.replaced_until > later.at else room

    def rule(self, ask: Ask) -> RuleBinds | None:
        return self.scene.rules(ask, self._given[ask.user])

    def demands(self, ask: Ask) -> Mapping[str, int]:
        """The fewest thousandths that it takes of each class whose GPUs could hold it."""
        return self._shape(ask.size).demands

    def place(self, ask: Ask, rooms: Mapping[str, int], classes: Collection[str]) -> Placement | None:
        """Where it goes now: on capacity that no class hour needs, else as one that makes way for it."""
        allowed = {c: rooms[c] for c in classes}
        found = self._place(ask, allowed, self.held(ask.life))
        if found is not None or not len(self.scene.agenda):
            return found
        agreed = {c: r for c, r in allowed.items() if ask.preemptible or c in self.scene.settings.preemptible}
        if not agreed:
            return None
        found = self._place(ask, agreed, self.held(ask.life, preemptible=True))
        return None if found is None else self._making_way(found, self.scene.now + ask.life)

    def place_beside(self, ask: Ask, held: Mapping[int, Slice]) -> Placement | None:
        """Where it would go now if only that were held back from it."""
        return self._place(ask, {c: self.room(ask, c) for c in self.demands(ask)}, held)

    def _place(self, ask: Ask, rooms: Mapping[str, int], held: Mapping[int, Slice]) -> Placement | None:
        until = self.scene.now + ask.life

        def room(gpu_class: str) -> int:
            return rooms.get(gpu_class, 0)

        def shut(gpu: Gpu) -> bool:
            server = self._out.get(gpu.agent)
            return server is not None and not server.takes(until)

        return self.scene.index.place(ask.size, room=room, held=held, shut=shut if self._out else None)

    def held(self, life: int, *, preemptible: bool = False) -> Mapping[int, Slice]:
        """What seats and promises keep on each GPU from a lease of that life."""
        found = self._held.get((life, preemptible))
        if found is None:
            now, scene = self.scene.now, self.scene
            seats = scene.agenda.held_for(now, now + life, scene.stays, preemptible=preemptible)
            found = self._held[life, preemptible] = held_back(self.holds, now + life, seats)
        return found

    def _making_way(self, found: Placement, until: int) -> Placement | None:
        scene, first = self.scene, until
        kept = held_back(self.holds, until, {})
        for gpu, part in found.parts:
            promised = kept.get(gpu.id, Slice(0, 0))
            free = Slice(gpu.free_mib - promised.mib, gpu.free_thousandths - promised.thousandths)
            at = scene.agenda.preempt_at(gpu.id, part, free, scene.now, until, scene.stays)
            first = min(first, until if at is None else at)
        if first <= scene.now:
            return None
        return replace(found, preempt_at=first if first < until else None)

    # What changes within the pass

    def _take(self, ask: Ask, placement: Placement) -> None:
        self.scene.index.take(placement)
        self._given[ask.user] += 1
        until = placement.preempt_at or self.scene.now + ask.life
        more = beyond(ask, placement.gpu_class, placement.thousandths)
        self.scene.tree.add_use(ask.course, placement.gpu_class, more)
        self._rooms.clear()
        self._own.clear()
        self._full.clear()
        later = self._later.get(placement.gpu_class)
        if later is not None and until > later.at:
            counts = more if ask.replaced_until > later.at else placement.thousandths
            later.tree.add_use(ask.course, placement.gpu_class, counts)
            later.rooms.clear()
        for gpu, part in placement.parts:
            self.outlook.granted(gpu.id, Stay(part, until))

    def _promise(self, ask: Ask) -> Promise | None:
        """Keep for the ask what it can have first, and its quota, among classes not promised to others."""
        free = [c for c in self.demands(ask) if c not in self._taken]
        holds = ask.promised_at is not None
        allowed = [c for c in free if holds or not self.held_by_own_course(ask, c)]
        best: Promise | None = None
        for gpu_class in allowed:
            found = self._earliest(ask, gpu_class)
            if found is not None and (best is None or found.at < best.at):
                best = found
        if best is None:
            return None
        self._taken.update(free)
        self.holds.append(self.outlook.hold(ask, best))
        self._held.clear()
        self._later[best.gpu_class] = self.outlook.look_ahead(ask, best, self.demands(ask)[best.gpu_class])
        return best

    def _may_claim(self, ask: Ask, verdict: Verdict) -> bool:
        """Whether nothing of its own stands against it: then others are to wait for it."""
        own = all(self.held_by_own_course(ask, gpu_class) for gpu_class in self.demands(ask))
        return verdict.held_by in (QUOTA, GPUS) and not own

    def _earliest(self, ask: Ask, gpu_class: str) -> Promise | None:
        """The first GPUs of the class that it can be sure of, with the quota for them.

        Its course's own limit keeps it from a promise only if it still stands against it then: requests that
        are over by then may have what a holder needs.
        """
        key = (id(self._shape(ask.size)), gpu_class, ask.life)
        asked, now = self.demands(ask)[gpu_class], self.scene.now
        since: int | None = now
        if asked > self.room(ask, gpu_class):
            since = self.outlook.quota_at(ask, gpu_class, asked)
        if since is None or key in self._hopeless:
            return None
        found = self.outlook.earliest(ask, gpu_class, now)
        if found is None:
            self._hopeless.add(key)
        if found is None or since <= found.at:
            return found
        if self.held_by_own_course(ask, gpu_class):
            return None
        return self.outlook.earliest(ask, gpu_class, since)

    def _new_promises(
        self, waiting: Iterable[Ask], verdicts: Mapping[str, Verdict]
    ) -> Iterable[tuple[Ask, Promise]]:
        now, patience = self.scene.now, self.scene.settings.patience
        heads = [
            ask
            for ask in waiting
            if now - ask.asked_at >= patience.promise
            and verdicts[ask.id].promise is None
            and verdicts[ask.id].held_by in (QUOTA, GPUS)
        ]
        overdue = sorted((ask for ask in heads if now - ask.asked_at >= patience.longest), key=_turn)
        for ask in [*overdue, *heads]:
            if len(self._taken) >= len(self.scene.shares.capacity or (1,)):
                return
            if verdicts[ask.id].promise is None and (promise := self._promise(ask)) is not None:
                yield ask, promise

    def held_by_own_course(self, ask: Ask, gpu_class: str) -> bool:
        """Whether the course's own quota stands against it: then it keeps nobody else waiting."""
        asked = self.demands(ask)[gpu_class] - ask.replaces.get(gpu_class, 0)
        key = (ask.course, gpu_class, asked)
        found = self._own.get(key)
        if found is None and ask.course not in self.scene.tree:
            found = self._own[key] = True
        if found is None:
            levels = self.scene.tree.levels(ask.course, gpu_class)
            rooms = [level.room for level in levels if level.kind == COURSE and level.room is not None]
            found = self._own[key] = asked > 0 and any(room < asked for room in rooms)
        return found

    def pool_is_full(self, ask: Ask, gpu_class: str) -> bool:
        """Whether nothing but what the pool has of the class stands against it: all of it is in use."""
        asked = self.demands(ask)[gpu_class] - ask.replaces.get(gpu_class, 0)
        key = (ask.course, gpu_class, asked)
        found = self._full.get(key)
        if found is None:
            levels = self.scene.tree.levels(ask.course, gpu_class)
            root = next(level for level in levels if level.kind == INSTITUTION)
            rooms = [level.room for level in levels if level is not root and level.room is not None]
            found = (root.ceiling or 0) - root.use < asked and all(asked <= room for room in rooms)
            self._full[key] = found
        return found

    # Sizes

    def _shape(self, size: Size) -> _Shape:
        shape = self._by_identity.get(id(size))
        if shape is None:
            shape = self._shapes.get(size)
            if shape is None:
                shape = self._shapes[size] = _Shape(self.scene.index.demands(size))
            self._by_identity[id(size)] = shape
        return shape

    def _cost(self, ask: Ask) -> tuple[str, int]:
        """What taking its turn costs the ask's accounts in the order."""
        demands = self._shape(ask.size).demands
        gpu_class = min(demands, key=lambda c: (demands[c], c), default="")
        return gpu_class, demands.get(gpu_class, 1) * self.scene.shares.policy.entry_charge


def worth_waiting(facts: Iterable[Fact], *, for_course: bool = False) -> bool:
    """Whether it can be granted without that anybody changes a rule or a limit, or, unless ``for_course``,
    gives up a lease of the course's own in force.
    """
    for fact in facts:
        if isinstance(fact, TooFull):
            return not any(isinstance(other, RuleBinds) for other in facts)
        if isinstance(fact, QuotaBinds) and not fact.for_good:
            freed = for_course or fact.kind != COURSE or fact.asked <= fact.most - fact.held + fact.ending
            if freed and not any(isinstance(other, RuleBinds) for other in facts):
                return True
    return False


def _promised(ask: Ask) -> tuple[int, tuple[int, str]]:
    assert ask.promised_at is not None
    return ask.promised_at, ask.turn


def _turn(ask: Ask) -> tuple[int, str]:
    return ask.turn
