"""The live index of the pool's GPUs by server: what is free, and where a request goes best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from gpu_kernels.pool.policy.model import Gpu, Placement
from gpu_kernels.pool.policy.placement import bestfit
from gpu_kernels.pool.policy.placement.bestfit import Room
from gpu_kernels.pool.policy.placement.catalogue import Catalogue
from gpu_kernels.units import Size, Slice

POLICIES = ("fgd", "best_fit", "spread")
NOTHING: Mapping[int, Slice] = {}


class Index:
    """All GPUs, by id, and the choice among them. The same GPUs in another order give the same answers."""

    def __init__(
        self,
        gpus: Iterable[Gpu] = (),
        *,
        catalogue: Catalogue | None = None,
        policies: Mapping[str, str] | None = None,
    ) -> None:
        """``policies``: the policy by GPU class, '' standing for every other class; ``fgd`` where nothing
        is said.
        """
        self.catalogue = catalogue or Catalogue()
        self.policies = dict(policies or {})
        self._gpus: dict[int, Gpu] = {}
        self._undo: list[tuple[int, Gpu | None]] = []
        self._trying = False
        for gpu in gpus:
            self.put(gpu)

    def put(self, gpu: Gpu) -> None:
        """Add the GPU, or replace the one with its id."""
        self._remember(gpu.id)
        self._gpus[gpu.id] = gpu

    def drop(self, gpu_id: int) -> None:
        """Forget the GPU; one that is not there is no error."""
        self._remember(gpu_id)
        self._gpus.pop(gpu_id, None)

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
        shut: Callable[[Gpu], bool] | None = None,
    ) -> Placement | None:
        """Where the size goes best now, or None. Nothing is taken: see ``take``.

        ``room``: how many thousandths of a GPU class the asker may still take. ``held``: amounts on GPUs, by
        id, that this asker cannot have (seats, promises); more than is free is no error. ``shut``: GPUs
        where nothing of this asker may go (cordoned, draining, ending too early).
        """
        usable = []
        for gpu in self._gpus.values():
            if shut is not None and shut(gpu):
                continue
            part = held.get(gpu.id)
            usable.append(gpu if part is None else gpu.with_part(part))
        found = bestfit.place(size, usable, room)
        if found is None:
            return None
        parts = tuple((self._gpus[gpu.id], part) for gpu, part in found.parts)
        return Placement(found.agent, found.gpu_class, parts)

    def demands(self, size: Size) -> dict[str, int]:
        """The fewest thousandths that the size takes of each GPU class that could hold it when empty."""
        return bestfit.demands(size, self._gpus.values())

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
