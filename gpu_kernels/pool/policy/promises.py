"""When a request can be sure of GPUs: the earliest instant at which enough of what is there now is over.

Every lease has a longest life, so what is in use on a GPU only shrinks as time goes by, unless something new
is placed there. A promise keeps that from happening: it holds back on its GPUs what the ends until then will
not bring (``Hold``), from everything that would still be there then. So the instant stays good, and working
it out anew can only find an earlier one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gpu_kernels.pool.policy.agenda_model import FOREVER, Stay
from gpu_kernels.pool.policy.model import Ask, Gpu, Promise
from gpu_kernels.pool.policy.quota import Tree
from gpu_kernels.pool.policy.scene import Held, Scene
from gpu_kernels.units import THOUSANDTHS, Size, Slice, slice_of

KNOWN = FOREVER >> 2
"""Instants from here on are no instants: nobody knows when."""
MOST_INSTANTS = 256
"""How many instants are tried on one server where class hours make the free capacity rise and fall."""


@dataclass(frozen=True, slots=True)
class Hold:
    """What a promise keeps free on each of its GPUs now, from requests that may last beyond ``at``."""

    promise: Promise
    parts: Mapping[int, Slice]

    @property
    def at(self) -> int:
        return self.promise.at


@dataclass(slots=True)
class Later:
    """The quotas at the instant of the promise of a class, with what is promised taken."""

    at: int
    tree: Tree
    rooms: dict[str, int] = field(default_factory=dict)


class Outlook:
    """What will be free when, of the pool as it is within one decision."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._new: dict[int, list[Stay]] = defaultdict(list)
        self._seats: dict[tuple[int, int], Mapping[int, Slice]] = {}
        self._by_end: dict[str, list[Held]] | None = None
        self._parts: dict[tuple[int, int], Slice] = {}

    def granted(self, gpu_id: int, stay: Stay) -> None:
        """A lease that this decision gives."""
        self._new[gpu_id].append(stay)

    def stays(self, gpu_id: int) -> Iterator[Stay]:
        yield from (self._scene.expected or self._scene.stays)(gpu_id)
        yield from self._new.get(gpu_id, ())

    def earliest(self, ask: Ask, gpu_class: str, not_before: int) -> Promise | None:
        """The GPUs of the class that the ask can have first, at ``not_before`` or later; None where nobody
        can say (what is in the way has no known end).
        """
        best: Promise | None = None
        for agent, gpus in self._by_agent(gpu_class):
            found = self._on_server(ask, agent, gpus, not_before, best)
            if found is not None and (best is None or (found.at, found.agent) < (best.at, best.agent)):
                best = found
        return best

    def quota_at(self, ask: Ask, gpu_class: str, asked: int) -> int | None:
        """When quota that others use now will be the ask's, at the latest; None where nobody knows."""
        tree = self._scene.tree
        with tree.trial():
            for held in self._ends(gpu_class):
                if held.until >= KNOWN:
                    return None
                give_back(tree, held.course, gpu_class, held.counted)
                if asked <= within(ask, gpu_class, tree.room(ask.course, gpu_class)):
                    return max(self._scene.now, held.until)
        return None

    def look_ahead(self, ask: Ask, promise: Promise, asked: int) -> Later:
        """The quotas as they are when the promise is kept, should all others stay as long as they may."""
        tree, gpu_class = self._scene.tree.copy(), promise.gpu_class
        over: Counter[str] = Counter()
        for held in self._ends(gpu_class):
            if held.until > promise.at:
                break
            over[held.course] += held.counted
        for course, thousandths in over.items():
            give_back(tree, course, gpu_class, thousandths)
        tree.add_use(ask.course, gpu_class, beyond(ask, gpu_class, asked))
        return Later(promise.at, tree)

    def _ends(self, gpu_class: str) -> list[Held]:
        """What is held of the class, in the order in which it ends."""
        if self._by_end is None:
            self._by_end = defaultdict(list)
            for held in sorted(self._scene.held(), key=lambda held: held.until):
                self._by_end[held.gpu_class].append(held)
        return self._by_end[gpu_class]

    def hold(self, ask: Ask, promise: Promise) -> Hold:
        """What is to be kept free now, so that the promise is kept.

        Where class hours may need what ends until then for themselves, none of it is reckoned with.
        """
        parts = {}
        for gpu_id in promise.gpus:
            gpu = self._scene.index.gpu(gpu_id)
            assert gpu is not None
            part = self._part(ask.size, gpu)
            over = Slice(0, 0) if len(self._scene.agenda) else self._over(gpu_id, promise.at)
            parts[gpu_id] = Slice(max(0, part.mib - over.mib), max(0, part.thousandths - over.thousandths))
        return Hold(promise, parts)

    def _by_agent(self, gpu_class: str) -> Iterable[tuple[str, list[Gpu]]]:
        servers: dict[str, list[Gpu]] = defaultdict(list)
        for gpu in self._scene.index.gpus():
            if gpu.gpu_class == gpu_class and self._scene.answers(gpu):
                servers[gpu.agent].append(gpu)
        return servers.items()

    def _on_server(
        self, ask: Ask, agent: str, gpus: list[Gpu], not_before: int, best: Promise | None
    ) -> Promise | None:
        """The first instant at which enough GPUs of the server are ready, unless ``best`` is before it."""
        server = self._scene.servers.get(agent)
        able = [gpu for gpu in gpus if gpu.could_hold(self._part(ask.size, gpu))]
        if len(able) < ask.size.count:
            return None
        for at in self._instants(ask, able, not_before):
            if best is not None and at > best.at:
                return None
            if server is not None and not server.takes(at + ask.life):
                return None
            ready = [gpu for gpu in able if self._fits(ask, gpu, at)]
            if len(ready) >= ask.size.count:
                ready.sort(key=lambda gpu: (gpu.index, gpu.id))
                chosen = tuple(gpu.id for gpu in ready[: ask.size.count])
                return Promise(ask.id, agent, ready[0].gpu_class, chosen, at)
        return None

    def _instants(self, ask: Ask, gpus: list[Gpu], not_before: int) -> list[int]:
        """When it may be that enough of the GPUs are ready, in order."""
        if not len(self._scene.agenda):
            ready = sorted(at for gpu in gpus if (at := self._ready(ask.size, gpu, not_before)) is not None)
            return ready[ask.size.count - 1 : ask.size.count]
        ends = {stay.until for gpu in gpus for stay in self.stays(gpu.id)}
        last = max((end for end in ends if end < KNOWN), default=not_before)
        ids = {gpu.id for gpu in gpus}
        for span in self._scene.agenda.spans(not_before, last + ask.life):
            if any(seating.gpu_id in ids for seating in self._scene.agenda.seats(span.id).values()):
                ends.add(span.ends_at)
        return [not_before, *sorted(end for end in ends if not_before < end < KNOWN)][:MOST_INSTANTS]

    def _ready(self, size: Size, gpu: Gpu, not_before: int) -> int | None:
        """When the GPU has enough left, were there no class hours; None where nobody knows."""
        part = self._part(size, gpu)
        mib = part.mib - (gpu.allocatable_mib - gpu.used_mib)
        thousandths = part.thousandths - (THOUSANDTHS - gpu.used_thousandths)
        if mib <= 0 and thousandths <= 0:
            return not_before
        for stay in sorted(self.stays(gpu.id), key=_until):
            if stay.until >= KNOWN:
                return None
            mib -= stay.part.mib
            thousandths -= stay.part.thousandths
            if mib <= 0 and thousandths <= 0:
                return max(not_before, stay.until)
        return None

    def _part(self, size: Size, gpu: Gpu) -> Slice:
        key = (id(size), gpu.allocatable_mib)
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = slice_of(size, gpu.allocatable_mib)
        return part

    def _fits(self, ask: Ask, gpu: Gpu, at: int) -> bool:
        part, over = self._part(ask.size, gpu), self._over(gpu.id, at)
        seats = self._seats_at(at, at + ask.life).get(gpu.id)
        mib = gpu.allocatable_mib - gpu.used_mib + over.mib
        thousandths = THOUSANDTHS - gpu.used_thousandths + over.thousandths
        if seats is not None:
            mib, thousandths = mib - seats.mib, thousandths - seats.thousandths
        return part.mib <= mib and part.thousandths <= thousandths

    def _over(self, gpu_id: int, at: int) -> Slice:
        """What leases that are over by then have on the GPU now."""
        mib = thousandths = 0
        for stay in self.stays(gpu_id):
            if stay.until <= at:
                mib += stay.part.mib
                thousandths += stay.part.thousandths
        return Slice(mib, thousandths)

    def _seats_at(self, at: int, until: int) -> Mapping[int, Slice]:
        """What class hours hold on each GPU, beyond what leases that are there at that instant have."""
        key = (at, until)
        found = self._seats.get(key)
        if found is None:
            found = self._seats[key] = self._scene.agenda.held_for(
                at, until, lambda gpu_id: [stay for stay in self.stays(gpu_id) if stay.until > at]
            )
        return found


