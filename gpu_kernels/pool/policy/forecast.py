"""When each request will start, by what is known now: the queue replayed over the known ends.

Every lease ends at the end of its longest life at the latest, a budget begins anew at a known instant, and a
class hour is over when the calendar says so. The replay lets these happen one after the other, and at each
gives what came free to those who wait, in the order of the line; what it gives ends in its turn. What
students will shut down earlier, and who will still come, nobody knows: so it is a prediction, that mostly
errs on the late side, and no promise.

The work is bounded; who would start after the last instant looked at has no prediction, as has who waits for
what has no known end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from gpu_kernels.pool.policy.agenda_model import Stay
from gpu_kernels.pool.policy.model import Ask, Gpu, Promise
from gpu_kernels.pool.policy.promises import KNOWN, give_back
from gpu_kernels.pool.policy.scene import Held, Scene
from gpu_kernels.units import Slice, slice_of

MOST_INSTANTS = 500
MOST_ASKS = 1_000


@dataclass(order=True, slots=True)
class _End:
    """Something is over. ``gpus``: where something may have come free."""

    at: int
    number: int
    held: Held | None = field(compare=False, default=None)
    gpus: tuple[int, ...] = field(compare=False, default=())


@dataclass(slots=True)
class _Line:
    """Those who ask for the same size and life, the next first."""

    demands: Mapping[str, int]
    asks: list[Ask] = field(default_factory=list)


def forecast(
    line: Sequence[Ask],
    scene: Scene,
    promises: Mapping[str, Promise] | None = None,
    *,
    most: int = MOST_INSTANTS,
) -> dict[str, int]:
    """The predicted start of each ask of the line that has one, by its id. Nothing is changed.

    ``line``: those who wait, the next first, as ``queue`` left them. ``most``: how many instants are
    looked at.
    """
    with scene.index.trial(), scene.tree.trial():
        return _Replay(scene, line[:MOST_ASKS], promises or {}).run(most)


class _Replay:
    def __init__(self, scene: Scene, line: Sequence[Ask], promises: Mapping[str, Promise]) -> None:
        self._scene = scene
        self._starts: dict[str, int] = {}
        self._places = {ask.id: place for place, ask in enumerate(line)}
        self._lines: dict[tuple[int, int], _Line] = {}
        self._left = 0
        for ask in line:
            if ask.id not in promises and ask.course in scene.tree:
                self._join(ask)
        self._given: Counter[str] = Counter()
        self._rule_ends: dict[str, int | None] = {}
        self._parts: dict[tuple[int, int], Slice] = {}
        self._stays: dict[int, list[Held]] = defaultdict(list)
        self._events: list[_End] = []
        self._seats: dict[tuple[int, int], Mapping[int, Slice]] = {}
        for held in sorted(scene.held(), key=lambda held: (held.until, held.lease)):
            self._add(held)
        self._servers: dict[str, list[int]] = defaultdict(list)
        for gpu in scene.index.gpus():
            self._servers[gpu.agent].append(gpu.id)
        for ask in line:
            if ask.id in promises:
                self._keep(ask, promises[ask.id])
        self._add_instants()
        heapify(self._events)

    def run(self, most: int) -> dict[str, int]:
        looked_at = 0
        while self._events and self._left and looked_at < most:
            now, looked_at = max(self._scene.now, self._events[0].at), looked_at + 1
            freed: set[int] = set()
            while self._events and self._events[0].at <= now:
                freed.update(self._over(heappop(self._events)))
            self._serve(now, freed)
        return self._starts

    # What happens

    def _join(self, ask: Ask) -> None:
        key = (id(ask.size), ask.life)
        if key not in self._lines:
            self._lines[key] = _Line(self._scene.index.demands(ask.size))
        self._lines[key].asks.append(ask)
        self._left += 1

    def _add(self, held: Held) -> None:
        """A lease that will be over; one whose end nobody knows stays for good."""
        self._seats.clear()
        for gpu_id, _ in held.parts:
            self._stays[gpu_id].append(held)
        if held.until < KNOWN:
            gpus = tuple(gpu_id for gpu_id, _ in held.parts)
            heappush(self._events, _End(held.until, len(self._events), held, gpus))

    def _add_instants(self) -> None:
        """Budgets that begin anew, and class hours that are over."""
        everywhere = tuple(gpu.id for gpu in self._scene.index.gpus())
        last = max((event.at for event in self._events), default=self._scene.now)
        longest = 0
        for ask in (ask for line in self._lines.values() for ask in line.asks):
            longest = max(longest, ask.life)
            rule = self._scene.rules(ask, 0)
            if rule is not None and rule.until is not None:
                self._rule_ends[ask.id] = rule.until
        spans = {span.ends_at for span in self._scene.agenda.spans(self._scene.now, last + longest)}
        for at in spans | {at for at in self._rule_ends.values() if at is not None}:
            heappush(self._events, _End(at, len(self._events), None, everywhere))

    def _over(self, event: _End) -> Iterable[int]:
        if event.held is not None:
            held = event.held
            self._seats.clear()
            self._given[held.user] -= 1
            give_back(self._scene.tree, held.course, held.gpu_class, held.counted)
            for gpu_id, part in held.parts:
                self._stays[gpu_id].remove(held)
                gpu = self._scene.index.gpu(gpu_id)
                if gpu is not None:
                    self._scene.index.put(gpu.without_part(part))
        return event.gpus

    def _keep(self, ask: Ask, promise: Promise) -> None:
        """A promise is kept at its instant at the latest; nobody else is given its GPUs."""
        self._starts[ask.id] = promise.at
        gpus = [gpu for gpu_id in promise.gpus if (gpu := self._scene.index.gpu(gpu_id)) is not None]
        self._give(ask, gpus, promise.at)

    def _give(self, ask: Ask, gpus: Sequence[Gpu], now: int) -> None:
        parts = tuple((gpu.id, self._part(ask, gpu)) for gpu in gpus)
        for gpu, (_, part) in zip(gpus, parts, strict=True):
            self._scene.index.put(gpu.with_part(part))
        gpu_class = gpus[0].gpu_class
        counted = max(0, sum(p.thousandths for _, p in parts) - ask.replaces.get(gpu_class, 0))
        self._scene.tree.add_use(ask.course, gpu_class, counted)
        self._given[ask.user] += 1
        self._add(Held(ask.id, ask.user, ask.course, gpu_class, counted, parts, now + ask.life))

    # Who is served

    def _serve(self, now: int, freed: set[int]) -> None:
        """Give what came free to the first in the line whom it suits, until it suits nobody."""
        agents = sorted({gpu.agent for gpu_id in freed if (gpu := self._scene.index.gpu(gpu_id)) is not None})
        open_to = [line for line in self._lines.values() if line.asks]
        while open_to:
            found = [
                (line, first) for line in open_to if (first := self._first(line, agents, now)) is not None
            ]
            if not found:
                return
            line, (ask, gpus) = min(found, key=lambda item: self._places[item[1][0].id])
            line.asks.remove(ask)
            self._give(ask, gpus, now)
            self._starts[ask.id] = now
            self._left -= 1
            open_to = [line for line, _ in found if line.asks]

    def _first(self, line: _Line, agents: Sequence[str], now: int) -> tuple[Ask, Sequence[Gpu]] | None:
        """The first of those who ask for the same that can have it of these servers, and its GPUs."""
        suits = self._suits(line, agents, now)
        if not suits:
            return None
        short: set[str] = set()
        for ask in line.asks:
            if (ask.course in short and not ask.replaces) or self._ruled_out(ask, now):
                continue
            for gpu_class, gpus in suits:
                replaced = ask.replaces.get(gpu_class, 0)
                room = self._scene.tree.room(ask.course, gpu_class)
                if line.demands[gpu_class] <= (replaced + max(0, room) if replaced else room):
                    return ask, gpus[: ask.size.count]
            short.add(ask.course)
        return None

    def _suits(self, line: _Line, agents: Sequence[str], now: int) -> list[tuple[str, list[Gpu]]]:
        """By GPU class, enough GPUs of one server that have what the line asks for."""
        ask = line.asks[0]
        found: dict[str, list[Gpu]] = {}
        for agent in agents:
            server = self._scene.servers.get(agent)
            if server is not None and not server.takes(now + ask.life):
                continue
            by_class: dict[str, list[Gpu]] = defaultdict(list)
            for gpu_id in self._servers[agent]:
                gpu = self._scene.index.gpu(gpu_id)
                if gpu is not None and gpu.gpu_class in line.demands and self._fits(ask, gpu, now):
                    by_class[gpu.gpu_class].append(gpu)
            for gpu_class, gpus in by_class.items():
                if len(gpus) >= ask.size.count:
                    found.setdefault(gpu_class, gpus)
        return sorted(found.items(), key=lambda item: item[0])

    def _ruled_out(self, ask: Ask, now: int) -> bool:
        until = self._rule_ends.get(ask.id)
        if until is not None:
            return now < until
        return self._scene.rules(ask, self._given[ask.user]) is not None

    def _fits(self, ask: Ask, gpu: Gpu, now: int) -> bool:
        if not self._scene.answers(gpu):
            return False
        part = self._part(ask, gpu)
        if not gpu.holds(part):
            return False
        if not len(self._scene.agenda):
            return True
        seats = self._seats_at(now, now + ask.life).get(gpu.id)
        return seats is None or gpu.with_part(seats).holds(part)

    def _seats_at(self, now: int, until: int) -> Mapping[int, Slice]:
        """What class hours hold, as of the last that started or ended."""
        found = self._seats.get((now, until))
        if found is None:
            found = self._seats[now, until] = self._scene.agenda.held_for(now, until, self._stays_on)
        return found

    def _stays_on(self, gpu_id: int) -> Iterable[Stay]:
        return [
            Stay(part, held.until)
            for held in self._stays[gpu_id]
            for where, part in held.parts
            if where == gpu_id
        ]

    def _part(self, ask: Ask, gpu: Gpu) -> Slice:
        key = (id(ask.size), gpu.allocatable_mib)
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = slice_of(ask.size, gpu.allocatable_mib)
        return part
