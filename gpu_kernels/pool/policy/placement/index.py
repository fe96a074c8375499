"""The live index of the pool's GPUs by server: what is free, and where a request goes best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from gpu_kernels.pool.policy.model import Gpu, Placement
from gpu_kernels.pool.policy.placement.catalogue import Catalogue
from gpu_kernels.pool.policy.placement.policies import Gradient, Policy, best_fit, spread
from gpu_kernels.pool.policy.placement.pricing import Fleet, gradient
from gpu_kernels.pool.policy.placement.ranking import Ranking
from gpu_kernels.pool.policy.placement.servers import Candidate, Host, Unit, View, Want, view
from gpu_kernels.units import Size, Slice

Room = Callable[[str], int]
"""How many thousandths of a GPU class the asker may still take."""
Shut = Callable[[Gpu], bool]

POLICIES = ("fgd", "best_fit", "spread")
NOTHING: Mapping[int, Slice] = {}
MAX_RANKINGS = 512
"""Sizes of each class whose order of servers is kept; a size that is not among them costs one full look."""


class Index:
    """All GPUs, by id, and the choice among them. The same GPUs in another order give the same answers.

    One thread at a time. Reading and choosing change nothing that can be seen.
    """

    def __init__(
        self,
        gpus: Iterable[Gpu] = (),
        *,
        catalogue: Catalogue | None = None,
        policies: Mapping[str, str] | None = None,
    ) -> None:
        """``policies``: the policy by GPU class, '' standing for every other class; ``fgd`` where nothing
        is said. Raises ``ValueError`` for one that is not in ``POLICIES``.
        """
        for policy in (policies or {}).values():
            if policy not in POLICIES:
                raise ValueError(f"there is no placement policy {policy!r}, but {', '.join(POLICIES)}")
        self._catalogue = catalogue or Catalogue()
        self._policies = dict(policies or {})
        self._gpus: dict[int, Gpu] = {}
        self._servers: dict[str, dict[Unit, dict[int, Gpu]]] = {}
        self._views: dict[Unit, View] = {}
        self._holding: dict[Unit, tuple[tuple[Slice | None, ...], View]] = {}
        self._hosts: dict[str, tuple[Host, Host]] = {}
        self._rankings: dict[str, dict[tuple[Size | None, Host], Ranking]] = {}
        self._demands: dict[Size, dict[str, int]] = {}
        self._gradient: tuple[Fleet, Gradient] | None = None
        self._settled = False
        self._undo: list[tuple[int, Gpu | None]] = []
        self._trying = False
        for gpu in gpus:
            self.put(gpu)

    @property
    def catalogue(self) -> Catalogue:
        return self._catalogue

    @catalogue.setter
    def catalogue(self, catalogue: Catalogue) -> None:
        if catalogue != self._catalogue:
            self._catalogue = catalogue
            self._gradient = None
            self._rankings.clear()
            self._settled = False

    def put(self, gpu: Gpu) -> None:
        """Add the GPU, or replace the one with its id."""
        old = self._gpus.get(gpu.id)
        if old == gpu:
            return
        self._remember(gpu.id)
        if old is not None and (old.agent, old.gpu_class) != (gpu.agent, gpu.gpu_class):
            self._leave(old)
        self._gpus[gpu.id] = gpu
        unit = (gpu.agent, gpu.gpu_class)
        self._servers.setdefault(gpu.gpu_class, {}).setdefault(unit, {})[gpu.id] = gpu
        self._changed(unit)
        if old is None or _make(old) != _make(gpu):
            self._settled = False
            self._demands.clear()

    def drop(self, gpu_id: int) -> None:
        """Forget the GPU; one that is not there is no error."""
        old = self._gpus.get(gpu_id)
        if old is None:
            return
        self._remember(gpu_id)
        del self._gpus[gpu_id]
        self._leave(old)

    def put_host(self, agent: str, capacity: Host, free: Host) -> None:
        """Other amounts of a server that leases take beside its GPUs (cores, memory), as ``place`` is asked
        for them in ``host``. A server without any is never short of them. Not part of a trial.
        """
        old = self._hosts.get(agent)
        self._hosts[agent] = (capacity, free)
        if old is None or old[0] != capacity:
            self._settled = False
        for gpu_class in list(self._servers):
            if (agent, gpu_class) in self._servers[gpu_class]:
                self._changed((agent, gpu_class))

    def gpu(self, gpu_id: int) -> Gpu | None:
        return self._gpus.get(gpu_id)

    def gpus(self) -> tuple[Gpu, ...]:
        """All GPUs, by id."""
        return tuple(self._gpus[gpu_id] for gpu_id in sorted(self._gpus))

    def place(
        self,
        size: Size,
        *,
        room: Room,
        held: Mapping[int, Slice] = NOTHING,
        shut: Shut | None = None,
        host: Host = (),
    ) -> Placement | None:
        """Where the size goes best now, or None. Nothing is taken: see ``take``.

        ``room``: how many thousandths of a GPU class the asker may still take. ``held``: amounts on GPUs, by
        id, that this asker cannot have (seats, promises); more than is free is no error. ``shut``: GPUs
        where nothing of this asker may go (cordoned, draining, ending too early).
        """
        found = self._best(Want(size, host), room, held, shut)
        return None if found is None else found.placement(Want(size), self._gpus)

    def place_host(self, host: Host, *, room: Room, shut: Shut | None = None) -> str | None:
        """The agent where host amounts alone go best, or None."""
        found = self._best(Want(None, host), room, NOTHING, shut)
        return None if found is None else found.view.unit[0]

    def demands(self, size: Size) -> dict[str, int]:
        """The fewest thousandths that the size takes of each GPU class that could hold it when empty."""
        return dict(self._known_demands(size))

    def take(self, placement: Placement) -> None:
        """Use what the placement names, on the GPUs as they are now."""
        for gpu, part in placement.parts:
            self.put(self._gpus[gpu.id].with_part(part))

    def give_back(self, placement: Placement) -> None:
        """Undo ``take``; a GPU that is gone since is passed over."""
        for gpu, part in placement.parts:
            if gpu.id in self._gpus:
                self.put(self._gpus[gpu.id].without_part(part))

    @contextmanager
    def trial(self) -> Iterator[Index]:
        """What is put, dropped and taken within is undone at the end, whatever happened. Trials nest."""
        start, outermost = len(self._undo), not self._trying
        self._trying = True
        try:
            yield self
        finally:
            self._trying = False
            for gpu_id, gpu in reversed(self._undo[start:]):
                if gpu is None:
                    self.drop(gpu_id)
                else:
                    self.put(gpu)
            del self._undo[start:]
            self._trying = not outermost

    def _remember(self, gpu_id: int) -> None:
        if self._trying:
            self._undo.append((gpu_id, self._gpus.get(gpu_id)))

    def _leave(self, gpu: Gpu) -> None:
        unit = (gpu.agent, gpu.gpu_class)
        of_class = self._servers[gpu.gpu_class]
        del of_class[unit][gpu.id]
        if not of_class[unit]:
            del of_class[unit]
        if not of_class:
            del self._servers[gpu.gpu_class]
        self._changed(unit)
        self._settled = False
        self._demands.clear()

    def _changed(self, unit: Unit) -> None:
        self._views.pop(unit, None)
        self._holding.pop(unit, None)
        for ranking in self._rankings.get(unit[1], {}).values():
            ranking.stale.add(unit)

    def _view(self, unit: Unit) -> View | None:
        found = self._views.get(unit)
        if found is None and unit in self._servers.get(unit[1], {}):
            found = self._views[unit] = self._look(unit, NOTHING, None)
        return found

    def _restricted(self, unit: Unit, held: Mapping[int, Slice], shut: Shut | None) -> View:
        """The server for an ask that may not use all of it; the last such view is kept, since the seats of a
        class hour are held from everybody.
        """
        whole = self._view(unit)
        assert whole is not None
        if shut is not None and any(map(shut, whole.gpus)):
            return self._look(unit, held, shut)
        parts = tuple(held.get(gpu.id) for gpu in whole.gpus)
        if not any(parts):
            return whole
        known = self._holding.get(unit)
        if known is None or known[0] != parts:
            known = self._holding[unit] = (parts, self._look(unit, held, None))
        return known[1]

    def _look(self, unit: Unit, held: Mapping[int, Slice], shut: Shut | None) -> View:
        gpus = sorted(self._servers[unit[1]][unit].values(), key=lambda gpu: (gpu.index, gpu.id))
        return view(unit, gpus, self._hosts.get(unit[0], ((), ()))[1], held, shut)

    def _best(self, want: Want, room: Room, held: Mapping[int, Slice], shut: Shut | None) -> Candidate | None:
        asked = None if want.size is None else want.size.gpu_class
        classes = sorted(self._servers) if asked is None else [asked] if asked in self._servers else []
        busy = {(gpu.agent, gpu.gpu_class) for gpu_id in held if (gpu := self._gpus.get(gpu_id)) is not None}
        best: tuple[str, Candidate] | None = None
        for gpu_class in classes:
            found = self._best_of_class(want, gpu_class, room(gpu_class), held, shut, busy)
            if found is not None:
                best = _better(best, (self._policy_of(gpu_class), found))
        return None if best is None else best[1]

    def _best_of_class(
        self,
        want: Want,
        gpu_class: str,
        most: int,
        held: Mapping[int, Slice],
        shut: Shut | None,
        busy: set[Unit],
    ) -> Candidate | None:
        if want.size is not None and self._known_demands(want.size).get(gpu_class, most + 1) > most:
            return None
        policy = self._policy(gpu_class)
        units = self._servers[gpu_class]
        ranking = self._ranking(want, gpu_class, policy)
        best: Candidate | None = None

        def closer(unit: Unit) -> None:
            nonlocal best
            look = self._restricted(unit, held, shut)
            found = ranking.candidate(look)
            if found is not None and _taking(found, want) > most:
                score = policy(look, want, most)
                found = None if score is None else Candidate.of(look, score)
            if found is not None and (best is None or found.key < best.key):
                best = found

        for unit in busy:
            if unit in units:
                closer(unit)
        for candidate in ranking:
            if best is not None and best.key <= candidate.key:
                break
            unit = candidate.view.unit
            closed = 0 if shut is None else sum(map(shut, candidate.view.gpus))
            if unit in busy or closed == len(candidate.view.gpus):
                continue
            if not closed and _taking(candidate, want) <= most:
                return candidate
            closer(unit)
        return best

    def _ranking(self, want: Want, gpu_class: str, policy: Policy) -> Ranking:
        key = (want.size, want.host)
        rankings = self._rankings.setdefault(gpu_class, {})
        ranking = rankings.pop(key, None)
        if ranking is None:
            ranking = Ranking(want, policy, self._view)
            ranking.stale.update(self._servers[gpu_class])
            if len(rankings) >= MAX_RANKINGS:
                del rankings[next(iter(rankings))]
        rankings[key] = ranking
        return ranking

    def _policy_of(self, gpu_class: str) -> str:
        return self._policies.get(gpu_class, self._policies.get("", "fgd"))

    def _policy(self, gpu_class: str) -> Policy:
        name = self._policy_of(gpu_class)
        if name == "best_fit":
            return best_fit
        if name == "spread":
            return spread
        return self._priced()

    def _priced(self) -> Gradient:
        """The gradient for the GPUs and hosts as they are; rankings by older prices are forgotten."""
        if self._settled and self._gradient is not None:
            return self._gradient[1]
        servers = Counter(
            (gpu_class, _typical(gpus.values()), len(gpus), self._hosts.get(agent, ((), ()))[0])
            for gpu_class, units in self._servers.items()
            for (agent, _), gpus in units.items()
        )
        fleet = Fleet.of(servers)
        if self._gradient is None or self._gradient[0] != fleet:
            old, new = self._gradient, gradient(self._catalogue, fleet)
            if old is not None and old[1].like(new):
                new = old[1]
            else:
                self._rankings.clear()
            self._gradient = (fleet, new)
        self._settled = True
        return self._gradient[1]

    def _known_demands(self, size: Size) -> Mapping[str, int]:
        known = self._demands.get(size)
        if known is None:
            if len(self._demands) >= MAX_RANKINGS:
                self._demands.clear()
            known = self._demands[size] = self._least(Want(size))
        return known

    def _least(self, want: Want) -> dict[str, int]:
        assert want.size is not None
        least: dict[str, int] = {}
        count = want.size.count
        for gpu_class, units in sorted(self._servers.items()):
            if want.size.gpu_class not in (None, gpu_class):
                continue
            for gpus in units.values():
                able = [
                    part.thousandths
                    for gpu in gpus.values()
                    if gpu.could_hold(part := want.part(gpu.allocatable_mib))
                ]
                if len(able) >= count:
                    asked = count * min(able)
                    least[gpu_class] = min(asked, least.get(gpu_class, asked))
        return least


def _make(gpu: Gpu) -> tuple[str, str, int]:
    return gpu.agent, gpu.gpu_class, gpu.allocatable_mib


def _typical(gpus: Iterable[Gpu]) -> int:
    return max(gpu.allocatable_mib for gpu in gpus)


def _taking(candidate: Candidate, want: Want) -> int:
    """The thousandths that the candidate takes."""
    gpus = [candidate.view.gpus[position] for position in candidate.positions]
    return sum(want.part(gpu.allocatable_mib).thousandths for gpu in gpus)


def _better(one: tuple[str, Candidate] | None, other: tuple[str, Candidate]) -> tuple[str, Candidate]:
    """Candidates of one policy compare by its key, those of different ones by what is left over."""
    if one is None:
        return other
    if one[0] == other[0]:
        return one if one[1].key <= other[1].key else other
    return one if one[1].left_over <= other[1].left_over else other
