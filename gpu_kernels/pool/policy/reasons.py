"""Everything that stands against an ask at its place in the line, as facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from gpu_kernels.pool.policy.model import (
    Ask,
    Fact,
    Impossible,
    KeptByPromise,
    KeptBySeats,
    Placement,
    QuotaBinds,
    RuleBinds,
    ServerOut,
    TooFull,
)
from gpu_kernels.pool.policy.promises import Hold, held_back
from gpu_kernels.pool.policy.quota import COURSE, Level
from gpu_kernels.pool.policy.scene import Scene
from gpu_kernels.units import Slice


class Deciding(Protocol):
    """What is asked of the pass over the queue: see ``queue.Pass``."""

    scene: Scene

    @property
    def holds(self) -> Sequence[Hold]: ...

    def demands(self, ask: Ask) -> Mapping[str, int]: ...

    def room(self, ask: Ask, gpu_class: str) -> int: ...

    def pool_is_full(self, ask: Ask, gpu_class: str) -> bool: ...

    def rule(self, ask: Ask) -> RuleBinds | None: ...

    def place_beside(self, ask: Ask, held: Mapping[int, Slice]) -> Placement | None: ...


def reasons(ask: Ask, deciding: Deciding) -> tuple[Fact, ...]:
    """What the pass found against the ask, as things stand in it now; nothing is changed."""
    demands = deciding.demands(ask)
    if not demands:
        return (Impossible(),)
    if ask.course not in deciding.scene.tree:
        return tuple(QuotaBinds(ask.course, COURSE, c, asked, 0, 0) for c, asked in demands.items())
    facts: list[Fact] = []
    for gpu_class in demands:
        if demands[gpu_class] > deciding.room(ask, gpu_class) and not deciding.pool_is_full(ask, gpu_class):
            facts.append(_quota(ask, gpu_class, deciding))
    rule = deciding.rule(ask)
    if rule is not None:
        facts.append(rule)
    held_by_quota = {fact.gpu_class for fact in facts if isinstance(fact, QuotaBinds)}
    for gpu_class in demands.keys() - held_by_quota:
        facts.append(_full(ask, gpu_class, deciding))
    if held_by_quota != demands.keys():
        facts += _kept(ask, deciding)
        facts += _out(ask, deciding)
    return tuple(facts)


def _quota(ask: Ask, gpu_class: str, deciding: Deciding) -> QuotaBinds:
    asked = deciding.demands(ask)[gpu_class]
    level = binding(ask, gpu_class, asked, deciding)
    free = max(0, (level.room or 0) + ask.replaces.get(gpu_class, 0))
    ceiling = level.ceiling or 0
    ending = deciding.scene.ending(ask.course, gpu_class) if level.kind == COURSE else 0
    return QuotaBinds(
        account=level.account,
        kind=level.kind,
        gpu_class=gpu_class,
        asked=asked,
        held=level.use,
        most=ceiling if ceiling - level.use < asked else level.use + free,
        ending=ending,
        for_good=asked > ceiling,
    )


def binding(ask: Ask, gpu_class: str, asked: int, deciding: Deciding) -> Level:
    """The account that leaves the least. The course itself comes first where it leaves too little: its limit
    would hold the ask back even if all others left more.
    """
    levels = deciding.scene.tree.levels(ask.course, gpu_class)
    more = asked - ask.replaces.get(gpu_class, 0)
    for level in reversed(levels):
        if level.kind == COURSE and level.room is not None and level.room < more:
            return level
    return next(level for level in levels if level.binding)


def _full(ask: Ask, gpu_class: str, deciding: Deciding) -> TooFull:
    scene, until = deciding.scene, deciding.scene.now + ask.life
    here = [gpu for gpu in scene.index.gpus() if gpu.gpu_class == gpu_class and scene.answers(gpu)]
    best, empty = (0, 0, 0), Counter[str]()
    for gpu in here:
        server = scene.servers.get(gpu.agent)
        if server is None or server.takes(until):
            even = min(gpu.free_thousandths, gpu.free_mib * 1000 // gpu.allocatable_mib)
            best = max(best, (even, gpu.free_thousandths, gpu.free_mib))
            empty[gpu.agent] += gpu.empty
    return TooFull(
        gpu_class=gpu_class,
        gpus=len(here),
        used=sum(gpu.used_thousandths for gpu in here),
        best=best[1:],
        empty=max(empty.values(), default=0),
    )


def _kept(ask: Ask, deciding: Deciding) -> Iterator[Fact]:
    """What it would have, were there no promises, or no class hours."""
    scene, until = deciding.scene, deciding.scene.now + ask.life
    seats = scene.agenda.held_for(scene.now, until, scene.stays)
    without_promises = deciding.place_beside(ask, seats)
    if without_promises is not None:
        ids = {gpu.id for gpu, _ in without_promises.parts}
        for hold in deciding.holds:
            same = without_promises.gpu_class == hold.promise.gpu_class
            if until > hold.at and (ids & hold.parts.keys() or same):
                yield KeptByPromise(hold.promise.ask, hold.promise.gpus, hold.at)
        return
    without_seats = deciding.place_beside(ask, held_back(deciding.holds, until, {})) if seats else None
    if without_seats is not None:
        yield KeptBySeats(tuple(gpu.id for gpu, _ in without_seats.parts))


def _out(ask: Ask, deciding: Deciding) -> Iterator[ServerOut]:
    """The servers with GPUs for it that take nothing, or nothing that lasts so long."""
    scene, until = deciding.scene, deciding.scene.now + ask.life
    demands = deciding.demands(ask)
    agents = {gpu.agent: scene.answers(gpu) for gpu in scene.index.gpus() if gpu.gpu_class in demands}
    for name, answering in sorted(agents.items()):
        server = scene.servers.get(name)
        if not answering:
            yield ServerOut(name, "silent")
        elif server is not None and server.standing != "open":
            yield ServerOut(name, server.standing)
        elif server is not None and not server.takes(until):
            yield ServerOut(name, "ending", server.ends_at)
