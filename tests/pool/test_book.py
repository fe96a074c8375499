"""The book: undo is complete, and what follows it is what a book made anew would have."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_kernels.errors import PoolError
from gpu_kernels.pool.ledger import Job, Transaction
from gpu_kernels.pool.ledger.commands import agent_reports, release, renewal, reservation
from gpu_kernels.pool.ledger.commands.sweep import sweep
from gpu_kernels.pool.ledger.state.book import Book
from gpu_kernels.pool.ledger.state.indexes.generic import Due, Groups, Ordered, Unique
from gpu_kernels.pool.ledger.state.rows import TABLES, Lease, changed
from gpu_kernels.resources.agents import AgentReport
from tests.pool.rig import TTL, MemoryRig

pytestmark = pytest.mark.quick

INDEXES = (
    "by_live_key", "by_place", "living", "of_server", "swapped", "in_force", "ending", "waiting", "slices_of",
    "held", "gpus_of", "claims", "quotas_of", "seats_of", "windows_of",
)  # fmt: skip


def rows_of(book: Book) -> dict[str, Any]:
    return {kind.TABLE: dict(getattr(book, kind.TABLE)) for kind in TABLES if kind.TABLE != "events"}


def followed(book: Book, now: int) -> dict[str, Any]:
    """What all followers know, without the order in which they learned it."""
    found: dict[str, Any] = {name: getattr(book, name)._rows for name in INDEXES}
    found["waiting"] = [lease.id for lease in book.waiting]
    found["over"] = sorted(book.over.by(2**62, 10**6))
    found["forgettable"] = sorted(book.forgettable.by(2**62, 10**6))
    for name in ("settled", "ending"):
        sums = getattr(book.holdings, name)
        found[name] = {(c, g): v for c, of in sums.items() for g, v in of.items() if v}
    tree = book.entitlements.tree
    found["use"] = {
        (course, gpu_class): tree.use(course, gpu_class)
        for course in book.accounts
        for gpu_class in ("V100", "A100")
    }
    found["index"] = {gpu.id: gpu for gpu in book.places.index.gpus()}
    found["servers"] = book.places.servers(now, 30_000)
    shares = book.fair.shares
    found["shares"] = {
        (course, user): {c: u for c, u in shares.uses(course, user, now).items() if u}
        for course in book.accounts
        for user in ("", "ada", "bob", "eve")
    }
    found["capacity"] = {c: v for c, v in shares.capacity.items() if v}
    return found


def made_anew(book: Book) -> Book:
    new = Book()
    new.load([row for kind in TABLES for row in getattr(book, kind.TABLE).values()], book.last_event)
    return new


class Mess:
    """Random jobs, some of which raise when they are done."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rig = MemoryRig({"ml101": {"V100": 300, "A100": 300}, "cv202": {"V100": 2500}})
        self.rig.agent("gpu1", gpus=2)
        self.rig.agent("gpu2", gpu_class="A100", mib=16384)

    def job(self) -> Job:
        pick = self.random
        work = pick.choice([self.reserve, self.reserve, self.reserve, self.end, self.renew, self.report])()
        if pick.random() < 0.25:
            work = self.failing(work)
        return Job(work)

    def failing(self, work: Any) -> Any:
        def fail(tx: Transaction) -> None:
            with suppress(PoolError):
                work(tx)
            raise ZeroDivisionError

        return fail

    def reserve(self) -> Any:
        pick = self.random
        user = pick.choice(["ada", "bob", "eve"])
        request = self.rig.request(
            pick.choice("abc"),
            pick.choice(["0.02 V100", "0.5 V100", "1 V100", "2 V100", "0.1 GPU", "0.2 A100", "4096 MiB"]),
            user=user,
            groups=["cv202" if user == "eve" else "ml101"],
            key=f"k{pick.randrange(6)}",
            wait=pick.choice([0, 60]),
        )
        return lambda tx: reservation.reserve(tx, request)

    def some(self) -> Lease | None:
        leases = sorted(self.rig.ledger.book.leases.values(), key=lambda lease: lease.id)
        return self.random.choice(leases) if leases else None

    def end(self) -> Any:
        lease = self.some()
        return lambda tx: lease and release.release(tx, lease.user, lease.id, lease.holder)

    def renew(self) -> Any:
        lease = self.some()
        return lambda tx: lease and renewal.renew(tx, lease.user, [(lease.id, lease.epoch)])

    def report(self) -> Any:
        name = self.random.choice(["gpu1", "gpu2"])
        done = self.random.choice([0, 10**6])
        counts_by = self.rig.ledger.incarnation

        def report(tx: Transaction) -> None:
            agent = tx.book.agents[name]
            said = AgentReport(
                boot_id=agent.boot_id,
                target_seq=min(done, agent.target_seq),
                incarnation=counts_by,
                leases=(),
            )
            agent_reports.report(tx, name, said, owner="gpu-server")

        return report

    def step(self) -> None:
        self.rig.now += self.random.choice([0, 1, 1000, 20_000])
        if self.random.random() < 0.1:
            self.rig.write(sweep)
        self.rig.ledger.run([self.job() for _ in range(self.random.randrange(1, 6))])


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_whatever_happens_all_that_follows_is_as_made_anew(seed: int) -> None:
    mess = Mess(seed)
    for _ in range(12):
        mess.step()
        book = mess.rig.ledger.book
        assert followed(book, mess.rig.now) == followed(made_anew(book), mess.rig.now)
        assert mess.rig.mismatch() == 0


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_undo_leaves_nothing_behind(seed: int) -> None:
    mess = Mess(seed)
    for _ in range(6):
        mess.step()
    book = mess.rig.ledger.book
    before, known = rows_of(book), followed(made_anew(book), mess.rig.now)
    jobs = [mess.failing(mess.job().work) for _ in range(8)]
    mess.rig.ledger.run([Job(job) for job in jobs])
    assert rows_of(book) == before
    assert followed(book, mess.rig.now) == known


