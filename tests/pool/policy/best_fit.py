"""Best fit, worked out from the list of GPUs each time: what the index's answers are compared with. A slice
goes where it leaves the least room behind, so that large room stays for large requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from gpu_kernels.pool.policy.model import Gpu, Placement
from gpu_kernels.pool.policy.placement import Room
from gpu_kernels.units import Size, Slice, slice_of


def place(size: Size, gpus: Iterable[Gpu], room: Room) -> Placement | None:
    """The best placement, or None. The same GPUs in another order give the same answer.

    A part of a GPU goes to the GPU with the least share, then the least memory, left over; whole GPUs go to
    the agent with the fewest empty GPUs that suffice, its lowest numbers first. Ties go to the lower agent
    name.
    """
    usable = [gpu for gpu in gpus if gpu.answering and size.gpu_class in (None, gpu.gpu_class)]
    if size.whole_gpus is not None:
        return _place_whole(size, usable, room)
    fitting = [
        (gpu, part)
        for gpu in usable
        if gpu.holds(part := slice_of(size, gpu.allocatable_mib)) and part.thousandths <= room(gpu.gpu_class)
    ]
    if not fitting:
        return None
    gpu, part = min(fitting, key=_left_over)
    return Placement(gpu.agent, gpu.gpu_class, ((gpu, part),))


def _left_over(candidate: tuple[Gpu, Slice]) -> tuple[int, int, str, int, int]:
    gpu, part = candidate
    share_left = gpu.free_thousandths - part.thousandths
    return share_left, gpu.free_mib - part.mib, gpu.agent, gpu.index, gpu.id


def _place_whole(size: Size, usable: Sequence[Gpu], room: Room) -> Placement | None:
    count = size.count
    choices = []
    for (agent, gpu_class), group in _by_agent(usable):
        empty = sorted((gpu for gpu in group if gpu.empty), key=lambda gpu: (gpu.index, gpu.id))
        parts = tuple((gpu, slice_of(size, gpu.allocatable_mib)) for gpu in empty[:count])
        asked = sum(part.thousandths for _, part in parts)
        if len(parts) == count and asked <= room(gpu_class):
            choices.append((len(empty), agent, gpu_class, parts))
    if not choices:
        return None
    _, agent, gpu_class, parts = min(choices, key=lambda choice: choice[:3])
    return Placement(agent, gpu_class, parts)


def _by_agent(gpus: Iterable[Gpu]) -> Iterator[tuple[tuple[str, str], Iterator[Gpu]]]:
    def owner(gpu: Gpu) -> tuple[str, str]:
        return gpu.agent, gpu.gpu_class

    return groupby(sorted(gpus, key=owner), key=owner)


def demands(size: Size, gpus: Iterable[Gpu]) -> dict[str, int]:
    """The fewest thousandths that the size takes of each GPU class whose GPUs could hold it when empty."""
    least: dict[str, int] = {}
    of_class = [gpu for gpu in gpus if size.gpu_class in (None, gpu.gpu_class)]
    for (_, gpu_class), group in _by_agent(of_class):
        parts = [slice_of(size, gpu.allocatable_mib) for gpu in group if _could(size, gpu)]
        if len(parts) >= size.count:
            asked = size.count * min(part.thousandths for part in parts)
            least[gpu_class] = min(asked, least.get(gpu_class, asked))
    return least


def _could(size: Size, gpu: Gpu) -> bool:
    return gpu.could_hold(slice_of(size, gpu.allocatable_mib))


def taken(gpus: Iterable[Gpu], placement: Placement) -> tuple[Gpu, ...]:
    """The GPUs after the placement."""
    parts: Mapping[int, Slice] = {gpu.id: part for gpu, part in placement.parts}
    return tuple(gpu.with_part(parts[gpu.id]) if gpu.id in parts else gpu for gpu in gpus)
