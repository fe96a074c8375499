"""A ledger whose disk is full refuses in clear words, changes nothing, and goes on when there is room."""

from __future__ import annotations

from gpu_kernels.errors import LedgerUnavailable
from gpu_kernels.pool.ledger.commands.retention import prune
from gpu_kernels.pool.ledger.state.rows import Event, Gpu, Lease, Slice
from tests.pool.rig import Rig

DAY = 86_400_000


def limit_pages(rig: Rig, *, full: bool) -> None:
    """Let the ledger's database grow no further, or as it likes."""
    connection = rig.ledger.store._connected()  # type: ignore[attr-defined]
    pages = connection.execute("PRAGMA page_count").fetchone()[0] if full else 2**31 - 2
    connection.execute(f"PRAGMA max_page_count = {pages}")


def fill_until_refused(rig: Rig) -> LedgerUnavailable:
    for number in range(2000):
        try:
            rig.reserve(f"{number}-{'x' * 900}", "0.001 V100", groups=["cv202"], user="zoe")
        except LedgerUnavailable as error:
            return error
    raise AssertionError("the disk never filled")


def test_a_full_disk_is_a_refusal_in_clear_words_and_changes_nothing(rig: Rig) -> None:
    lease = rig.reserve()
    limit_pages(rig, full=True)
    error = fill_until_refused(rig)
    before = rig.leases()
    assert "its disk is full or failing" in error.message
    assert "SQLITE_FULL" in error.log_message
    assert error.retry_after == 10
    assert rig.leases() == before
    assert rig.mismatch() == 0
    limit_pages(rig, full=False)
    assert rig.reserve("b.ipynb")["state"] == "reserved"
    assert rig.state(lease) == "reserved"


def test_what_ended_long_ago_is_forgotten_and_accounts_are_kept(rig: Rig) -> None:
    old = rig.reserve()
    rig.release(old)
    rig.report()
    rig.now += 100 * DAY
    rig.report(done=0)
    living = rig.reserve("b.ipynb")
    rig.write(lambda tx: prune(tx, tx.now - 90 * DAY))
    assert [lease.id for lease in rig.rows(Lease)] == [living["id"]]
    assert [event for event in rig.rows(Event) if event.subject == old["id"]] == []
    assert (len(rig.rows(Slice)), len(rig.rows(Gpu))) == (2, 1)