class TestIndexes:
    def test_a_time_put_off_comes_when_it_is_time(self) -> None:
        due = Due[tuple[str, int]](lambda row: row[1], lambda row: row[0])
        due.change(None, ("a", 10))
        due.change(("a", 10), ("a", 30))
        due.change(None, ("b", 20))
        assert due.by(20, 9) == ["b"]
        assert due.by(29, 9) == ["b"]
        assert due.by(30, 9) == ["b", "a"]
        assert due.by(30, 1) == ["b"]

    def test_a_time_brought_forward_is_told_once(self) -> None:
        due = Due[tuple[str, int]](lambda row: row[1], lambda row: row[0])
        for before, after in ((None, 5), (5, 3), (3, 5), (5, 3), (3, 5)):
            due.change(None if before is None else ("a", before), ("a", after))
        assert due.by(4, 9) == []
        assert due.by(5, 9) == ["a"]
        due.change(("a", 5), None)
        assert due.by(99, 9) == []

    def test_two_rows_of_one_name_are_a_bug(self) -> None:
        unique = Unique[tuple[str, int]](lambda row: row[0])
        unique.change(None, ("a", 1))
        with pytest.raises(AssertionError, match="two rows"):
            unique.change(None, ("a", 2))

    def test_an_order_is_that_of_the_ranks(self) -> None:
        ordered = Ordered[int](lambda row: None if row < 0 else row)
        for row in (3, 1, 2, -1):
            ordered.change(None, row)
        ordered.change(3, 0)
        assert (list(ordered), ordered.last(), len(ordered)) == ([0, 1, 2], 2, 3)

    def test_groups_without_rows_are_gone(self) -> None:
        groups = Groups[tuple[str, int]](lambda row: row[0], lambda row: row[1])
        groups.change(None, ("a", 1))
        groups.change(("a", 1), ("b", 1))
        assert (dict(groups.of("a")), dict(groups.of("b"))) == ({}, {1: ("b", 1)})
        assert list(groups._rows) == ["b"]


def test_a_changed_row_is_what_replace_would_make() -> None:
    rig = MemoryRig()
    rig.agent()
    rig.reserve()
    (lease,) = rig.ledger.book.leases.values()
    assert changed(lease, expires_at=5, reason="x") == replace(lease, expires_at=5, reason="x")
    assert lease.expires_at == rig.now + TTL
    with pytest.raises(KeyError):
        changed(lease, no_such_field=1)
