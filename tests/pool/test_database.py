"""The database: how it is opened, migrated, and what happens when it cannot be written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import event, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import IntegrityError
from sqlalchemy.schema import CreateTable

from gpu_kernels.errors import LedgerUnavailable
from gpu_kernels.pool.ledger import Ledger, ending
from gpu_kernels.pool.ledger.database import NewerDatabase, migrate, now_ms, open_engine
from gpu_kernels.pool.ledger.keeping import prune
from gpu_kernels.pool.ledger.models import Base, Event, Gpu, Lease, Usage
from tests.pool.rig import TTL, Rig

DAY = 86_400_000


def test_migrations_make_what_the_models_say(rig: Rig) -> None:
    engine = open_engine(rig.url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()


def test_a_migrated_database_is_left_alone(rig: Rig) -> None:
    lease = rig.reserve()
    engine = open_engine(rig.url)
    migrate(engine)
    engine.dispose()
    assert rig.state(lease) == "reserved"


def test_a_database_of_a_newer_version_is_refused_and_not_touched(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    Ledger(url).start()
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(NewerDatabase, match=r"newer version \(schema 9999\).*nothing was changed"):
        Ledger(url).start()
    with engine.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == "9999"
    engine.dispose()


def test_a_commit_survives_a_power_cut_and_keys_are_checked(rig: Rig) -> None:
    def pragmas(tx: Any) -> list[Any]:
        names = ("journal_mode", "synchronous", "foreign_keys")
        return [tx.session.execute(text(f"PRAGMA {name}")).scalar() for name in names]

    assert rig.write(pragmas) == ["wal", 2, 1]


def test_the_databases_clock_is_in_milliseconds(rig: Rig) -> None:
    def times(tx: Any) -> tuple[int, int]:
        return tx.session.execute(text("SELECT CAST(strftime('%s') AS INTEGER)")).scalar(), tx.session.scalar(
            now_ms()
        )

    seconds, milliseconds = rig.read(times)
    assert abs(milliseconds / 1000 - seconds) < 2


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE gpus SET used_mib = allocatable_mib + 1",
        "UPDATE gpus SET used_mib = -1",
        "UPDATE gpus SET used_thousandths = 1001",
        "UPDATE leases SET place = NULL",
        "UPDATE leases SET agent_name = 'nobody'",
        "UPDATE lease_slices SET mib = 0",
        "UPDATE course_limits SET thousandths = -1",
        "INSERT INTO leases SELECT * FROM leases",
        "UPDATE leases SET live_key = 'same', server = id",
        "UPDATE leases SET path = 'same'",
        "DELETE FROM gpus",
    ],
)
def test_what_must_never_be_is_refused_by_the_database_itself(rig: Rig, statement: str) -> None:
    rig.reserve("a.ipynb")
    rig.reserve("b.ipynb")
    with pytest.raises(IntegrityError):
        rig.write(lambda tx: tx.session.execute(text(statement)) and None)
    assert len(rig.leases()) == 2


@pytest.mark.parametrize("table", Base.metadata.sorted_tables, ids=str)
def test_the_tables_are_good_for_postgresql_too(table: Any) -> None:
    assert "CREATE TABLE" in str(CreateTable(table).compile(dialect=postgresql.dialect()))
    assert "clock_timestamp()" in str(now_ms().compile(dialect=postgresql.dialect()))


class FullDisk:
    """Lets the ledger's database grow no further while it is ``on``."""

    def __init__(self, ledger: Ledger) -> None:
        self.on = False
        event.listen(ledger._engine, "checkout", self._limit)

    def _limit(self, connection: Any, *ignored: object) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0] if self.on else 2**31 - 2
        connection.execute(f"PRAGMA max_page_count = {pages}")


def fill_until_refused(rig: Rig) -> LedgerUnavailable:
    for number in range(2000):
        try:
            rig.reserve(f"{number}-{'x' * 900}", "0.001 V100", groups=["cv202"], user="zoe")
        except LedgerUnavailable as error:
            return error
    raise AssertionError("the disk never filled")


class TestFullDisk:
    def test_it_is_a_refusal_in_clear_words_and_changes_nothing(self, rig: Rig) -> None:
        lease = rig.reserve()
        disk = FullDisk(rig.ledger)
        disk.on = True
        error = fill_until_refused(rig)
        before = rig.leases()
        assert "its disk is full or failing" in error.message
        assert "SQLITE_FULL" in error.log_message
        assert error.retry_after == 10
        with pytest.raises(LedgerUnavailable):
            rig.reserve("y" * 1000, "0.001 V100", groups=["cv202"], user="zoe")
        assert rig.leases() == before
        assert rig.mismatch() == 0
        disk.on = False
        assert rig.reserve("b.ipynb")["state"] == "reserved"
        assert rig.state(lease) == "reserved"

    def test_nobody_loses_a_lease_because_renewals_could_not_be_written(self, rig: Rig) -> None:
        lease = rig.reserve()
        disk = FullDisk(rig.ledger)
        disk.on = True
        fill_until_refused(rig)
        rig.now += 5 * TTL
        disk.on = False
        rig.write(ending.sweep)
        assert rig.state(lease) == "reserved"
        rig.now += TTL
        rig.write(ending.sweep)
        assert rig.state(lease) == "quarantined"


def test_what_ended_long_ago_is_forgotten_and_accounts_are_kept(rig: Rig) -> None:
    old = rig.reserve()
    rig.release(old)
    rig.report()
    rig.now += 100 * DAY
    rig.report(done=0)
    living = rig.reserve("b.ipynb")
    rig.write(lambda tx: prune(tx, tx.now - 90 * DAY))

    def left(tx: Any) -> tuple[list[str], int, int, int]:
        leases = [lease.id for lease in tx.session.query(Lease)]
        about_old = tx.session.query(Event).filter_by(subject=old["id"]).count()
        return leases, about_old, tx.session.query(Usage).count(), tx.session.query(Gpu).count()

    assert rig.read(left) == ([living["id"]], 0, 2, 1)
