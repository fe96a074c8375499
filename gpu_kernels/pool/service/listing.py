"""Pages of leases, newest first: those that live from the book, those that have ended from the store.

A page ends at the key (time of creation, id) of its last lease, and the next one begins below it: nothing is
told twice or left out, whatever begins or ends meanwhile.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpu_kernels.pool.ledger.queries import lease_views
from gpu_kernels.pool.ledger.state.rows import Lease
from gpu_kernels.pool.ledger.state.states import FINAL
from gpu_kernels.pool.ledger.stores import EndedLease, Page, Store
from gpu_kernels.pool.ledger.stores.cursors import read_cursor, write_cursor
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.service.desk import Desk
from gpu_kernels.pool.service.history import History
from gpu_kernels.resources import leases as resources

Keyed = tuple[tuple[int, str], resources.Lease]


@dataclass(frozen=True, slots=True)
class Listing:
    """Whose leases; None: everyone's."""

    user: str | None
    course: str | None
    ended: bool

    async def page(
        self, desk: Desk, history: History, limit: int, after: str | None
    ) -> tuple[list[resources.Lease], str | None]:
        """At most ``limit`` leases below the cursor, and the cursor of the next ones. Raises
        ``InvalidRequest``.
        """
        below = None if after is None else read_cursor(after, (int, str))
        found = await desk.read(lambda tx: self._living(tx, below, limit + 1))
        more = False
        if self.ended:
            # After the living ones: what ends in between is then seen twice, and told once.
            gone = await history.ask(lambda store: self._gone(store, after, limit))
            known = {lease.id for _, lease in found}
            new = [item for item in gone.rows if item.lease.id not in known]
            found += await desk.read(lambda tx: _views(tx, new))
            found.sort(key=lambda item: item[0], reverse=True)
            more = gone.cursor is not None
        told = found[:limit]
        more = more or len(found) > limit
        return [lease for _, lease in told], write_cursor(told[-1][0]) if more else None

    def _living(self, tx: Transaction, below: tuple[Any, ...] | None, most: int) -> list[Keyed]:
        wanted = (
            lease
            for lease in tx.book.leases.values()
            if lease.state not in FINAL
            and self.user in (None, lease.user)
            and self.course in (None, lease.course)
            and (below is None or _key(lease) < below)
        )
        positions = lease_views.queue_positions(tx)
        return [
            (_key(lease), lease_views.lease_view(tx, lease, positions))
            for lease in heapq.nlargest(most, wanted, key=_key)
        ]

    def _gone(self, store: Store, after: str | None, limit: int) -> Page:
        return store.ended_leases(user=self.user, course=self.course, cursor=after, limit=limit)


def _key(lease: Lease) -> tuple[int, str]:
    return lease.created_at, lease.id


def _views(tx: Transaction, ended: Sequence[EndedLease]) -> list[Keyed]:
    return [(_key(item.lease), lease_views.lease_view(tx, item.lease, {}, item.slices)) for item in ended]
