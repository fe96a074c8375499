"""A batch is one transaction: what is refused leaves nothing, what is granted stays, whatever fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu_kernels.errors import LedgerUnavailable, OutcomeUnknown, PoolFull
from gpu_kernels.pool.ledger import Job, Transaction
from gpu_kernels.pool.ledger.commands import release, reservation
from gpu_kernels.pool.ledger.commands.outage import SPREAD
from gpu_kernels.pool.ledger.queries import pool_views
from gpu_kernels.pool.ledger.state.book import Book
from gpu_kernels.pool.ledger.state.rows import TABLES, Change, Lease, Row, key_of
from gpu_kernels.pool.ledger.stores import Deposed
from gpu_kernels.pool.ledger.stores.memory import MemoryStore
from tests.pool.rig import TTL, MemoryRig, Rig

pytestmark = pytest.mark.quick


class Faulty(MemoryStore):
    """A store that fails in the way of its subclass while it is ``on``."""

    on = False


class FailingCommit(Faulty):
    def commit(self) -> None:
        if self.on:
            raise LedgerUnavailable("The GPU pool cannot write to its ledger now.", retry_after=10.0)
        super().commit()


class CommitOfUnknownOutcome(Faulty):
    happens = True

    def commit(self) -> None:
        if not self.on:
            super().commit()
            return
        if self.happens:
            super().commit()
        raise OutcomeUnknown("The GPU pool's ledger failed in the middle of a write.", retry_after=2.0)


class NoLock(Faulty):
    def begin(self, *, writes: bool = True) -> int:
        if self.on and writes:
            raise LedgerUnavailable("The GPU pool cannot write to its ledger now.", retry_after=10.0)
        return super().begin(writes=writes)


class ConstraintAgainstSecrets(Faulty):
    """As a database that cannot keep some text which the book can."""

    def write(self, changes: Sequence[Change]) -> None:
        if any(isinstance(c.after, Lease) and "\x00" in c.after.path for c in changes):
            raise ValueError("a NUL cannot be stored")
        super().write(changes)


def rig_on(kind: type[Faulty]) -> tuple[MemoryRig, Any]:
    rig = MemoryRig(store=kind)
    rig.agent()
    return rig, rig.ledger.store


def reserving(rig: Rig, path: str, size: str = "0.02 V100", **fields: Any) -> Job:
    request = rig.request(path, size, **fields)
    return Job(lambda tx: reservation.reserve(tx, request).id)


def everything(book: Book) -> dict[str, Any]:
    return {kind.TABLE: dict(getattr(book, kind.TABLE)) for kind in TABLES}


def committed(rig: MemoryRig) -> dict[type[Row], dict[Any, Row]]:
    return {kind: dict(rows) for kind, rows in rig.disk.rows.items()}


def as_stored(book: Book) -> dict[type[Row], dict[Any, Row]]:
    tables = {kind: getattr(book, kind.TABLE).values() for kind in TABLES}
    return {kind: {key_of(row): row for row in rows} for kind, rows in tables.items()}


def test_a_job_that_raises_is_undone_and_the_others_stand() -> None:
    rig, _ = rig_on(Faulty)

    def broken(tx: Transaction) -> None:
        reservation.reserve(tx, rig.request("broken.ipynb"))
        raise ZeroDivisionError

    batch = rig.ledger.run(
        [
            reserving(rig, "a.ipynb"),
            Job(broken),
            reserving(rig, "b.ipynb", "1 V100", groups=["cv202"]),
            reserving(rig, "c.ipynb"),
        ]
    )
    kinds = [type(outcome.error) for outcome in batch.outcomes]
    assert kinds == [type(None), ZeroDivisionError, PoolFull, type(None)]
    assert {lease["slot"]["path"] for lease in rig.leases()} == {"a.ipynb", "c.ipynb"}
    assert rig.mismatch() == 0
    assert batch.changes.leases == {outcome.result for outcome in batch.outcomes if outcome.result}


def test_a_job_that_tears_an_index_harms_no_other() -> None:
    rig, _ = rig_on(Faulty)
    first = rig.reserve("first.ipynb")

    def twice(tx: Transaction) -> None:
        tx.put(replace(tx.book.leases[first["id"]], id="f" * 32))

    batch = rig.ledger.run([reserving(rig, "a.ipynb"), Job(twice), reserving(rig, "b.ipynb")])
    kinds = [type(outcome.error) for outcome in batch.outcomes]
    assert kinds == [type(None), AssertionError, type(None)]
    assert as_stored(rig.ledger.book)[Lease] == committed(rig)[Lease]
    assert rig.reserve("first.ipynb")["id"] == first["id"]
    assert rig.mismatch() == 0


def test_readers_see_what_the_batch_has_committed() -> None:
    rig, _ = rig_on(Faulty)
    batch = rig.ledger.run([Job(pool_views.gpus, reads=True), reserving(rig, "a.ipynb")])
    assert batch.outcomes[0].get()[0].used_thousandths == 20


def test_a_reader_that_changes_something_is_undone() -> None:
    rig, _ = rig_on(Faulty)
    before = everything(rig.ledger.book)
    with pytest.raises(AssertionError, match="a reader changed the book"):
        rig.ledger.read(lambda tx: reservation.reserve(tx, rig.request()))
    assert everything(rig.ledger.book) == before


def test_a_commit_that_fails_refuses_all_and_leaves_nothing() -> None:
    rig, store = rig_on(FailingCommit)
    rig.reserve("before.ipynb")
    book, rows = everything(rig.ledger.book), committed(rig)
    store.on = True
    batch = rig.ledger.run([reserving(rig, "a.ipynb"), reserving(rig, "b.ipynb")])
    assert [type(outcome.error) for outcome in batch.outcomes] == [LedgerUnavailable] * 2
    assert (everything(rig.ledger.book), committed(rig)) == (book, rows)
    assert not batch.changes.leases
    store.on = False
    assert rig.reserve("a.ipynb")["epoch"] == 2


@pytest.mark.parametrize("happens", [True, False])
def test_after_an_unknown_outcome_the_book_is_what_the_store_has(happens: bool) -> None:
    rig, store = rig_on(CommitOfUnknownOutcome)
    store.on, store.happens = True, happens
    with pytest.raises(OutcomeUnknown):
        rig.reserve("a.ipynb")
    store.on = False
    assert len(rig.leases()) == happens
    again = rig.reserve("a.ipynb")
    assert (again["epoch"], len(rig.leases())) == (1, 1)
    assert rig.mismatch() == 0


def test_rows_that_the_store_does_not_take_undo_only_their_own_job() -> None:
    rig, _ = rig_on(ConstraintAgainstSecrets)
    batch = rig.ledger.run(
        [reserving(rig, "a.ipynb"), reserving(rig, "\x00.ipynb"), reserving(rig, "c.ipynb")]
    )
    assert [type(outcome.error) for outcome in batch.outcomes] == [type(None), ValueError, type(None)]
    assert {lease["slot"]["path"] for lease in rig.leases()} == {"a.ipynb", "c.ipynb"}


def test_readers_are_answered_while_nothing_can_be_written() -> None:
    rig, store = rig_on(NoLock)
    store.on = True
    batch = rig.ledger.run([reserving(rig, "a.ipynb"), Job(pool_views.gpus, reads=True)])
    assert type(batch.outcomes[0].error) is LedgerUnavailable
    assert batch.outcomes[1].get()[0].used_thousandths == 0


def test_nobody_loses_a_lease_because_renewals_could_not_be_written() -> None:
    rig, store = rig_on(FailingCommit)
    lease = rig.reserve()
    store.on = True
    with pytest.raises(LedgerUnavailable):
        rig.renew(lease)
    rig.now += 5 * TTL
    store.on = False
    rig.sweep()
    assert rig.state(lease) == "reserved"
    rig.now += round((1 + SPREAD) * TTL)
    rig.sweep()
    assert rig.state(lease) == "quarantined"


def test_a_controller_whose_term_is_over_decides_and_tells_nothing_any_more() -> None:
    rig, _ = rig_on(Faulty)
    lease = rig.reserve()
    old = rig.ledger
    rig.open()
    for _ in range(2):
        with pytest.raises(Deposed):
            old.write(lambda tx: release.release(tx, "ada", lease["id"], "kernel-1"))
        with pytest.raises(Deposed):
            old.read(pool_views.gpus)
    assert rig.state(lease) == "reserved"


def test_memory_is_what_the_store_has_after_every_kind_of_change() -> None:
    rig, _ = rig_on(Faulty)
    first = rig.reserve()
    rig.report(alive=[first])
    rig.reserve("a.ipynb", "0.04 V100")
    rig.set_limit("ml101", {"A100": 5})
    rig.release(first)
    rig.pass_time(TTL)
    rig.report()
    stored, book = committed(rig), as_stored(rig.ledger.book)
    for kind in TABLES:
        if kind.TABLE != "events":
            assert stored[kind] == book[kind]


class TestForgetting:
    def test_ended_leases_leave_the_book_and_are_still_told(self, tmp_path: Path) -> None:
        rig = Rig(tmp_path / "ledger.sqlite")
        rig.agent()
        lease = rig.reserve()
        rig.release(lease)
        rig.report()
        rig.now += rig.ledger.timing.remember_ended + 1
        rig.report(done=0)
        assert lease["id"] not in rig.ledger.book.leases
        assert not rig.ledger.book.slices
        told = rig.lease(lease)
        assert (told["state"], told["slices"]) == ("released", lease["slices"])
        assert [seen["id"] for seen in rig.leases(ended=True)] == [lease["id"]]
        assert rig.leases() == []
        assert rig.mismatch() == 0
        rig.close()