def _until(stay: Stay) -> int:
    return stay.until


def within(ask: Ask, gpu_class: str, room: int) -> int:
    """A lease that replaces another may always be as large as that one, even where a limit was lowered."""
    replaced = ask.replaces.get(gpu_class, 0) if ask.replaces else 0
    return replaced + max(0, room) if replaced else room


def beyond(ask: Ask, gpu_class: str, thousandths: int) -> int:
    """What it counts in its course's quota beyond the lease that it replaces."""
    return max(0, thousandths - ask.replaces.get(gpu_class, 0))


def give_back(tree: Tree, course: str, gpu_class: str, thousandths: int) -> None:
    """What a course's leases count is over; a course that is gone from the tree counts nothing."""
    if course in tree:
        tree.add_use(course, gpu_class, -min(thousandths, tree.use(course, gpu_class)))


def held_back(holds: Iterable[Hold], until: int, seats: Mapping[int, Slice]) -> Mapping[int, Slice]:
    """What a request that may last until then must leave alone, with the seats that it must."""
    of_promises = [hold for hold in holds if until > hold.at]
    if not of_promises:
        return seats
    held = dict(seats)
    for hold in of_promises:
        for gpu_id, part in hold.parts.items():
            more = held.get(gpu_id)
            if more is not None:
                part = Slice(part.mib + more.mib, part.thousandths + more.thousandths)
            held[gpu_id] = part
    return held
