"""What must hold, worked out from plain rows by sums over dicts: nothing here is shared with the ledger's own
indexes, trees or snapshots.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_kernels.pool.ledger.state.rows import (
    Account,
    Agent,
    ClassHour,
    Gpu,
    Lease,
    Quota,
    Row,
    Seat,
    Slice,
    Window,
)

LIVING = ("queued", "reserved", "active")
SERVED = ("reserved", "active")
HOLDING = ("reserved", "active", "draining", "quarantined")
FINAL = ("released", "expired", "revoked", "freed")
NEXT = {
    "": {"queued", "reserved"},
    "queued": {"reserved", "released", "expired", "revoked"},
    "reserved": {"active", "draining", "quarantined"},
    "active": {"draining", "quarantined"},
    "draining": {"released"},
    "quarantined": {"freed"},
}
AFTER = {
    state: {state} | NEXT.get(state, set()) | {n for s in NEXT.get(state, set()) for n in NEXT.get(s, set())}
    for state in ("", *LIVING, "draining", "quarantined", *FINAL)
}
"""Where a lease may be one step of the machine later: each step may be two of the table's."""
for state in ("", "queued", "reserved"):
    AFTER[state] |= {"draining", "quarantined", "freed", "released", "active"}


@dataclass
class Tables:
    """Rows by table and key."""

    agents: dict[str, Agent] = field(default_factory=dict)
    gpus: dict[int, Gpu] = field(default_factory=dict)
    accounts: dict[str, Account] = field(default_factory=dict)
    quotas: dict[tuple[str, str], Quota] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    class_hours: dict[str, ClassHour] = field(default_factory=dict)
    windows: dict[str, Window] = field(default_factory=dict)
    seats: list[Seat] = field(default_factory=list)

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Tables:
        found = cls()
        for row in rows:
            table = getattr(found, type(row).TABLE, None)
            if isinstance(table, list):
                table.append(row)
            elif table is not None:
                key: Any = tuple(getattr(row, name) for name in row.KEY)
                table[key[0] if len(key) == 1 else key] = row
        return found

    def slices_of(self, lease: str) -> list[Slice]:
        return [part for part in self.slices if part.lease_id == lease]


def check_gpus(tables: Tables) -> None:
    """No GPU is promised twice: what its leases hold is what it counts, and no more than it has."""
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for part in tables.slices:
        holds = tables.leases[part.lease_id].state in HOLDING if part.lease_id in tables.leases else False
        assert (part.ended_at is None) == holds, f"the account of {part.lease_id} is open, or closed, wrongly"
        if holds:
            sums[part.gpu_id][0] += part.mib
            sums[part.gpu_id][1] += part.thousandths
    for gpu in tables.gpus.values():
        assert [gpu.used_mib, gpu.used_thousandths] == sums[gpu.id], f"GPU {gpu.uuid} counts otherwise"
        assert 0 <= gpu.used_mib <= gpu.allocatable_mib
        assert 0 <= gpu.used_thousandths <= 1000


def check_slots(tables: Tables) -> None:
    """A key names one living lease, and a slot has one lease in each place."""
    keys, places = set(), set()
    for lease in tables.leases.values():
        living = lease.state in LIVING
        assert living == (lease.place is not None), f"{lease.id} is {lease.state} in place {lease.place}"
        if lease.live_key is not None:
            assert (lease.user, lease.live_key) not in keys
            keys.add((lease.user, lease.live_key))
        if lease.place is not None:
            place = lease.user, lease.server, lease.path, lease.place
            assert place not in places
            places.add(place)


