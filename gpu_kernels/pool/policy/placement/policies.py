"""The three policies: how each ranks the places that a server has for a request.

A policy is a function of one server's state and the request, so that the index computes it again only for
servers that changed, and once for servers that are alike. Ties go to the lowest name and GPU (``Candidate``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gpu_kernels.pool.policy.placement.prices import Worth
from gpu_kernels.pool.policy.placement.servers import Score, View, Want, gap
from gpu_kernels.units import THOUSANDTHS, Slice

Policy = Callable[[View, Want, int | None], Score | None]

BROKEN_GPU_FIRST = 0.1
"""How much more worth, in GPUs, a request may cost on a GPU's last gap than on an empty GPU. Worth counts on
what will be asked for; room that nobody has broken yet does not need to."""
SMALL_SERVER_FIRST = 0.0125
"""The same for each free GPU of the server: the large ones stay for those who want several GPUs."""
WHOLE_SERVERS_LAST = 0.05
"""What an empty GPU is worth besides, where its server has enough of them for a shape of several GPUs, if all
demand were for that shape."""
DIGITS = 9
"""Worths that are equal but for the order of additions are to be equal."""


def best_fit(view: View, want: Want, most: int | None) -> Score | None:
    """The GPU with the least left over; whole GPUs, or host alone, from the server with the least."""
    return _by_room(view, want, most, sign=1)


def spread(view: View, want: Want, most: int | None) -> Score | None:
    """The GPU with the most left over; whole GPUs, or host alone, from the server with the most."""
    return _by_room(view, want, most, sign=-1)


def _by_room(view: View, want: Want, most: int | None, sign: int) -> Score | None:
    if not view.host_suffices(want):
        return None
    if want.size is None:
        return Score((sign * sum(view.gaps), sign * sum(view.host)), (0, 0), ())
    if want.size.whole_gpus is not None:
        positions, empty = _whole(view, want, most)
        return Score((sign * empty, sign * sum(view.gaps)), (empty, 0), positions) if positions else None
    best: tuple[int, int, int] | None = None
    for choice in view.fitting(want, most):
        left = _left_over(view, choice)
        rank = (sign * left[0], sign * left[1], choice[0])
        if best is None or rank < best:
            best = rank
    if best is None:
        return None
    return Score(best[:2], (sign * best[0], sign * best[1]), (best[2],))


def _left_over(view: View, choice: tuple[int, Slice]) -> tuple[int, int]:
    position, part = choice
    return view.thousandths[position] - part.thousandths, view.mib[position] - part.mib


def _whole(view: View, want: Want, most: int | None) -> tuple[tuple[int, ...], int]:
    """The lowest empty GPUs that suffice (none if they do not), and how many are empty."""
    assert want.size is not None
    empties = view.empties()
    count = want.size.count
    if len(empties) < count or (most is not None and count * THOUSANDTHS > most):
        return (), len(empties)
    return tuple(empties[:count]), len(empties)


class Gradient:
    """Fragmentation gradient descent: the place where the server loses the least of what it can still serve.

    A server's fragmentation is its free room less its worth (see ``prices``): the room that nothing of what
    will be asked for can use. A request goes where that rises least, that is where the worth falls least;
    places that differ by little (``BROKEN_..._FIRST``) go to what is broken already; ties go to the best fit
    (the server with the least left, then the GPU), then to the lowest name.
    """

    def __init__(
        self, worth: Worth, host_unit: tuple[int, float], several: Mapping[str, Mapping[int, float]]
    ) -> None:
        """``host_unit``: which host amount has a price, and how much of it is one unit. ``several``: by
        class, which part of the demand wants so many GPUs of one server.
        """
        self.worth = worth
        self.host_at, self.host_scale = host_unit
        self.several = several

    def like(self, other: Gradient) -> bool:
        """Whether the other scores the same."""
        return (
            self.worth is other.worth
            and (self.host_at, self.host_scale) == (other.host_at, other.host_scale)
            and self.several == other.several
        )

    def __call__(self, view: View, want: Want, most: int | None) -> Score | None:
        if not view.host_suffices(want):
            return None
        if want.size is None:
            return self._host_alone(view, want)
        if want.size.whole_gpus is not None:
            return self._whole(view, want, most)
        return self._part(view, want, most)

    def _part(self, view: View, want: Want, most: int | None) -> Score | None:
        fitting = view.fitting(want, most)
        if not fitting:
            return None
        gpu_class = view.unit[1]
        before, sums, prices = self._before(view, want)
        bias = SMALL_SERVER_FIRST * sum(view.gaps) / THOUSANDTHS
        spoiled = self._spoiled(view, 1)
        best: tuple[float, int, int, int] | None = None
        for position, part in fitting:
            old = self.worth.of_gap(gpu_class, view.gaps[position])
            left = _left_over(view, (position, part))
            new = self.worth.of_gap(gpu_class, gap(left[1], left[0], view.gpus[position].allocatable_mib))
            after = min([p + s - o + n for p, s, o, n in zip(prices, sums, old, new, strict=True)])
            lost = before - after + bias + BROKEN_GPU_FIRST * view.gaps[position] / THOUSANDTHS
            if view.empty[position]:
                lost += spoiled
            key = (round(lost, DIGITS), left[0], left[1], position)
            if best is None or key < best:
                best = key
        assert best is not None
        lost, thousandths, mib, position = best
        rank = (lost, self._left_on_server(view), thousandths, mib)
        return Score(rank, (thousandths, mib), (position,))

    def _whole(self, view: View, want: Want, most: int | None) -> Score | None:
        positions, empty = _whole(view, want, most)
        if not positions:
            return None
        gpu_class = view.unit[1]
        before, sums, prices = self._before(view, want)
        one = self.worth.of_gap(gpu_class, THOUSANDTHS)
        count = len(positions)
        after = min([p + s - count * o for p, s, o in zip(prices, sums, one, strict=True)])
        lost = before - after + SMALL_SERVER_FIRST * sum(view.gaps) / THOUSANDTHS
        lost += self._spoiled(view, count)
        return Score((round(lost, DIGITS), self._left_on_server(view), empty), (empty, 0), positions)

    def _host_alone(self, view: View, want: Want) -> Score:
        before, sums, prices = self._before(view, want)
        after = min([p + s for p, s in zip(prices, sums, strict=True)])
        return Score((round(before - after, DIGITS), self._left_on_server(view)), (0, 0), ())

    def _before(self, view: View, want: Want) -> tuple[float, Sequence[float], list[float]]:
        """The server's worth now, the sum of its gaps' at each host price, and there what its host amount is
        worth when the request has taken its part.
        """
        sums = self.worth.of_gaps(view.unit[1], view.gaps)
        have = view.host[self.host_at] if view.host else 0
        need = want.host[self.host_at] if want.host and view.host else 0
        left = (have - need) / self.host_scale
        before = self.worth.of_server(sums, have / self.host_scale)
        return before, sums, [price * left for price in self.worth.host_prices]

    def _left_on_server(self, view: View) -> float:
        """Free GPUs, and the free host amount in the unit of one."""
        host = view.host[self.host_at] / self.host_scale if view.host else 0.0
        return round(sum(view.gaps) / THOUSANDTHS + host, DIGITS)

    def _spoiled(self, view: View, taken: int) -> float:
        """What the server's empty GPUs are worth less to those who want several, with so many taken."""
        several = self.several.get(view.unit[1])
        if not several:
            return 0.0
        empty = sum(view.empty)
        left = empty - taken
        lost = sum(
            part * ((empty if empty >= count else 0) - (left if left >= count else 0))
            for count, part in several.items()
        )
        return WHOLE_SERVERS_LAST * lost
