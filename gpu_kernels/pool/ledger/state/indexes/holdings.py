"""What each course holds now, kept up with every change of a lease."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from gpu_kernels.pool.ledger.state.rows import Lease
from gpu_kernels.pool.ledger.state.states import ENDING, IN_FORCE, Place

Sums = dict[str, dict[str, int]]
"""Thousandths by course and GPU class."""


class Holdings:
    """``settled``: by leases in force, where a slot counts once, as the larger of its lease and the one it
    replaces. ``ending``: by leases that are over and not confirmed yet.
    """

    def __init__(self) -> None:
        self.settled: Sums = defaultdict(lambda: defaultdict(int))
        self.ending: Sums = defaultdict(lambda: defaultdict(int))
        self._slots: dict[tuple[str, str, str], dict[str, Lease]] = {}

    def change(self, before: Lease | None, after: Lease | None) -> None:
        if before is not None and after is not None and _counts_as(before) == _counts_as(after):
            if before.state in IN_FORCE and before.window is None:
                self._slots[_slot(after)][after.place or ""] = after
            return
        for lease, sign in ((before, -1), (after, 1)):
            if lease is None or lease.window is not None:
                continue
            if lease.state in ENDING:
                self.ending[lease.course][lease.gpu_class or ""] += sign * lease.thousandths
            elif lease.state in IN_FORCE:
                self._change_slot(lease, sign)

    def _change_slot(self, lease: Lease, sign: int) -> None:
        slot, place = _slot(lease), lease.place or ""
        leases = self._slots.setdefault(slot, {})
        self._count(leases, -1)
        if sign > 0:
            leases[place] = lease
        elif (there := leases.get(place)) is not None and there.id == lease.id:
            del leases[place]
        self._count(leases, 1)
        if not leases:
            del self._slots[slot]

    def _count(self, leases: Mapping[str, Lease], sign: int) -> None:
        new, old = leases.get(Place.CURRENT), leases.get(Place.REPLACED)
        if new is not None:
            self.settled[new.course][new.gpu_class or ""] += sign * new.thousandths
        if old is not None:
            same = new is not None and (new.course, new.gpu_class) == (old.course, old.gpu_class)
            beyond = max(0, old.thousandths - (new.thousandths if same and new is not None else 0))
            self.settled[old.course][old.gpu_class or ""] += sign * beyond


def _slot(lease: Lease) -> tuple[str, str, str]:
    return lease.user, lease.server, lease.path


def _counts_as(lease: Lease) -> tuple[object, ...]:
    if lease.window is not None:
        return ()  # its seat is its class's, beside the course's quota
    state = "in force" if lease.state in IN_FORCE else "ending" if lease.state in ENDING else ""
    return state, lease.place, lease.course, lease.gpu_class, lease.thousandths
