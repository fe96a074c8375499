"""The servers of one GPU class in the order in which one request would take them, kept up to date lazily."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator

from gpu_kernels.pool.policy.placement.policies import Policy
from gpu_kernels.pool.policy.placement.servers import Candidate, Key, Score, State, Unit, View, Want

REBUILD = 64
"""From so many changed servers on, sorting all anew is cheaper than moving each."""

MAX_SCORES = 2048
"""States of servers of which the score is remembered."""


class Ranking:
    """``stale``: servers that changed since the last look; only those are scored again."""

    def __init__(self, want: Want, policy: Policy, view: Callable[[Unit], View | None]) -> None:
        self.stale: set[Unit] = set()
        self._want = want
        self._policy = policy
        self._view = view
        self._candidates: dict[Unit, Candidate] = {}
        self._scores: dict[State, Score | None] = {}
        self._order: list[tuple[Key, Unit]] = []

    def __iter__(self) -> Iterator[Candidate]:
        """The candidates, best first."""
        if self.stale:
            self._refresh()
        return (self._candidates[unit] for _, unit in self._order)

    def _refresh(self) -> None:
        rebuild = len(self.stale) >= REBUILD
        for unit in self.stale:
            old = self._candidates.pop(unit, None)
            view = self._view(unit)
            new = None if view is None else self.candidate(view)
            if new is not None:
                self._candidates[unit] = new
            if rebuild or (old is not None and new is not None and old.key == new.key):
                continue
            if old is not None:
                del self._order[bisect_left(self._order, (old.key, unit))]
            if new is not None:
                insort(self._order, (new.key, unit))
        if rebuild:
            self._order = sorted((candidate.key, unit) for unit, candidate in self._candidates.items())
        self.stale.clear()

    def candidate(self, view: View) -> Candidate | None:
        """What the policy would take of this server, which need not be one of those ranked."""
        if view.state in self._scores:
            score = self._scores[view.state]
        else:
            if len(self._scores) >= MAX_SCORES:
                self._scores.clear()
            score = self._scores[view.state] = self._policy(view, self._want, None)
        return None if score is None else Candidate.of(view, score)