def check_epochs(tables: Tables, before: Tables) -> None:
    """An epoch is given once, and agents' numbers only grow."""
    given: set[tuple[str | None, int]] = set()
    for lease in tables.leases.values():
        if lease.agent_name is None:
            continue
        agent = tables.agents[lease.agent_name]
        assert (lease.agent_name, lease.epoch) not in given, f"epoch {lease.epoch} was given twice"
        given.add((lease.agent_name, lease.epoch))
        assert 0 < lease.epoch <= agent.epoch
        assert 0 < (lease.start_seq or 0) <= agent.target_seq
        assert (lease.end_seq or 0) <= agent.target_seq
        old = before.leases.get(lease.id)
        if old is None or old.agent_name is None:
            known = before.agents.get(lease.agent_name)
            assert known is None or lease.epoch > known.epoch, "an epoch must be newer than all before it"
    for name, agent in before.agents.items():
        now = tables.agents[name]
        assert now.epoch >= agent.epoch
        assert now.target_seq >= agent.target_seq


def check_states(tables: Tables, before: Tables) -> None:
    for lease in tables.leases.values():
        old = before.leases.get(lease.id)
        assert lease.state in AFTER[old.state if old else ""], f"{old and old.state} to {lease.state}"
        if old is not None and old.epoch:
            assert (old.epoch, old.agent_name, old.user) == (lease.epoch, lease.agent_name, lease.user)


def uses(tables: Tables) -> dict[tuple[str, str], int]:
    """What each account holds of each class, up the tree. A lease that was replaced once does not count (its
    slot's newer one does), nor does one on a class hour's seat (it counts beside the quota).
    """
    held: dict[tuple[str, str], int] = defaultdict(int)
    for lease in tables.leases.values():
        if lease.state not in HOLDING or lease.replaced_at is not None or lease.window is not None:
            continue
        account: str | None = lease.course
        while account is not None:
            held[account, lease.gpu_class or ""] += lease.thousandths
            row = tables.accounts.get(account)
            account = None if row is None else row.parent
    return held


def ceiling(quota: Quota | None, kind: str) -> int | None:
    """The most that an account may hold; None for no limit."""
    if quota is None:
        return 0 if kind == "course" else None
    limits = [quota.hard_limit]
    if quota.borrowing_limit is not None:
        limits.append(quota.nominal + quota.borrowing_limit)
    return min((limit for limit in limits if limit is not None), default=None)


def check_quotas(tables: Tables, before: Tables) -> None:
    """No step takes an account above its ceiling; one that is above it, since that shrank, takes no more."""
    was, now = uses(before), uses(tables)
    for (account, gpu_class), held in now.items():
        row = tables.accounts[account]
        most = ceiling(tables.quotas.get((account, gpu_class)), row.kind)
        if most is not None:
            assert held <= max(most, was[account, gpu_class]), f"{account} holds {held} of {most} {gpu_class}"


def check_seats(tables: Tables, now: int) -> None:
    """What is planned for classes at the same time fits each GPU."""
    open_seats = [seat for seat in tables.seats if seat.state != "returned"]
    for gpu in tables.gpus.values():
        mine = [(seat, tables.windows[seat.window]) for seat in open_seats if seat.gpu_id == gpu.id]
        mine = [(seat, window) for seat, window in mine if window.state in ("planned", "open")]
        for _, at in mine:
            together = [seat for seat, w in mine if w.starts_at <= at.starts_at < w.ends_at]
            assert sum(seat.mib for seat in together) <= gpu.allocatable_mib
            assert sum(seat.thousandths for seat in together) <= 1000


def check_books(book: Mapping[str, Mapping[Any, Row]], rows: Iterable[Row]) -> None:
    """The book holds what is stored: all that lives, and of what has ended nothing else."""
    stored = {(type(row), tuple(getattr(row, name) for name in row.KEY)): row for row in rows}
    in_book = {
        (type(row), tuple(getattr(row, name) for name in row.KEY)): row
        for table in book.values()
        for row in table.values()
    }
    for key, row in in_book.items():
        assert stored.get(key) == row, f"the book has {row}, the store {stored.get(key)}"
    ended = {row.id for row in stored.values() if isinstance(row, Lease) and row.state in FINAL}
    for key, row in stored.items():
        forgotten = (
            isinstance(row, Lease | Slice) and (row.id if isinstance(row, Lease) else row.lease_id) in ended
        )
        assert key in in_book or forgotten, f"the book lacks {row}"
