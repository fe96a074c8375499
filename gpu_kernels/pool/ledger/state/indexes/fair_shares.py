"""What each account and user has had of late, kept up with the book: see ``policy.fairness``.

The rows say what was used up to their ``at``; from then on the open slices count. So whoever opens or closes
slices writes the rows first: ``commands.shares.settle``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from gpu_kernels.pool.ledger.state.capacity import takes_slices
from gpu_kernels.pool.ledger.state.rows import Account, Gpu, Row, Share, Slice
from gpu_kernels.pool.policy.fairness import Policy, Shares, Use
from gpu_kernels.pool.policy.quota import Tree
from gpu_kernels.units import THOUSANDTHS

FOLLOWS: tuple[Any, ...] = (Account, Gpu, Share, Slice)


class FairShares:
    """A follower of accounts, GPUs, shares and slices. Made anew at the first question after a change of
    accounts, which may move courses; else kept up as rows change. The institution competes with nobody and
    has no rows.
    """

    def __init__(
        self,
        policy: Policy,
        tree: Callable[[], Tree],
        accounts: Mapping[str, Account],
        shares: Mapping[Any, Share],
        slices: Mapping[Any, Slice],
    ) -> None:
        self._policy = policy
        self._tree = tree
        self._accounts, self._rows, self._slices = accounts, shares, slices
        self._capacity: Counter[str] = Counter()
        self._shares: Shares | None = None

    def change(self, before: Row | None, after: Row | None) -> None:
        row = after or before
        if isinstance(row, Account):
            self._shares = None
        elif isinstance(row, Gpu):
            for gpu, sign in ((before, -1), (after, 1)):
                if isinstance(gpu, Gpu) and takes_slices(gpu):
                    self._capacity[gpu.gpu_class] += sign * THOUSANDTHS
        elif self._shares is None:
            return
        elif isinstance(row, Share):
            if after is None:
                self._shares.drop(row.account, row.user, row.gpu_class)
            else:
                self._shares.put(use_of(row))
        else:
            for part, sign in ((before, -1), (after, 1)):
                if isinstance(part, Slice) and part.ended_at is None:
                    self._shares.hold(part.course, part.user, part.gpu_class, sign * part.thousandths)

    @property
    def shares(self) -> Shares:
        """The live shares, as of all changes."""
        if self._shares is None:
            self._shares = self._made()
        return self._shares

    def _made(self) -> Shares:
        made, tree = Shares(self._policy), self._tree()
        made.capacity = self._capacity
        for account in self._accounts.values():
            path = tree.path(account.name)[1:]
            if path:
                made.put_account(account.name, path[-2] if len(path) > 1 else None, account.weight)
        for share in self._rows.values():
            made.put(use_of(share))
        for part in self._slices.values():
            if part.ended_at is None:
                made.hold(part.course, part.user, part.gpu_class, part.thousandths)
        return made


def use_of(row: Share) -> Use:
    return Use(row.account, row.user, row.gpu_class, int(row.usage), row.at)
